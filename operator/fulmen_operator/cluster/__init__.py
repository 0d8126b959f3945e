"""The cluster, as the API server knows it: what is there, and writing to it.

Only `client` imports the Kubernetes client. Uses `manifests` and below, and decides nothing; used
by `controller`.
"""
