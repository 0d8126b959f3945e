"""Decides when topologies are looked at, and by which operator: lease, watches, queue, loop.

Uses `reconcile` for the decision and `cluster` for carrying it out; used by `handlers`.
"""
