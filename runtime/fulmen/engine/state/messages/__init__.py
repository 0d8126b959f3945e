"""Messages that have not ended, of spouts and of bolts' results.

Those that are pending, and those that failed and rest. Uses `values` and what is above in `state`.
"""
