"""Writes a driver's checkpoint.

`committer` writes batches; `layout` is what a checkpoint belongs to, and `migration` how it gets
the shape of a changed topology. Uses what is above it.
"""
