"""How a topic is written: the sink, its producer, and transactions with a mark.

Uses `client` and `options`.
"""
