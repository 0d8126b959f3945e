"""Which task has a key, and where keys and values of state are kept.

`hashing` gives each key a position; `homes` says what that means for an entry of state.
"""
