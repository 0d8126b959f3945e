"""The table of a sink: looked at once, and written to in one statement for each batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from fulmen.api.sinks import Mark, Rows
from fulmen.connectors.postgres.bisection import RowsRefused, write_but_refused
from fulmen.connectors.postgres.database import PostgresDatabase, escaped
from fulmen.connectors.postgres.texts import Column, Kind, Rules, Text, array, texts
from fulmen.connectors.postgres.writing import Contention, Writer
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.sink import KeptMark
from fulmen.connectors.sql.tables import (
    MARKS,
    WRITTEN,
    check_columns,
    check_marks,
    check_unwritten,
    cure_of_absence,
)
from fulmen.services.errors import StoreRefused
from fulmen.services.postgres import CREATES_ONE_AT_A_TIME, kind_of, qualified, said
from fulmen.services.service import ErrorKind

KINDS: Mapping[str, Kind] = {"S": "text", "N": "number", "A": "array"}
"""By the category of a type."""
TIMES = ("date", "time", "timetz", "timestamp", "timestamptz")
PLACES = re.compile(r"numeric\(\d+, ?(-?\d+)\)|(?:time|timestamp|interval)\b.*\((\d)\)")
"""How many digits behind the point a type keeps."""
AFTER_INSERT_MASK, AFTER_INSERT = 1 | 2 | 4 | 64, 1 | 4
"""Of pg_trigger.tgtype: for each row (1), after (neither 2 nor 64) an INSERT (4)."""
COLUMNS = """
SELECT a.attname, format_type(t.oid, -1), b.typname, b.typcategory,
       format_type(t.oid, a.atttypmod),
       format_type(b.oid, CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END),
       format_type(e.oid, -1), e.typname, e.typcategory,
       a.attgenerated <> '' OR a.attidentity = 'a',
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND NOT EXISTS (
           SELECT FROM pg_trigger WHERE tgrelid = a.attrelid AND NOT tgisinternal)
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type e ON b.typcategory = 'A' AND e.oid = b.typelem
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


