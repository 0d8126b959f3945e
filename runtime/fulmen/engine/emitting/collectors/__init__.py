"""The collectors that tasks emit, ack and fail with: lists to append to, and nothing else.

Uses `routes`. Used by `tasks`, whose outbox sends what is in them.
"""
