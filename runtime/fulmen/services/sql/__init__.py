"""Databases of SQL: PostgreSQL, SQLite, and how their statements are written.

Uses `services.service`, `services.pools`, `services.errors` and the clients. Used by `connectors`
and `transactional`.
"""
