"""Tuple trees: Storm's acker algorithm over columns, and the acker's task.

The rule itself is `trees.step`. Uses `tuples`, and `checkpoint.rewriting` for what the task keeps;
used by whatever sends messages to ackers.
"""
