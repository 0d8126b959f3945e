"""Maps in SQLite, PostgreSQL and Redis, and the connections of a process to them.

Uses `maps` and what is below it, and the clients of the databases, which are imported only when a
map of their kind is made. Used by authors through `fulmen.transactional`.
"""
