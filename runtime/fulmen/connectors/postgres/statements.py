"""The statements of a sink's table and of its marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg.sql import Literal

from fulmen.connectors.postgres.database import escaped
from fulmen.connectors.postgres.texts import Column
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.tables import MARKS, on_conflict
from fulmen.services.sql.names import listed, qualified, quoted

AFTER_INSERT_MASK, AFTER_INSERT = 1 | 2 | 4 | 64, 1 | 4
"""Of pg_trigger.tgtype: for each row (1), after (neither 2 nor 64) an INSERT (4)."""


class TableStatements:
    """The statements of a sink. Rows are given as an array of text for each column.

    Attributes:
        insert: Adds or replaces rows.
        copy: Adds rows, by COPY.
        delete: Deletes rows, given the columns of the key.
        delete_null: The same for keys that have nulls. It uses no index.
        ranks: Numbers keys, given rows: equal numbers for those that the database takes for equal,
            by the collation of the table. None: it does not matter which rows are equal.
        present: A row of the table, as text.
        behind: Something, if the table has triggers that are called after rows were inserted.
        replaces: Whether `insert` may change a row that is there instead.
        lock_mark: Reads a mark.
        first_mark: Adds one.
        move_mark: Changes it.
    """

    def __init__(self, options: TableSinkOptions, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        table = escaped(qualified(options.table))
        marks = escaped(qualified(marks_beside(options.table)))
        arrays, aliases = ", ".join(["%s::text[]"] * len(columns)), _aliases("c", len(columns))
        values = ", ".join(_value(i, column) for i, column in enumerate(columns))
        self.insert = (
            f"INSERT INTO {table} ({escaped(listed(names))}) SELECT {values}"
            f" FROM unnest({arrays}) AS u ({aliases}){escaped(on_conflict(options, names))}"
        )
        self.copy = f"COPY {qualified(options.table)} ({listed(names)}) FROM STDIN"
        key = [(i, column) for i, column in enumerate(columns) if column.name in options.key]
        self.delete = _delete(table, options, columns, "=")
        self.delete_null = _delete(table, options, columns, "IS NOT DISTINCT FROM")
        self.replaces = options.mode == "upsert"
        self.ranks: str | None = None
        if self.replaces and len(columns) > len(key):
            of_key = ", ".join(_compared(i, column) for i, column in key)
            keys = ", ".join(f"k{i}" for i, _ in key)
            self.ranks = (
                f"SELECT dense_rank() OVER (ORDER BY {keys}) FROM ("
                f" SELECT {escaped(listed(c.name for _, c in key))}, 0::bigint FROM {table}"
                f" WHERE false UNION ALL SELECT {of_key}, u.at"
                f" FROM unnest({arrays}) WITH ORDINALITY AS u ({aliases}, at)"
                f") AS keys ({keys}, at) ORDER BY at"
            )
        as_text = ", ".join(f"{escaped(quoted(name))}::text" for name in names)
        self.present = f"SELECT {as_text} FROM {table} LIMIT 1"
        self.behind = (
            f"SELECT FROM pg_trigger WHERE tgrelid = to_regclass({Literal(table).as_string()})"
            f" AND NOT tgisinternal AND tgtype & {AFTER_INSERT_MASK} = {AFTER_INSERT} LIMIT 1"
        )
        self.lock_mark = f"SELECT number, tag, refused FROM {marks} WHERE sink = %s FOR UPDATE"
        self.first_mark = (
            f"INSERT INTO {marks} (sink, number, tag, label, refused)"
            " VALUES (%s, 0, '', %s, '') ON CONFLICT DO NOTHING"
        )
        self.move_mark = (
            f"UPDATE {marks} SET number = %s, tag = %s, label = %s, refused = %s WHERE sink = %s"
        )


def marks_beside(table: str) -> str:
    """The table of marks in the schema of a table."""
    schema, _, _ = table.rpartition(".")
    return f"{schema}.{MARKS}" if schema else MARKS


def _aliases(letter: str, count: int) -> str:
    return ", ".join(f"{letter}{i}" for i in range(count))


def _value(i: int, column: Column) -> str:
    """A column of the rows. Text is cast by the assignment, which refuses what is too long."""
    return f"u.c{i}" if column.kind == "text" else f"u.c{i}::{column.type}"


def _compared(i: int, column: Column) -> str:
    """A column of the rows as it is compared with the table's."""
    return f"u.c{i}::{column.type if column.kind == 'text' else column.exact}"


def _delete(table: str, options: TableSinkOptions, columns: Iterable[Column], equals: str) -> str:
    by_name = {column.name: column for column in columns}
    key = [by_name[name] for name in options.key if name in by_name]
    equal = " AND ".join(
        f"t.{escaped(quoted(column.name))} {equals} {_compared(i, column)}"
        for i, column in enumerate(key)
    )
    arrays = ", ".join(["%s::text[]"] * len(key))
    return (
        f"DELETE FROM {table} AS t USING unnest({arrays}) AS u ({_aliases('c', len(key))})"
        f" WHERE {equal}"
    )
