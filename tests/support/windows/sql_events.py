"""What DuckDB says of events. Opening a database costs more than most queries: all use one."""

from functools import cache

import duckdb


@cache
def _database():
    return duckdb.connect(config={"threads": 1})


def by_sql(query, **tables):
    """The rows of a query.

    Args:
        query: SQL.
        tables: By name, their columns as SQL declares them, and their rows.
    """
    with _database().cursor() as connection:  # temporary tables are its own
        for name, (columns, rows) in tables.items():
            connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
            if rows:
                marks = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
                values = [value for row in rows for value in row]
                connection.execute(f"INSERT INTO {name} VALUES {marks}", values)
        return connection.execute(query).fetchall()
