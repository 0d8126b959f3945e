"""Spouts, bolts and ackers in one batch: an author's instance and everything that is around it.

A task is a short list of parts: each restores, writes down and tells one thing. `task` has what all
kinds have in common, `parts` what only some have, and `spouts`, `bolts` and `transactional` the
kinds; `author` has what calls an author's code.

Uses `emitting`, `state`, `protocol`, `acking`, `time` and `tuples`; used by `worker`, by `hosted`
for pinned spouts, and by `driver`, which runs the ackers itself where they keep nothing. Outside of
the engine, `testing` and the preflight in `kube` make single tasks.
"""
