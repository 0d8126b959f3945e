"""The table of a sink: looked at once, and written to in one statement for each batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from typing_extensions import override

from fulmen.api.components.sinks import Mark
from fulmen.connectors.base.bisection import RowsRefused, write_but_refused
from fulmen.connectors.postgres.database import PostgresDatabase
from fulmen.connectors.postgres.statements import TableStatements, marks_beside
from fulmen.connectors.postgres.texts import Column, Kind, Rules, Text, texts
from fulmen.connectors.postgres.writing import Contention, Writer
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.tables import FoundColumn, KeptMark, SqlTable, SqlTransaction
from fulmen.services.service import ErrorKind
from fulmen.services.sql.arrays import array
from fulmen.services.sql.names import qualified
from fulmen.services.sql.postgres import CREATES_ONE_AT_A_TIME, kind_of, said

KINDS: Mapping[str, Kind] = {"S": "text", "N": "number", "A": "array"}
"""By the category of a type."""
TIMES = ("date", "time", "timetz", "timestamp", "timestamptz")
PLACES = re.compile(r"numeric\(\d+, ?(-?\d+)\)|(?:time|timestamp|interval)\b.*\((\d)\)")
"""How many digits behind the point a type keeps."""
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


class PostgresTable(SqlTable):
    """A table that was looked at."""

    hint = " Upper and lower case count."

    def __init__(
        self,
        database: PostgresDatabase,
        options: TableSinkOptions,
        names: Sequence[str],
        contention: Contention,
        rules: Rules,
    ) -> None:
        """Look at the table, and at the table of marks if there is to be one.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name, a type or a right is wrong.
        """
        super().__init__(database.where, options, names)
        self.database, self.contention = database, contention
        with database.opening() as db:
            columns = self.look(db)
            self._columns = [_column(rules, *columns[name].about) for name in names]
            self.statements = TableStatements(options, self._columns)
            self._try(db)

    def _try(self, db: psycopg.Connection[Any]) -> None:
        """Have the server look at all statements: it finds what is wrong with names and rights."""
        made, options = self.statements, self.options
        if options.guarantee == "exactly-once":
            self.make_marks(db, marks_beside(options.table))
            db.execute(f"EXPLAIN {made.lock_mark}", [""])
            db.execute(f"EXPLAIN {made.first_mark}", ["", ""])
            db.execute(f"EXPLAIN {made.move_mark}", [0, "", "", "", ""])
        db.execute(f"EXPLAIN {made.insert}", ["{}"] * len(self.names))
        self.may_delete = options.mode == "upsert" and self._tried_to_delete(db)
        if options.mode == "copy":
            with db.cursor().copy(made.copy):
                pass

    def _tried_to_delete(self, db: psycopg.Connection[Any]) -> bool:
        try:
            with db.transaction():  # a savepoint
                db.execute(f"EXPLAIN {self.statements.delete}", ["{}"] * len(self.key))
        except psycopg.ProgrammingError:  # a right is missing, or it is a view that has no deletes
            if self.options.deleted_field is not None:
                raise
            return False
        return True

    @override
    def found_columns(self, db: psycopg.Connection[Any], table: str) -> list[FoundColumn]:
        rows = db.execute(COLUMNS, [qualified(table)]).fetchall()
        return [FoundColumn(row[0], not row[9], row[10], row[:9]) for row in rows]

    @override
    def create(self, db: psycopg.Connection[Any], table: str, columns: str) -> None:
        db.execute("SELECT pg_advisory_xact_lock(%s)", [CREATES_ONE_AT_A_TIME])
        db.execute(f"CREATE TABLE IF NOT EXISTS {qualified(table)} ({columns})")

    @override
    def encode_column(
        self, number: int, values: Sequence[Any], refuse: Callable[[int, str], None]
    ) -> Sequence[Text]:
        return texts(self._columns[number], values, refuse)

    @override
    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        with self.database.transaction() as db:
            yield PostgresTransaction(db, self)
        self.contention.tries = self.contention.ends = 0


class PostgresTransaction(SqlTransaction):
    """A transaction that writes rows and their mark."""

    def __init__(self, db: psycopg.Connection[Any], table: PostgresTable) -> None:
        self._db, self._statements, self._key = db, table.statements, table.key
        mode = table.options.mode
        self._writer = Writer(db, table.statements, mode, table.contention, table.database)

    @override
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

    @override
    def keep(self, mark: Mark, refused: str) -> None:
        values = [mark.number, mark.tag, mark.label, refused, mark.sink]
        self._db.execute(self._statements.move_mark, values)

    @override
    def write(self, items: Sequence[Sequence[Text]]) -> Mapping[int, str]:
        return self._writer.write(items, self._key)

    @override
    def delete(self, items: Sequence[Sequence[Text]]) -> Mapping[int, str]:
        keys = [[item[at] for at in self._key] for item in items]
        return write_but_refused(range(len(keys)), lambda at: self._delete([keys[i] for i in at]))

    def _delete(self, keys: Sequence[Sequence[Text]]) -> None:
        full, some = [k for k in keys if None not in k], [k for k in keys if None in k]
        try:
            with self._db.transaction():  # a savepoint
                for alike, statement in (
                    (full, self._statements.delete),
                    (some, self._statements.delete_null),
                ):
                    if alike:
                        columns = [array(column) for column in zip(*alike, strict=True)]
                        self._db.execute(statement, columns)
        except psycopg.Error as error:
            if kind_of(error) is not ErrorKind.ROW:
                raise
            raise RowsRefused(said(error)) from None


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
    """The digits behind the point that a column keeps. None: it does not matter."""
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
