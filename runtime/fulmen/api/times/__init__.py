"""Event times, of one value and of columns, and the timers of a bolt.

Uses `errors` and `api.keys`. Used by `context`, and by whoever reads or compares times.
"""
