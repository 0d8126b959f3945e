"""Decides which batch comes next, and what a finished or failed one means. Pure.

How large batches are, which stages they may leave out, how long an idle topology waits, and which
tuple kills its workers. Uses `protocol` and `tuples`; used by `driver`, `hosted` and
`totals`.
"""
