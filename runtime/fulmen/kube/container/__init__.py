"""What the containers of driver and preflight have in common: preparation, logs, how they end.

Uses `topology`, `checkpoint` and the contract with the operator; used by `kube.driver` and
`kube.preflight`.
"""