class PostgresTable:
    """A table that was looked at.

    Attributes:
        columns: Those that are written, in the order of an item's values.
        may_delete: Whether its rows may be deleted: nobody must have that right if no field says
            that some are.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        options: TableSinkOptions,
        names: Sequence[str],
        contention: Contention,
        rules: Rules,
    ) -> None:
        """Look at the table, and at the table of marks if there is to be one.

        Args:
            database: Where it is.
            options: Of the sink.
            names: The columns that are written.
            contention: How often others were in the way of this task.
            rules: For values that would lose something.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name, a type or a right is wrong.
        """
        self.database = database
        self._mode, self._contention = options.mode, contention
        with database.opening() as db:
            self.columns = _columns(db, database.where, options, names, rules)
            self.statements = TableStatements(options, self.columns)
            self._key = [names.index(column) for column in options.key]
            self._try(db, options)

    def _try(self, db: psycopg.Connection[Any], options: TableSinkOptions) -> None:
        """Have the server look at all statements: it finds what is wrong with names and rights."""
        made = self.statements
        if options.guarantee == "exactly-once":
            _make_marks(db, self.database.where, options)
            db.execute(SQL("EXPLAIN ") + made.lock_mark, [""])
            db.execute(SQL("EXPLAIN ") + made.first_mark, ["", ""])
            db.execute(SQL("EXPLAIN ") + made.move_mark, [0, "", "", "", ""])
        db.execute(SQL("EXPLAIN ") + made.insert, ["{}"] * len(self.columns))
        self.may_delete = options.mode == "upsert" and self._tried_to_delete(db, options)
        if options.mode == "copy":
            with db.cursor().copy(made.copy):
                pass

    def _tried_to_delete(self, db: psycopg.Connection[Any], options: TableSinkOptions) -> bool:
        explain = SQL("EXPLAIN ") + self.statements.delete
        try:
            with db.transaction():  # a savepoint
                db.execute(explain, ["{}"] * len(options.key))
        except psycopg.ProgrammingError:  # a right is missing, or it is a view that has no deletes
            if options.deleted_field is not None:
                raise
            return False
        return True

    def encode(self, columns: Sequence[Sequence[Any]], rows: Rows) -> Sequence[Sequence[Text]]:
        """The text of each value."""
        encoded = [
            texts(column, values, rows.fail)
            for column, values in zip(self.columns, columns, strict=True)
        ]
        return list(zip(*encoded, strict=True))

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """One transaction."""
        with self.database.transaction() as db:
            writer = Writer(db, self.statements, self._mode, self._contention, self.database)
            yield PostgresTransaction(db, self.statements, writer, self._key)
        self._contention.tries = self._contention.ends = 0


class PostgresTransaction:
    """A transaction that writes rows and their mark."""

    def __init__(
        self,
        db: psycopg.Connection[Any],
        statements: TableStatements,
        writer: Writer,
        key: Sequence[int],
    ) -> None:
        self._db, self._statements, self._writer, self._key = db, statements, writer, key

    def locked_mark(self, mark: Mark) -> KeptMark:
        """The mark of a task. Who writes late waits here for the lock, and sees what was written.

        The isolation level is READ COMMITTED.
        """
        select, mine = self._statements.lock_mark, [mark.sink]
        found = self._db.execute(select, mine).fetchone()
        if found is None:
            self._db.execute(self._statements.first_mark, [mark.sink, mark.label])
            found = self._db.execute(select, mine).fetchone()
        number, tag, refused = found or (0, "", "[]")
        return KeptMark(number, tag, refused) if tag else KeptMark()

    def keep(self, mark: Mark, refused: str) -> None:
        """Write the mark."""
        values = [mark.number, mark.tag, mark.label, refused, mark.sink]
        self._db.execute(self._statements.move_mark, values)

    def write(self, items: Sequence[Sequence[Text]]) -> Mapping[int, str]:
        """Write all rows but those that the server refuses."""
        return self._writer.write(items, self._key)

    def delete(self, items: Sequence[Sequence[Text]]) -> Mapping[int, str]:
        """Delete what has the keys of these rows, but where the server refuses that."""
        keys = [[item[at] for at in self._key] for item in items]
        return write_but_refused(range(len(keys)), lambda at: self._delete([keys[i] for i in at]))

    def _delete(self, keys: Sequence[Sequence[Text]]) -> None:
        full, some = [k for k in keys if None not in k], [k for k in keys if None in k]
        try:
            with self._db.transaction():  # a savepoint
                for found, statement in (
                    (full, self._statements.delete),
                    (some, self._statements.delete_null),
                ):
                    if found:
                        columns = [array(column) for column in zip(*found, strict=True)]
                        self._db.execute(statement, columns)
        except psycopg.Error as error:
            if kind_of(error) is not ErrorKind.ROW:
                raise
            raise RowsRefused(said(error)) from None


@dataclass(frozen=True, init=False)
class TableStatements:
    """The statements of a sink's table and of its marks."""

    insert: Composed
    copy: Composed
    delete: Composed
    delete_null: Composed
    ranks: Composed | None
    lock_mark: Composed
    first_mark: Composed
    move_mark: Composed
    present: Composed
    behind: Composed
    replaces: bool

    def __init__(self, options: TableSinkOptions, columns: Sequence[Column]) -> None:
        parts: dict[str, Composable] = {
            "table": qualified(escaped(options.table)),
            "marks": marks_beside(escaped(options.table)),
            "columns": SQL(", ").join(Identifier(escaped(column.name)) for column in columns),
            "values": SQL(", ").join(SQL(_value(i, column)) for i, column in enumerate(columns)),
            "arrays": SQL(", ").join([SQL("%s::text[]")] * len(columns)),
            "aliases": SQL(", ").join(Identifier(f"c{i}") for i in range(len(columns))),
            "on_conflict": _on_conflict(options, columns),
            "as_text": SQL(", ").join(
                SQL("{}::text").format(Identifier(escaped(column.name))) for column in columns
            ),
            "name": Literal(qualified(escaped(options.table)).as_string()),
        }
        for name, statement in {
            "insert": "INSERT INTO {table} ({columns}) SELECT {values} FROM unnest({arrays})"
            " AS u ({aliases}){on_conflict}",
            "lock_mark": "SELECT number, tag, refused FROM {marks} WHERE sink = %s FOR UPDATE",
            "first_mark": "INSERT INTO {marks} (sink, number, tag, label, refused)"
            " VALUES (%s, 0, '', %s, '') ON CONFLICT DO NOTHING",
            "move_mark": "UPDATE {marks} SET number = %s, tag = %s, label = %s, refused = %s"
            " WHERE sink = %s",
            "present": "SELECT {as_text} FROM {table} LIMIT 1",
            "behind": "SELECT FROM pg_trigger WHERE tgrelid = to_regclass({name})"
            f" AND NOT tgisinternal AND tgtype & {AFTER_INSERT_MASK} = {AFTER_INSERT} LIMIT 1",
        }.items():
            object.__setattr__(self, name, SQL(statement).format(**parts))
        names = SQL(", ").join(Identifier(column.name) for column in columns)
        copy = SQL("COPY {} ({}) FROM STDIN").format(qualified(options.table), names)
        object.__setattr__(self, "copy", copy)
        object.__setattr__(self, "replaces", options.mode == "upsert")
        object.__setattr__(self, "delete", _delete(options, columns, "="))
        null = _delete(options, columns, "IS NOT DISTINCT FROM")  # it uses no index
        object.__setattr__(self, "delete_null", null)
        replaces = options.mode == "upsert" and len(columns) > len(options.key)
        object.__setattr__(self, "ranks", _ranks(options, columns) if replaces else None)


