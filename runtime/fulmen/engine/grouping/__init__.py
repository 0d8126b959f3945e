"""Who receives a tuple: Storm's groupings over whole columns, with Java's hash values.

A new grouping is a chooser in `choosers`. Uses `tuples`; used by `emitting`.
"""
