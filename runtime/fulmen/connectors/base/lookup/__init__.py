"""Lookups in small tables that each worker has in memory, such as a file or a table of SQLite.

`table` is what a system provides: what the table is like now, and its rows. `index` has the rows by
their keys, `holder` keeps it up to date, and `bolt` completes tuples.
"""
