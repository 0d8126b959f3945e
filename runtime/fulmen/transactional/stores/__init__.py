"""Maps in SQLite, PostgreSQL and Redis.

Uses `maps`, what is below it, and `services`, whose clients are imported only when a map of their
kind is made. Used by authors through `fulmen.transactional`.
"""
