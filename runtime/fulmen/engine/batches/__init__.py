"""Decides which batch comes next, and what a finished or failed one means. Pure.

How large batches are, which stages they may leave out, how long the topology rests between them,
when nothing more will come, and which tuple kills its workers. `coordinator` asks the others. Uses
`protocol`, `time` and `tuples`; used by `driver` and `totals`. What shows figures outside
of the engine reads what a batch came to, in `done`, and some constants.
"""
