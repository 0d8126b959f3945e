"""Authors' code that the driver hosts: pinned spouts, and the coordinator of transactions.

Uses `tasks` and the rooms below it. `driver` uses it.
"""
