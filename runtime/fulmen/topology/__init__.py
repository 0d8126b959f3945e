"""The resource `kind: Topology`: its models, reading, the author's code, and every mistake in it.

Imports neither Spark nor Kubernetes. The command line, the driver's pod and the operator use it.
"""