def _value(i: int, column: Column) -> Any:
    """A column of the rows. Text is cast by the assignment, which refuses what is too long."""
    return f"u.c{i}" if column.kind == "text" else f"u.c{i}::{column.type}"


def _ranks(options: TableSinkOptions, columns: Sequence[Column]) -> Composed:
    """A statement that numbers keys: equal numbers for those that the database takes for equal.

    The table itself says by which collation.
    """
    key = [(i, column) for i, column in enumerate(columns) if column.name in options.key]
    values = [SQL(f"u.c{i}::{c.type if c.kind == 'text' else c.exact}") for i, c in key]
    parts: dict[str, Composable] = {
        "table": qualified(escaped(options.table)),
        "key": SQL(", ").join(Identifier(escaped(column.name)) for _, column in key),
        "names": SQL(", ").join(Identifier(f"k{i}") for i, _ in key),
        "values": SQL(", ").join(values),
        "arrays": SQL(", ").join([SQL("%s::text[]")] * len(columns)),
        "aliases": SQL(", ").join(Identifier(f"c{i}") for i in range(len(columns))),
    }
    return SQL(
        "SELECT dense_rank() OVER (ORDER BY {names}) FROM ("
        " SELECT {key}, 0::bigint FROM {table} WHERE false UNION ALL"
        " SELECT {values}, u.at FROM unnest({arrays}) WITH ORDINALITY AS u ({aliases}, at)"
        ") AS keys ({names}, at) ORDER BY at"
    ).format(**parts)


def _delete(
    options: TableSinkOptions, columns: Sequence[Column], is_equal: LiteralString
) -> Composed:
    """A statement that deletes rows, given an array for each column of the key."""
    by_name = {column.name: column for column in columns}
    key = [by_name[name] for name in options.key if name in by_name]
    equal = [
        SQL(f"t.{{}} {is_equal} u.c{i}::{c.type if c.kind == 'text' else c.exact}").format(
            Identifier(escaped(c.name))
        )
        for i, c in enumerate(key)
    ]
    return SQL("DELETE FROM {} AS t USING unnest({}) AS u ({}) WHERE {}").format(
        qualified(escaped(options.table)),
        SQL(", ").join([SQL("%s::text[]")] * len(key)),
        SQL(", ").join(Identifier(f"c{i}") for i in range(len(key))),
        SQL(" AND ").join(equal),
    )


