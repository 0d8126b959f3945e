"""A topology on this machine: prepared, run, drained, with a folder for its state and its log.

Uses `engine`, `checkpoint` and `cli.display`; used by `cli.commands`.
"""
