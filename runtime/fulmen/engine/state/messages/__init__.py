"""Messages that have not ended, of spouts and of bolts' results.

Those that are pending, those that failed and rest, and tuples that were dropped. Uses `entries`,
`values` and what is above in `state`.
"""
