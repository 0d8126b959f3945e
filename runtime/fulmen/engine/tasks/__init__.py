"""Spouts, bolts and ackers in one batch: an author's instance and everything that is around it.

`author` has what calls an author's code, `bolts` the kinds of bolts, and `transactional` the tasks
of transactional topologies.

Uses `emitting`, `state`, `protocol`, `acking`, `time` and `tuples`; used by `worker`, by `hosted`
for pinned spouts, and by `driver`, which runs the ackers itself where they keep nothing. Outside of
the engine, `testing` and the preflight in `kube` make single tasks.
"""
