"""Changes that people make in a checkpoint, instead of a driver: each edit is a commit.

`repair` takes out what can't be read, or what is not wanted; `decisions` goes on with stores that
do not fit, and forgets components. Uses what is above it.
"""
