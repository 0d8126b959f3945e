"""From an author's `emit` to the rows that leave a task: collectors, routes, the outbox.

Uses `tuples`, `grouping`, `acking` and `protocol`; used by `tasks`.
"""
