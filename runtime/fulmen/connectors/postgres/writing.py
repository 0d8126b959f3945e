"""Writes rows, and finds out what an error means: whose fault it is, a row's or nobody's.

What is refused alone while others are written is the row's fault, whatever the code says, since a
trigger may raise any code. So an error that may be the server's is one only if nothing can be
written: neither a statement without rows, nor any row of the batch, nor one that was written
before, which is tried and taken back: a row that has failed may come again alone. If none is known,
one that the table has is tried. That may say nothing: the table is empty, or refuses an equal key
before it calls its last triggers. Then several such rows are not to blame, and a single one is
after a while. What RAISE in PL/pgSQL says is about the row. Two kinds of codes are left:

- What only the server itself can be in (its disk is full, it shuts down) is never a row's fault.
  But a row may end the connection, such as by a crash of the server's process. If it was lost
  several times in a row while rows were written, halves of them are tried on other connections.
- What others are to blame for (a deadlock, a lock) passes. So the batch is tried again as a whole,
  and only if that is of no use, the rows are looked for whose turn never comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import psycopg

from fulmen.connectors.base.bisection import (
    RowsRefused,
    last_of_keys,
    write_but_refused,
    write_last_of_keys,
)
from fulmen.connectors.postgres.database import PostgresDatabase
from fulmen.connectors.postgres.statements import TableStatements
from fulmen.connectors.postgres.texts import Text, lines
from fulmen.services.service import ErrorKind
from fulmen.services.sql.arrays import array
from fulmen.services.sql.postgres import code_of, kind_of, said

T = TypeVar("T")
LACKS_ANOTHER = "23503"
"""SQLSTATE: the row refers to one that is not there."""
PATIENCE, SOON, LONG = 9, "40", 3
"""So many deadlocks of a task in a row, or a third of that of waits for a lock, and the rows are
looked for that others are in the way of."""
MOST_MILLIS, LEAST_MILLIS = 2000, 50
"""How long each statement of that search waits for a lock: less and less."""


ENDS = 3
"""So many times in a row a connection was lost while rows were written."""
ALONE_SECONDS = 180.0
"""For so long a single row waits that may be to blame, or not, while nothing says which."""
BACK_SECONDS, LOOK_SECONDS = 15.0, 0.1
"""For how long a server that crashed may be away before a search is given up, and how often it is
looked for."""
MOST_DEADLY, DEADLY_SECONDS = 1000, 600.0
"""So many rows that end the connection are known, and for so long: what ended it may be mended."""
ENDS_CONNECTION = "the connection to the server ends when this row is written: {}"


@dataclass
class Contention:
    """The obstacles to a task's batches. Outlives the task's instance.

    Attributes:
        tries: How often in a row others were.
        ends: How often in a row the connection ended while rows were written.
        deadly: Rows that were found to end it: how, and until when (time.monotonic()) they count.
        written: One of the rows that were written last.
        alone: A single row that may be to blame, and until when (time.monotonic()) it waits.
    """

    tries: int = 0
    ends: int = 0
    deadly: dict[tuple[Text, ...], tuple[str, float]] = field(default_factory=dict)
    written: Sequence[Text] | None = None
    alone: tuple[Sequence[Text], float] | None = None


class Writer:
    """Writes rows in a transaction."""

    def __init__(
        self,
        db: psycopg.Connection[Any],
        statements: TableStatements,
        mode: str,
        contention: Contention,
        database: PostgresDatabase,
    ) -> None:
        """Begin to write: `db` is in a transaction, `database` gives more connections."""
        self._db, self._statements, self._is_copy = db, statements, mode == "copy"
        self._contention, self._database = contention, database
        self._items: Sequence[Sequence[Text]] = ()
        self._written = 0
        self._takes: bool | None = None
        self._doubtful: dict[tuple[Text, ...], psycopg.Error] = {}
        self._orphans: set[tuple[Text, ...]] = set()

    def write(self, items: Sequence[Sequence[Text]], key: Sequence[int]) -> Mapping[int, str]:
        """Write all rows but those that are refused. Returns why, by position.

        Args:
            items: The rows.
            key: Which of their values are the key of an upsert.

        Raises:
            psycopg.Error: Nothing can be written, or not now.
            ServiceUnavailable: Nothing can be written, and rows may be to blame, or not.
        """
        deadly = self._deadly(items)
        kept = [i for i in range(len(items)) if i not in deadly] if deadly else range(len(items))
        refused = self._write_with_orphans([items[i] for i in kept], key)
        if self._doubtful and not self._written:
            takes_another, error = self._takes_another(), next(iter(self._doubtful.values()))
            if takes_another is None:
                alone = next(iter(self._doubtful))
                if len(self._doubtful) > 1 or not self._has_waited(alone):
                    raise self._database.in_doubt(error, len(self._doubtful)) from None
            elif not takes_another:
                raise error
        return deadly | {kept[i]: reason for i, reason in refused.items()}

    def _write_with_orphans(
        self, items: Sequence[Sequence[Text]], key: Sequence[int]
    ) -> dict[int, str]:
        """Write rows, and once more those that lacked others, as long as that is of any use.

        One statement takes a row that refers to one behind it. If there is a refused row as well,
        they are written one after the other.
        """
        refused: dict[int, str] = {}
        left: Sequence[int] = range(len(items))
        while True:
            self._items, self._orphans = [items[i] for i in left], set()
            if key and self._statements.ranks:
                reasons = self._upsert(key)
            else:
                reasons = write_but_refused(range(len(left)), self._write)
            refused |= {left[at]: reason for at, reason in reasons.items()}
            again = sorted(left[at] for at in reasons if tuple(self._items[at]) in self._orphans)
            if not again or len(reasons) == len(left):
                return refused
            left = again
            refused = {i: reason for i, reason in refused.items() if i not in {*again}}

    def _has_waited(self, item: Sequence[Text]) -> bool:
        """Whether a row that nothing else is known of has waited long enough."""
        now, alone = time.monotonic(), self._contention.alone
        if alone is None or alone[0] != item:
            alone = self._contention.alone = item, now + ALONE_SECONDS
        return now >= alone[1]

    def _upsert(self, key: Sequence[int]) -> dict[int, str]:
        """Rows whose keys are spelled alike are equal; which others are, the database knows.

        It refuses a statement that has such ones, so it is asked only then.
        """
        if not self._items:
            return {}
        try:
            self._write(last_of_keys(list(map(itemgetter(*key), self._items))))
        except RowsRefused:
            refused, ranks = self._ranks(key)
            positions = list(ranks)
            later = write_last_of_keys(
                list(ranks.values()), lambda at: self._write([positions[i] for i in at])
            )
            return refused | {positions[i]: reason for i, reason in later.items()}
        return {}

    def _ranks(self, key: Sequence[int]) -> tuple[dict[int, str], dict[int, int | None]]:
        """Numbers of the keys, equal ones for equal keys, by the rows' positions.

        Returns:
            First, why rows are refused whose key can't be one.
        """
        answers: list[tuple[Sequence[int], list[int | None]]] = []

        def ask(positions: Sequence[int]) -> None:
            items = [self._items[i] for i in positions]
            arrays = [array(values) for values in zip(*items, strict=True)]
            statement = self._statements.ranks or ""
            rows = self._tried(items, lambda: self._db.execute(statement, arrays).fetchall())
            answers.append((positions, [rank for (rank,) in rows]))

        refused = write_but_refused(range(len(self._items)), ask)
        if len(answers) > 1:  # numbers of one answer can't be compared with those of another
            answers = []
            ask([i for i in range(len(self._items)) if i not in refused])
        ranks = {i: rank for at, numbers in answers for i, rank in zip(at, numbers, strict=True)}
        for i in ranks:
            if any(self._items[i][at] is None for at in key):
                ranks[i] = None
        return refused, ranks

    def _write(self, positions: Sequence[int]) -> None:
        """Write rows in one statement, all of them or none.

        Raises:
            Refused: The server refuses one of them.
            psycopg.Error: It refuses all, or not because of them.
        """
        items = [self._items[i] for i in positions]
        self._tried(items, lambda: self._send(self._db, items))
        self._written += len(positions)
        if items:
            self._contention.written = items[-1]

    def _tried(self, items: Sequence[Sequence[Text]], do: Callable[[], T]) -> T:
        """Do something with rows that changes nothing if it fails."""
        try:
            with self._db.transaction():  # a savepoint
                return do()
        except psycopg.Error as error:
            if not self._is_rows_fault(error, items):
                raise
            raise RowsRefused(said(error)) from None

    def _send(self, db: psycopg.Connection[Any], items: Sequence[Sequence[Text]]) -> None:
        columns = list(zip(*items, strict=True))
        if self._is_copy:
            with db.cursor().copy(self._statements.copy) as copy:
                copy.write(lines(columns))
        else:
            db.execute(self._statements.insert, [array(values) for values in columns])

    def _is_rows_fault(self, error: psycopg.Error, items: Sequence[Sequence[Text]]) -> bool:
        """Whether the rows are to blame, or at least one of them."""
        code = code_of(error)
        if code == LACKS_ANOTHER and len(items) == 1:
            self._orphans.add(tuple(items[0]))
        kind = kind_of(error)
        if kind is ErrorKind.ROW:
            return True
        if self._db.closed:
            self._contention.ends += 1
            return False
        if kind is ErrorKind.AWAY:
            return False
        is_conflict = kind is ErrorKind.BUSY
        if is_conflict and not self._is_stuck(code):
            return False
        if not self._takes_rows():
            return False
        lacks = kind is ErrorKind.LACKING and error.diag.context
        if len(items) == 1 and (is_conflict or lacks):
            self._doubtful[tuple(items[0])] = error  # a trigger lacks it for this row, or for all
        return True

    def _is_stuck(self, code: str) -> bool:
        """Whether others are in the way again and again."""
        self._contention.tries += 1 if code.startswith(SOON) else LONG
        if self._contention.tries < PATIENCE:
            return False
        millis = max(LEAST_MILLIS, MOST_MILLIS * PATIENCE // self._contention.tries)
        self._db.execute(f"SET LOCAL lock_timeout = '{millis}ms'")
        return True

    def _takes_rows(self) -> bool:
        """Whether the statement can be executed at all: it is tried without rows."""
        if self._takes is None:
            self._takes = True
            try:
                with self._db.transaction():
                    if self._is_copy:
                        with self._db.cursor().copy(self._statements.copy):
                            pass
                    else:
                        width = len(self._items[0])
                        self._db.execute(self._statements.insert, ["{}"] * width)
            except psycopg.Error:
                self._takes = False
        return self._takes

    def _takes_another(self) -> bool | None:
        """Whether another row can be written. It is tried, and taken back. None: nobody knows."""
        other = self._contention.written or next(iter(self._asked(self._statements.present)), None)
        if other is None:
            return None
        try:
            with self._db.transaction(force_rollback=True):
                self._send(self._db, [other])
        except psycopg.Error as error:
            if kind_of(error) is not ErrorKind.ROW:  # such as a key that is there
                return False
        else:
            if not self._statements.replaces:
                return True
        # triggers for new rows alone are called behind the look for equal keys
        return None if self._asked(self._statements.behind) else True

    def _asked(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            with self._db.transaction():
                return self._db.execute(statement, []).fetchall()
        except psycopg.Error:  # such as a right that the role lacks
            return []

    # Rows that end the connection

    def _deadly(self, items: Sequence[Sequence[Text]]) -> dict[int, str]:
        """The rows that end the connection, and how, as far as it was looked for."""
        known, now = self._contention.deadly, time.monotonic()
        for item in [item for item, (_, until) in known.items() if now >= until]:
            del known[item]
        if self._contention.ends >= ENDS:
            self._contention.ends = 0
            reasons = write_but_refused(
                [i for i, item in enumerate(items) if tuple(item) not in known],
                lambda at: self._survives([items[i] for i in at]),
            )
            if len(known) + len(reasons) > MOST_DEADLY:
                known.clear()
            until = time.monotonic() + DEADLY_SECONDS
            known |= {tuple(items[i]): (reason, until) for i, reason in reasons.items()}
        if not known:
            return {}
        return {i: known[tuple(item)][0] for i, item in enumerate(items) if tuple(item) in known}

    def _survives(self, items: Sequence[Sequence[Text]]) -> None:
        """Try rows on a connection of their own, and take them back. A single one is tried twice.

        Raises:
            Refused: The connection was lost.
            psycopg.Error: The server is away.
        """
        for _ in range(2 if len(items) == 1 else 1):
            with self._another() as db:
                try:
                    with db.transaction(force_rollback=True):
                        self._send(db, items)
                    return
                except psycopg.Error as error:
                    if not db.closed:
                        return  # what is wrong is told when they are written
                    lost = error
        raise RowsRefused(ENDS_CONNECTION.format(said(lost)))

    @contextmanager
    def _another(self) -> Iterator[psycopg.Connection[Any]]:
        """Open one more connection, also if the server is on its way back from a crash."""
        until = time.monotonic() + BACK_SECONDS
        while True:
            try:
                db = self._database.service.connect()
                break
            except psycopg.Error:
                if time.monotonic() >= until:
                    raise
                time.sleep(LOOK_SECONDS)
        with closing(db):
            yield db
