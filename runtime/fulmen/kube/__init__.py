"""Topologies on Kubernetes: the programs in their pods, and the contract with the operator.

The operator imports only `contract` and `placing`.
"""
