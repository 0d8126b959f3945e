"""How a topic is read: its partitions, places in them, messages as tuples, and what goes wrong.

Uses `client` and `options`. Used by the spouts.
"""
