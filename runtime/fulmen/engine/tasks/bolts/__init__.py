"""The tasks of bolts: how tuples reach `execute`, and what becomes of emits, acks and failures.

One module for each kind: bolts that ack themselves or not, async ones, Arrow's, and sinks; what
they have in common is in `bolt_task` and `kept_tuples`. Uses `tasks.task`, `tasks.parts` and the
rooms that `tasks` uses; used by `tasks.kinds`, `tasks.transactional` and `worker`.
"""
