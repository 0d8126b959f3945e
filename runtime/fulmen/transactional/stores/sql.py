"""Maps in tables, the same in every SQL database.

    fulmen_maps   one row for each map: whose it is
    fulmen_marks  one row for each task of its bolt: the last attempt that was written
    <the map>     key, value, txid, task, attempt, and with the opaque rule previous

They are made together, and a table that stands there without its row in fulmen_maps is somebody
else's. One transaction of the database is one commit phase.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreUnavailable
from fulmen.transactional.maps import NAME, Decide, StoredMap
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import ABSENT, Changes, Raw, Row

MAPS, MARKS = "fulmen_maps", "fulmen_marks"
OWNER_COLUMNS = ("topology", "component", "rule", "key", "value", "layout")
KEPT = "Nothing was changed."


class SqlMap(StoredMap):
    """A map in a table. `lent` is what a database's pool lends, `db` a connection of its client."""

    service: Any
    reads_by: tuple[str, ...] = ()
    """How transactions that only read begin."""

    # What a database is asked for

    @abstractmethod
    def meant(self, error: Any) -> Exception:
        """The error that the user of the map gets."""

    @abstractmethod
    def found_owner(self, db: Any) -> Owner | None:
        """Read the map's owner; None: there is no such map."""

    @abstractmethod
    def has_table(self, db: Any) -> bool:
        """Whether there is a table of that name."""

    def lock_making(self, db: Any) -> None:
        """Have no other process make tables until the transaction ends."""

    @abstractmethod
    def make_tables(self, db: Any) -> None:
        """Make the tables of a new map, and write down whose it is."""

    @abstractmethod
    def locked_mark(self, db: Any) -> MapMark | None:
        """The mark of this task, which nobody else changes before the transaction ends."""

    @abstractmethod
    def move_mark(self, db: Any, mark: MapMark) -> None:
        """Write the mark of this task."""

    @abstractmethod
    def marks(self, db: Any) -> Iterable[tuple[Any, ...]]:
        """Task, txid, attempt and branch of all marks."""

    @abstractmethod
    def rows_of_keys(self, db: Any, keys: Sequence[Raw], owner: Owner) -> Iterable[Sequence[Any]]:
        """The columns of these keys' rows."""

    @abstractmethod
    def rows_of_transaction(self, db: Any, txid: int) -> Iterable[Sequence[Any]]:
        """The columns of the rows that this task had last in a transaction."""

    @abstractmethod
    def write(self, db: Any, made: Changes, found: Mapping[Raw, Row]) -> None:
        """Write rows, which were found as they are given."""

    # What is done with it

    def check_name(self, table: str) -> None:
        """Refuse a name that a table can't have, or that others would have to quote."""
        if not NAME.fullmatch(table) or table.startswith(("fulmen_", "sqlite_", "pg_")):
            self.refuse(
                f"a table can't be named {table!r}",
                "Write up to 50 of a-z, 0-9 and _, beginning with a letter; names that begin with"
                " fulmen_, sqlite_ or pg_ are taken.",
            )

    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Write a commit phase, in one transaction of the database."""
        with self.connected() as lent:
            with self._begun(lent) as db:
                self.make_or_check(lent, db)
                taken_back = self.must_take_back(attempt, self.locked_mark(db))
                rows = _rows(self.rows_of_keys(db, keys, self.owner))
                if taken_back:
                    rows |= _rows(self.rows_of_transaction(db, attempt.txid))
                self.write(db, decide(rows), rows)
                self.move_mark(db, self.mark_of(attempt))
            lent.known[self.where] = self.owner

    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """Read the rows of these keys. Marks are read first, so rows are as new as they."""
        with self.connected() as lent, self._begun(lent, *self.reads_by) as db:
            owner = lent.known.get(self.where) or self.found_owner(db)
            if owner is None:
                return None
            self.owner.refuse_unreadable(self.where, owner)
            lent.known[self.where] = owner
            marks = {task: MapMark(*mark) for task, *mark in self.marks(db)} if with_marks else {}
            rows = self.rows_of_keys(db, keys, owner) if keys else ()
            return FoundMap(owner, _rows(rows), marks)

    @contextmanager
    def one_commit(self, maps: Sequence[StoredMap]) -> Iterator[Any]:
        """Have what is written to several maps in one transaction of the database."""
        own = [a_map for a_map in maps if isinstance(a_map, SqlMap)]
        with self.connected() as lent:
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

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection; that of `together` if there is one."""
        with self.service.told(self.meant):
            if self.joined is not None:
                yield self.joined
                return
            with self.service.lent() as lent:
                yield lent

    @contextmanager
    def _begun(self, lent: Any, *how: str) -> Iterator[Any]:
        """A transaction; that of `together` if there is one."""
        if self.joined is not None:
            yield lent.db
            return
        with lent.transaction(*how) as db:
            yield db

    def make_or_check(self, lent: Any, db: Any) -> None:
        """Make the map if it is new; else see whose it is.

        Raises:
            StoreRefused: The table is somebody else's.
            StoreUnavailable: It is gone.
        """
        if (known := lent.known.get(self.where)) is not None:
            self.owner.refuse_other(self.where, known)
            return
        if self.found_owner(db) == self.owner and self.has_table(db):
            return
        self.lock_making(db)  # only then are both answers of the same moment
        owner, is_there = self.found_owner(db), self.has_table(db)
        if owner is not None:
            self.owner.refuse_other(self.where, owner)
            if not is_there:
                self._refuse_lost()
        elif is_there:
            self.refuse(
                f"there is a table {self.name!r} that Fulmen has not made",
                "It was not touched. Use another name for this bolt's map.",
            )
        else:
            self.make_tables(db)

    def _refuse_lost(self) -> None:
        raise StoreUnavailable(
            self.where,
            f"its table {self.name!r} is gone",
            "Restore it. To begin with an empty one instead, delete the map's rows in"
            f" {MARKS} and {MAPS}: the next message says what else to do.",
        )


def columns_of(owner: Owner) -> tuple[str, ...]:
    """The columns of a map, in their order."""
    columns = ("key", "value", "txid", "task", "attempt")
    return (*columns, "previous") if owner.rule == "opaque" else columns


def previous_of(row: Row) -> Raw:
    """The value for the column `previous`."""
    return None if row.previous is ABSENT else row.previous


def _rows(found: Iterable[Sequence[Any]]) -> dict[Raw, Row]:
    rows = {}
    for key, value, txid, task, attempt, *previous in found:
        kept = previous[0] if previous and previous[0] is not None else ABSENT
        rows[key] = Row(value, txid, task, attempt, kept)
    return rows
