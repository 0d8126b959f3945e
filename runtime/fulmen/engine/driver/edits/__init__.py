"""Changes that people make in a checkpoint, instead of a driver: each edit is a commit.

`entries` sets and removes keys and fields, in the task that `owners` says, and `undo` takes that
back. `repair` takes out what can't be read; `decisions` goes on with stores that do not fit, and
forgets components. `changes` is what is known of all of them. Uses what is above it.
"""
