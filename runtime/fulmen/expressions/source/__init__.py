"""Expressions as Python source: `compiling` walks a tree, the others make what it comes upon.

Uses `expressions.library`, `expressions.parsing` and `expressions.sql_types`. Used by `steps` and
`selection`.
"""
