"""Spouts, bolts and ackers in one batch: an author's instance and everything that is around it.

Uses `emitting`, `state`, `protocol`, `acking` and `tuples`; used by `worker`, by `hosted` for
pinned spouts, and by `driver`, which runs the ackers itself where they keep nothing.
"""
