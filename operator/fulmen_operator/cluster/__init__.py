"""The cluster, as the API server knows it. Only `client` imports the Kubernetes client."""