def _on_conflict(options: TableSinkOptions, columns: Sequence[Column]) -> Composed:
    if options.mode != "upsert":
        return Composed([])
    names = [column.name for column in columns if column.name not in options.key]
    others = [Identifier(escaped(name)) for name in names]
    key = SQL(", ").join(Identifier(escaped(name)) for name in options.key)
    if not others:
        return SQL(" ON CONFLICT ({}) DO NOTHING").format(key)
    sets = SQL(", ").join(SQL("{0} = excluded.{0}").format(name) for name in others)
    return SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(key, sets)


def marks_beside(table: str) -> Identifier:
    """The table of marks in the schema of a table."""
    schema, _, _ = table.rpartition(".")
    return qualified(f"{schema}.{MARKS}" if schema else MARKS)


# ---- what is there -------------------------------------------------------------------------------


def _columns(
    db: psycopg.Connection[Any],
    where: str,
    options: TableSinkOptions,
    names: Sequence[str],
    rules: Rules,
) -> list[Column]:
    """The columns that are written. Makes the table if it is not there and is to be made."""
    found = _look(db, qualified(options.table))
    if not found and options.create:
        db.execute("SELECT pg_advisory_xact_lock(%s)", [CREATES_ONE_AT_A_TIME])
        _create(db, options)
        found = _look(db, qualified(options.table))
    if not found:
        raise StoreRefused(
            where,
            "there is no such table",
            cure_of_absence("Make it first", options.create) + " Upper and lower case count.",
        )
    writable = [name for name, *_, is_generated, _ in found if not is_generated]
    check_columns(where, names, writable, WRITTEN)
    check_unwritten(where, [row[0] for row in found if row[-1]], names)
    by_name = {row[0]: _column(rules, *row[:9]) for row in found}
    return [by_name[name] for name in names]


def _look(db: psycopg.Connection[Any], table: Identifier) -> list[tuple[Any, ...]]:
    return db.execute(COLUMNS, [table.as_string(db)]).fetchall()


def _column(
    rules: Rules,
    name: str,
    declared: str,
    base: str,
    category: str,
    exact: str,
    kept: str,
    *of: str,
) -> Column:
    one = kept.removesuffix("[]")
    return Column(
        *(name, declared, _kind(base, category), exact),
        element=_column(rules, name, *of, one, one) if of and of[0] else None,
        base=base,
        places=None if rules.rounds else _places(base, kept),
        zone=rules.zone,
    )


def _places(base: str, kept: str) -> int | None:
    """How many digits behind the point a column keeps. None: it does not matter."""
    if base == "money":
        return 2
    if found := PLACES.search(kept):
        return int(found[1] or found[2])
    return 6 if base in TIMES else None


def _kind(base: str, category: str) -> Kind:
    if base in ("json", "jsonb"):
        return "json"
    if base in TIMES:
        return "time"
    return "bytes" if base == "bytea" else KINDS.get(category, "other")


def _create(db: psycopg.Connection[Any], options: TableSinkOptions) -> None:
    columns = [
        SQL("{} {}").format(Identifier(name), SQL(kind))
        for name, kind in (options.create or {}).items()
    ]
    if options.key:
        key = SQL(", ").join(map(Identifier, options.key))
        columns.append(SQL("PRIMARY KEY ({})").format(key))
    create = SQL("CREATE TABLE IF NOT EXISTS {} ({})")
    db.execute(create.format(qualified(options.table), SQL(", ").join(columns)))


def _make_marks(db: psycopg.Connection[Any], where: str, options: TableSinkOptions) -> None:
    """Make the table of marks if it is not there; else see that it is one."""
    marks = marks_beside(options.table)
    if not (found := _look(db, marks)):
        db.execute("SELECT pg_advisory_xact_lock(%s)", [CREATES_ONE_AT_A_TIME])
        create = SQL(
            "CREATE TABLE IF NOT EXISTS {} (sink text PRIMARY KEY, number bigint NOT NULL,"
            " tag text NOT NULL, label text NOT NULL, refused text NOT NULL)"
        )
        db.execute(create.format(marks))
        found = _look(db, marks)
    check_marks(where, [row[0] for row in found])
