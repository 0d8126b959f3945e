"""Maps in PostgreSQL, by psycopg 3.

The first step of a commit phase locks the task's row in fulmen_marks: that makes writers of the
same task wait for each other, and is where a process that was believed dead finds that it is late.
All that follows sees what is committed by then, since the isolation level is READ COMMITTED.

A process that was stopped while it held that lock would hold up its successor for ever. So the
server ends a transaction whose client has said nothing for a while: IDLE_SECONDS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from fulmen.api.context import TopologyContext
from fulmen.services.errors import StoreUnavailable
from fulmen.services.sql.arrays import array
from fulmen.transactional.columns import Kind
from fulmen.transactional.owners import MapMark, Owner
from fulmen.transactional.rules import Changes, Raw, Row, Rule
from fulmen.transactional.stores.clients import needs
from fulmen.transactional.stores.sql import OWNER_COLUMNS, SqlMap, previous_of

if TYPE_CHECKING:
    from fulmen.services.sql.postgres import Postgres
    from fulmen.transactional.stores.postgres_statements import MapStatements


class PostgresMap(SqlMap):
    """A map in a table of a PostgreSQL database."""

    service: Postgres

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
        with needs(f"map {table!r}", "postgres"):
            from fulmen.services.sql.postgres import Postgres
            from fulmen.transactional.stores import postgres_statements
        self.service = Postgres(dsn, f"map {table!r}")
        super().__init__(table, self.service.name, context, rule, key, value)
        self._schema, _, self.name = table.rpartition(".")
        if self._schema:
            self.check_name(self._schema)
        self.check_name(self.name)
        self._known = postgres_statements
        self._statements = self._statements_of(self.owner)

    def _statements_of(self, owner: Owner) -> MapStatements:
        return self._known.MapStatements(owner, self._schema, self.name)

    def meant(self, error: Any) -> Exception:
        """The error that the user of the map gets."""
        return self._known.meant(self.service, self.where, error)

    def found_owner(self, db: Any) -> Owner | None:
        """Read the map's owner."""
        if not self._is_there(db, "maps"):
            return None
        row = db.execute(self._statements.owner, [self.name]).fetchone()
        return Owner(*row) if row else None

    def has_table(self, db: Any) -> bool:
        """Whether there is a table of that name."""
        return self._is_there(db, "table")

    def _is_there(self, db: Any, which: str) -> bool:
        name = self._statements.names[which]
        return bool(db.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()[0])

    def lock_making(self, db: Any) -> None:
        """Have no other process make tables until the transaction ends."""
        db.execute("SELECT pg_advisory_xact_lock(%s)", [self._known.CREATES_ONE_AT_A_TIME])

    def make_tables(self, db: Any) -> None:
        """Make the tables of a new map, and write down whose it is."""
        for statement in self._statements.making:
            db.execute(statement)
        wanted = [self.name, *(getattr(self.owner, name) for name in OWNER_COLUMNS)]
        db.execute(self._statements.claim, wanted)

    def locked_mark(self, db: Any) -> MapMark | None:
        """The mark of this task. Who comes late waits here."""
        mine = [self.name, self.task]
        found = db.execute(self._statements.lock_mark, mine).fetchone()
        if found is None:
            db.execute(self._statements.first_mark, mine)
            found = db.execute(self._statements.lock_mark, mine).fetchone()
        mark = MapMark(*found)
        return mark if mark.txid else None

    def move_mark(self, db: Any, mark: MapMark) -> None:
        """Write the mark of this task."""
        db.execute(self._statements.move_mark, [*mark, self.name, self.task])

    def marks(self, db: Any) -> Iterable[tuple[Any, ...]]:
        """Task, txid, attempt and branch of all marks."""
        rows: list[tuple[Any, ...]] = db.execute(self._statements.marks, [self.name]).fetchall()
        return rows

    def rows_of_keys(self, db: Any, keys: Sequence[Raw], owner: Owner) -> Iterable[Sequence[Any]]:
        """The columns of these keys' rows."""
        is_ours = owner.rule == self.owner.rule
        statements = self._statements if is_ours else self._statements_of(owner)
        rows: list[Sequence[Any]] = db.execute(statements.of_keys, [_array(keys)]).fetchall()
        return rows

    def rows_of_transaction(self, db: Any, txid: int) -> Iterable[Sequence[Any]]:
        """The columns of the rows that this task had last in a transaction."""
        mine = [txid, self.task]
        rows: list[Sequence[Any]] = db.execute(self._statements.of_transaction, mine).fetchall()
        return rows

    def write(self, db: Any, made: Changes, found: Mapping[Raw, Row]) -> None:
        """Write rows as they were found; one that another has changed meanwhile shows."""
        new = [key for key in made.rows if key not in found]
        old = [key for key in made.rows if key in found]
        written = 0
        if new:
            written += db.execute(self._statements.insert, self._arrays(made, new)).rowcount
        if old:
            was = [[found[key].txid for key in old], [found[key].attempt for key in old]]
            arrays = [*self._arrays(made, old), *map(_array, was)]
            written += db.execute(self._statements.change, arrays).rowcount
        if made.deleted:
            db.execute(self._statements.delete, [_array(made.deleted)])
        if written != len(made.rows):
            raise StoreUnavailable(
                self.where,
                "another task or process has changed the rows of the same keys at the same time",
                "Nothing was changed. Equal keys must go to the same task: use fields grouping.",
            )

    def _arrays(self, made: Changes, keys: Sequence[Raw]) -> list[Any]:
        rows = [made.rows[key] for key in keys]
        arrays = [keys, [row.value for row in rows]]
        if self.owner.rule == "opaque":
            arrays.append([previous_of(row) for row in rows])
        arrays.insert(0, [row.attempt for row in rows])
        return [rows[0].txid, self.task, *map(_array, arrays)]


def _array(values: Sequence[Raw | None]) -> Any:
    """Values as a parameter: texts and integers in a tenth of the client's time."""
    kinds = set(map(type, values)) - {NoneType}
    if kinds <= {str}:
        return array(values)
    if kinds == {int}:
        return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"
    return list(values)
