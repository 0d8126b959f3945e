"""Topologies on Kubernetes: what runs in their pods, and what those and the operator agree on.

`contract` and `placing` are all that the operator imports of it.
"""
