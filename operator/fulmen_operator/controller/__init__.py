"""When topologies are looked at: the watches, the queue and the loop.

Uses `reconcile` for the decision and `cluster` for carrying it out; used by `handlers`.
"""
