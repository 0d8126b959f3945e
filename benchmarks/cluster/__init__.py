"""Benchmarks on the cluster of KUBECONFIG: what pods add to what is measured on one machine.

`python -m benchmarks.cluster` measures a topology; `first`, `operator`, `rebalance` and `singles`
are commands as well. The others are what these need.
"""
