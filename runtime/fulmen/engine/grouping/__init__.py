"""Who receives a tuple: Storm's groupings over whole columns, by the positions of keys.

A new grouping is a chooser in `choosers`. Uses `keyed` and `tuples`; used by `emitting`.
"""
