"""The tasks of transactional topologies: emitters, and bolts that see the end of a transaction.

Uses the other tasks, and is used as they are: `kinds` says which task a class needs.
"""
