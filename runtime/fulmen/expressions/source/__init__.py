"""Expressions as Python source: `compiling` walks a tree, the others make what it comes upon.

Uses `library`, `parsing` and `sql_types`. Used by `steps` and
`selection`.
"""
