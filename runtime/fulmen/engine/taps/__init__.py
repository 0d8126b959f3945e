"""Some of the tuples that are emitted, for people who look at a running topology.

Uses `tuples`, `protocol` and `acking`; used by `emitting`, which has the tuples, and by `driver`,
which has the taps.
"""
