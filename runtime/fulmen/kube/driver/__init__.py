"""The driver's pod: reads its instructions, runs the topology, reports, and ends when told to.

`pod` is the whole of it. `api` alone imports the Kubernetes client. Uses `kube.container`, `engine`
and `metrics`; used by `kube.__main__`.
"""
