"""When topologies are looked at, and by which operator: lease, watches, queue and loop.

Uses `reconcile` for the decision and `cluster` for carrying it out; used by `handlers`.
"""
