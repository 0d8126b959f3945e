"""The way to a cluster: topologies and pods through kubectl, and what a driver serves.

Nothing is shown here. Uses `kube.contract` and `metrics`; used by `commands` and `display`.
"""
