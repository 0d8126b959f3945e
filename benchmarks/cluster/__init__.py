"""Benchmarks on the cluster of KUBECONFIG."""
