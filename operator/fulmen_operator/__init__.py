"""The operator: makes what a Topology says true, and reports how it stands.

`handlers` are told of changes, `controller` decides when to look at a topology, `cluster` reads and
writes, `reconcile` decides, `manifests` makes objects. Of `fulmen` it may use only `topology` and
`kube.contract`, `kube.names`, `kube.placing`: it needs no Spark and no engine.
"""
