"""The parts that the containers of driver and preflight share: preparation, logs, how they end.

Uses `topology`, `checkpoint` and the contract with the operator; used by `kube.driver` and
`kube.preflight`.
"""
