"""What expressions may call: the table of functions, and what their compiled source calls.

Knows values and their types, and no trees of expressions. Used by what compiles them. Pure.
"""
