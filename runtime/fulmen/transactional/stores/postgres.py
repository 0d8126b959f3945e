"""Maps in PostgreSQL, by psycopg 3.

One transaction of the database is one commit phase. Its first step locks the task's row in
fulmen_marks: that makes writers of the same task wait for each other, and is where a process that
was believed dead finds that it is late. All that follows sees what is committed by then, since the
isolation level is READ COMMITTED.

A process that was stopped while it held that lock would hold up its successor for ever. So the
server ends a transaction whose client has said nothing for a while: IDLE_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.columns import Kind
from fulmen.transactional.errors import StoreUnavailable
from fulmen.transactional.maps import Decide, StoredMap
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import ABSENT, Changes, Raw, Row, Rule
from fulmen.transactional.stores.pools import pool_of
from fulmen.transactional.stores.tables import POSTGRES_TYPES, check_name, columns_of, row_of

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from fulmen.transactional.stores.postgres_connection import PostgresConnection


class PostgresMap(StoredMap):
    """A map in a table of a PostgreSQL database."""

    def __init__(
        self,
        dsn: str,
        table: str,
        context: TopologyContext,
        *,
        rule: Rule = "transactional",
        key: Kind = "text",
        value: Kind = "json",
    ) -> None:
        """Make the map known; its table is made when the map is first used.

        Args:
            dsn: How to connect, as libpq takes it: "postgresql://user:password@host/database" or
                "host=... dbname=...". What it leaves out is in PGHOST, PGPASSWORD and so on.
            table: The name of the table, or "schema.table": a-z, 0-9 and _.
            context: What `prepare` was given.
            rule: "opaque" behind an opaque spout, else "transactional".
            key: The type of keys: "text", "integer", "float", "bytes" or "json".
            value: The type of values.

        Raises:
            StoreRefused: An argument can't be right, or psycopg is not installed.
        """
        connection = _imported(table)
        database = connection.described(f"map {table!r}", dsn)
        super().__init__(table, f"PostgreSQL {database}", context, rule, key, value)
        self._connection = connection
        self._dsn = dsn
        schema, _, self.name = table.rpartition(".")
        if schema:
            check_name(self, schema)
        check_name(self, self.name)
        self._names = connection.names(schema, self.name)
        self._columns = columns_of(self.owner)
        self._statements = _Statements(self.owner, self._names, connection.composed)

    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Write a commit phase, in one transaction of the database."""
        with self._connected() as lent:
            with self._begun(lent) as db:
                self.make_or_check(lent, db)
                self._commit(db, attempt, keys, decide)
            lent.known[self.where] = self.owner

    def _commit(
        self, db: Any, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        taken_back = self.must_take_back(attempt, self._locked_mark(db))
        rows = dict(self._rows(db, self._statements.of_keys, [keys]))
        if taken_back:
            mine = [attempt.txid, self.task]
            rows.update(self._rows(db, self._statements.of_transaction, mine))
        self._write(db, decide(rows), rows)
        db.execute(self._statements.move_mark, [*self.mark_of(attempt), self.name, self.task])

    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """What there is of these keys. Marks are read first, so rows are as new as they."""
        with self._connected() as lent, self._begun(lent) as db:
            owner = lent.known.get(self.where) or self._connection.found(self, self._names, db)
            if owner is None:
                return None
            self.owner.refuse_unreadable(self.where, owner)
            lent.known[self.where] = owner
            statements = self._statements
            if owner.rule != self.owner.rule:
                statements = _Statements(owner, self._names, self._connection.composed)
            marks = dict[int, MapMark]()
            if with_marks:
                found = db.execute(statements.marks, [self.name]).fetchall()
                marks = {task: MapMark(*mark) for task, *mark in found}
            rows = self._rows(db, statements.of_keys, [keys]) if keys else ()
            return FoundMap(owner, dict(rows), marks)

    @contextmanager
    def one_commit(self, maps: Sequence[StoredMap]) -> Iterator[Any]:
        """Have what is written to several maps in one transaction of the database."""
        own = [a_map for a_map in maps if isinstance(a_map, PostgresMap)]
        with self._connected() as lent:
            for a_map in own:
                with lent.transaction() as db:
                    a_map.make_or_check(lent, db)
                lent.known[a_map.where] = a_map.owner
            with lent.transaction() as db:
                for a_map in own:
                    a_map.joined = lent
                try:
                    yield db
                finally:
                    for a_map in own:
                        a_map.joined = None

    def _locked_mark(self, db: Any) -> MapMark | None:
        mine = [self.name, self.task]
        found = db.execute(self._statements.lock_mark, mine).fetchone()
        if found is None:
            db.execute(self._statements.first_mark, mine)
            found = db.execute(self._statements.lock_mark, mine).fetchone()
        mark = MapMark(*found)
        return mark if mark.txid else None

    def _rows(
        self, db: Any, statement: Composed, values: Sequence[Any]
    ) -> Iterator[tuple[Raw, Row]]:
        for key, *row in db.execute(statement, values).fetchall():
            yield key, row_of(row)

    def _write(self, db: Any, made: Changes, found: Mapping[Raw, Row]) -> None:
        """Write rows as they were found; one that another has changed meanwhile shows."""
        new = [key for key in made.rows if key not in found]
        old = [key for key in made.rows if key in found]
        written = 0
        if new:
            written += db.execute(self._statements.insert, self._arrays(made, new)).rowcount
        if old:
            was = [[found[key].txid for key in old], [found[key].attempt for key in old]]
            arrays = [*self._arrays(made, old), *was]
            written += db.execute(self._statements.change, arrays).rowcount
        if made.deleted:
            db.execute(self._statements.delete, [made.deleted])
        if written != len(made.rows):
            raise StoreUnavailable(
                self.where,
                "another task or process has changed the rows of the same keys at the same time",
                "Nothing was changed. Equal keys must go to the same task: use fields grouping.",
            )

    def _arrays(self, made: Changes, keys: Sequence[Raw]) -> list[Any]:
        rows = [made.rows[key] for key in keys]
        arrays = [keys, [row.value for row in rows]]
        if "previous" in self._columns:
            arrays.append([None if row.previous is ABSENT else row.previous for row in rows])
        return [rows[0].txid, self.task, [row.attempt for row in rows], *arrays]

    @contextmanager
    def _connected(self) -> Iterator[PostgresConnection]:
        with self._connection.translated(self.where, self._dsn):
            if self.joined is not None:
                yield self.joined
                return
            pool = pool_of(("postgres", self._dsn))
            lent: PostgresConnection
            with pool.lent(lambda: self._connection.connect(self._dsn)) as lent:
                yield lent

    @contextmanager
    def _begun(self, lent: PostgresConnection) -> Iterator[Any]:
        """A transaction; that of `together` if there is one."""
        if self.joined is not None:
            yield lent.db
            return
        with lent.transaction() as db:
            yield db

    def make_or_check(self, lent: PostgresConnection, db: Any) -> None:
        """Make the map if it is new; else see whose it is."""
        known = lent.known.get(self.where)
        if known is None:
            self._connection.make_or_check(self, self._names, db)
        else:
            self.owner.refuse_other(self.where, known)


class _Statements:
    """The statements of a map. JSON is read and written as text."""

    def __init__(
        self, owner: Owner, names: Mapping[str, Any], composed: Callable[..., Composed]
    ) -> None:
        kinds = (owner.key, owner.value)
        is_opaque = owner.rule == "opaque"
        text = "::text" if kinds[1] == "json" else ""
        keys = f"%s::{'text' if kinds[0] == 'json' else POSTGRES_TYPES[kinds[0]]}[]"
        values = "%s::text[]::jsonb[]" if text else f"%s::{POSTGRES_TYPES[kinds[1]]}[]"
        row = f"key, value{text}, txid, task, attempt"
        row += f", previous{text}" if is_opaque else ""
        written = "attempt, key, value" + (", previous" if is_opaque else "")
        arrays = f"%s::bigint[], {keys}, {values}" + (f", {values}" if is_opaque else "")

        def made(statement: str) -> Composed:
            return composed(statement, names)

        self.of_keys = made(f"SELECT {row} FROM {{table}} WHERE key = ANY({keys})")
        self.of_transaction = made(f"SELECT {row} FROM {{table}} WHERE txid = %s AND task = %s")
        self.insert = made(
            f"INSERT INTO {{table}} (txid, task, {written})"
            f" SELECT %s::bigint, %s::integer, * FROM unnest({arrays}) ON CONFLICT DO NOTHING"
        )
        self.change = made(
            "UPDATE {table} t"
            " SET txid = own.txid, task = own.task, attempt = n.attempt, value = n.value"
            + (", previous = n.previous" if is_opaque else "")
            + " FROM (SELECT %s::bigint AS txid, %s::integer AS task) own,"
            f" unnest({arrays}, %s::bigint[], %s::bigint[]) AS n ({written}, was, was_had)"
            " WHERE t.key = n.key AND t.txid = n.was AND t.attempt = n.was_had"
        )
        self.delete = made(f"DELETE FROM {{table}} WHERE key = ANY({keys})")
        self.marks = made(
            "SELECT task, txid, attempt, branch FROM {marks} WHERE map = %s AND txid > 0"
        )
        self.lock_mark = made(
            "SELECT txid, attempt, branch FROM {marks} WHERE map = %s AND task = %s FOR UPDATE"
        )
        self.first_mark = made(
            "INSERT INTO {marks} VALUES (%s, %s, 0, 0, '') ON CONFLICT DO NOTHING"
        )
        self.move_mark = made(
            "UPDATE {marks} SET txid = %s, attempt = %s, branch = %s WHERE map = %s AND task = %s"
        )


def _imported(table: str) -> Any:
    from fulmen.transactional.stores.clients import needs

    with needs(f"map {table!r}", "psycopg", "postgres"):
        from fulmen.transactional.stores import postgres_connection
    return postgres_connection
