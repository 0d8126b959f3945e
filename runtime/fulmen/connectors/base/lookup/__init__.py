"""Lookups in tables that each worker has, such as a file or a table of SQLite.

`table` is what a system provides: what the table is like now, and its rows. `index` has the rows by
their keys, in memory or as `disk_rows`; `holder` keeps it up to date, and `bolt` completes tuples.
"""
