"""A table that grows as a source: rows in the order of a column that never falls.

The position is a durable field: the highest value whose rows were emitted. All rows of one value
are emitted in one call, so that a position is never in the middle of them. A row that was emitted
is kept in the state until it is acked, so a replay does not depend on what the table has then.

Rows that are emitted in one call are a block: one entry in the state, which is there until all of
them are acked. A row that fails gets an entry of its own, so that it does not hold up its block.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, ClassVar

from fulmen.api.collector import MessageId
from fulmen.connectors.base.blocks import kept_bytes
from fulmen.connectors.sql.database import SqlDatabase
from fulmen.connectors.sql.options import GrowingOptions
from fulmen.connectors.sql.source import MOST_COUNTED, SqlSource
from fulmen.errors import repr_of
from fulmen.services.errors import StoreRefused

Row = Sequence[Any]
BLOCK = 1 << 28
"""The ids of a block's rows follow its key, which is a multiple of this."""


class GrowingSpout(SqlSource):
    """Emits the rows of a table or query in the order of a growing column."""

    durable = ("position", "emitted", "failed", "blocks", "without_place")
    options: GrowingOptions
    source: str
    column: str
    fields: str

    def __init__(self) -> None:
        super().__init__()
        self.position: Any = None
        self.emitted = 0
        self.blocks: dict[int, int] = {}
        self.without_place = 0  # rows that can't be emitted were told of

    # What a database is asked for. All of it raises what the client raises.

    placeless: ClassVar[str]
    """Names a value that has no place in the order of the others."""

    @abstractmethod
    def find(self, what: str) -> SqlDatabase[Any, Any]:
        """The database of a table or query. Sets `source`, `column` and `fields` for statements."""

    @abstractmethod
    def look(self, db: Any) -> None:
        """See that the columns are there, and of the types that they are said to be of."""

    @abstractmethod
    def place(self, db: Any) -> tuple[str, str]:
        """A condition for values that have a place; and how statements have such a value."""

    @abstractmethod
    def fetched(self, db: Any, statement: str, values: list[Any]) -> list[Row]:
        """The rows of a query, whatever is in them."""

    @abstractmethod
    def after(self, db: Any, last: Any) -> list[Row]:
        """The next rows in order: a number, the value of the growing column, then the fields.

        Rows whose values are equal to the database have one number: to Python they may differ.
        Either no row is missing or the last value is complete.

        Args:
            db: In a transaction.
            last: Values are not higher than this one; None: without limit.
        """

    def connect(self) -> None:
        """Look at the table.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name or a right is wrong: the text says which.
        """
        if self.tasks > 1:
            raise StoreRefused(
                f"spout {self.context.component!r}",
                "its rows are read in order, which more than one task can't do",
                "Leave parallelism out.",
            )
        table, column = self.options.table, self.options.column
        self._database = self.find(f"table {table!r}" if table else f"query of {column!r}")
        with self._database.opening() as db:
            self.look(db)
        self._rows: list[Row] = []
        self._seen: deque[tuple[float, Any]] = deque()
        self._poll = self.due(self.options.poll_seconds)
        self._is_at_end = False

    @property
    def query(self) -> str:
        """The option, as it can be part of another query."""
        return f"({(self.options.query or '').rstrip().rstrip(';')}) AS q"

    def above(self, db: Any) -> tuple[str, list[Any]]:
        """Rows behind the position: a condition, and its values."""
        where, value = self.place(db)
        if self.start is None:
            return where, []
        # the narrowest bound comes first: SQLite looks up the first one in an index
        return f"{self.column} > {value} AND {where}", [self.start]

    def _count(self, db: Any, condition: str, values: list[Any]) -> int:
        rows = f"SELECT 1 FROM {self.source} WHERE {condition} LIMIT {MOST_COUNTED}"
        [[count]] = self.fetched(db, f"SELECT count(*) FROM ({rows}) AS counted", values)
        return int(count)

    def _highest(self) -> Any:
        """The highest value that has a place; None: there is none."""
        with self._database.transaction() as db:
            where, _ = self.place(db)
            select = f"SELECT {self.column} FROM {self.source} WHERE {where}"
            rows = self.fetched(db, f"{select} ORDER BY {self.column} DESC LIMIT 1", [])
        return rows[0][0] if rows else None

    def begin_turn(self) -> bool:
        """Tell the lag, also while there are rows to emit: the table grows meanwhile."""
        if self.lag_due.take():
            with self._database.transaction() as db:
                behind = self._count(db, *self.above(db))
            self._tell_of_rows_without_place()
            if behind and not self._rows and self._poll.is_now():
                self._fetch()  # the first of them tells how old they are
            age = (self.age_of(self._rows[0][1]) if self._rows else None) if behind else 0.0
            self.context.lag(messages=behind, seconds=age)
        return True

    def emit_next(self) -> bool:
        """Emit the rows of the next values."""
        if not self._rows and self._poll.is_now():
            self._fetch()
        if not self._rows:
            return False
        rows, value = self._next_rows()
        self.emitted += 1
        key = self.emitted * BLOCK
        self.blocks[key] = len(rows)
        self.state[key] = kept_bytes(rows)
        if tuple not in set(map(type, rows)):
            self.collector.emit_many(rows, msg_ids=range(key + 1, key + 1 + len(rows)))
        else:
            refused = {i: row for i, row in enumerate(rows, key + 1) if type(row) is tuple}
            good = {i: row for i, row in enumerate(rows, key + 1) if i not in refused}
            self.collector.emit_many(list(good.values()), msg_ids=list(good))
            for i, row in refused.items():
                self.emit_row(row, i)
        self.position = value
        return True

    def emit_again(self, msg_id: int) -> None:
        """Emit a row that has failed."""
        self.emit_row(self.state[msg_id], msg_id)

    def _next_rows(self) -> tuple[Sequence[Any], Any]:
        """Take as many rows as there is room for, and all with the value of the last one."""
        left = self._rows
        end = min(max(1, self.collector.room), len(left))
        number = left[end - 1][0]
        while end < len(left) and left[end][0] == number:
            end += 1
        taken, self._rows = left[:end], left[end:]
        rows = self.kept_each([list(row[2:]) for row in taken], [row[1] for row in taken])
        return rows, taken[-1][1]

    def position_of(self, place: Any) -> str:
        """The value of the growing column."""
        return f"{self._source}.{self.options.column}={repr_of(place)}"

    @property
    def _source(self) -> str:
        return self.options.table or "the query"

    @property
    def start(self) -> Any:
        """The value to begin after. None: nothing was emitted, and `start` is not set."""
        return self.options.start if self.position is None else self.position

    def _tell_of_rows_without_place(self) -> None:
        """Tell of rows that have come since the last time, before a restart as well."""
        before = self.without_place
        with self._database.transaction() as db:
            where, _ = self.place(db)
            self.without_place = self._count(db, f"({where}) IS NOT TRUE", [])
        more = self.without_place - before
        if more > 0:
            rows, column = "a row" if more == 1 else f"{more} rows", self.options.column
            why = f"{column!r} is {self.placeless}, which has no place in a growing order"
            reason = f"{rows} can't be emitted: {why}"
            self.tell(reason, f"{self._source}.{column}", f"{self._source}: {reason}")

    def _fetch(self) -> None:
        self._poll.later()  # also if this raises
        last = None
        if self.options.delay_seconds:
            last = self._settled(self._highest())
        if self.options.delay_seconds and last is None:
            self._is_at_end = not self._seen
        else:
            with self._database.transaction() as db:
                self._rows.extend(self.after(db, last))
            if len(self._rows) >= self.options.fetch_size:
                self._poll.soon()
            self._is_at_end = not self._rows and (last is None or last == self._seen[-1][1])
        if self._is_at_end:  # a source that ends here does not come to its next look at the lag
            self.context.lag(messages=0, seconds=0.0)

    def _settled(self, highest: Any) -> Any:
        """The highest value that has been there for the delay; None: there is none."""
        now, seen = self.clock(), self._seen
        if highest is not None and (not seen or seen[-1][1] != highest):
            seen.append((now, highest))
        while len(seen) > 1 and seen[1][0] <= now - self.options.delay_seconds:
            seen.popleft()
        is_settled = seen and seen[0][0] <= now - self.options.delay_seconds
        return seen[0][1] if is_settled else None

    def ack(self, msg_id: MessageId) -> None:
        """Forget the row."""
        self.ack_batch([msg_id])

    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Forget the rows."""
        if len(self.state) > len(self.blocks):  # some have an entry of their own
            msg_ids = [msg_id for msg_id in msg_ids if self.state.pop(msg_id, None) is None]
        for block, rows in Counter([msg_id // BLOCK for msg_id in msg_ids]).items():
            self._end(block * BLOCK, rows)

    def fail(self, msg_id: Any, reason: str) -> None:
        """Emit the row again."""
        block, place = divmod(msg_id, BLOCK)
        if msg_id not in self.state:
            if (rows := self.state.get(block * BLOCK)) is None:
                return
            self.state[msg_id] = pickle.loads(rows)[place - 1]
            self._end(block * BLOCK)
        super().fail(msg_id, reason)

    def _end(self, key: int, rows: int = 1) -> None:
        """Note that rows of a block need it no more."""
        if key in self.blocks:
            self.blocks[key] -= rows
            if self.blocks[key] <= 0:
                del self.blocks[key], self.state[key]

    def part_of(self, msg_id: MessageId) -> str:  # noqa: ARG002
        """The table: its rows are one part of the source."""
        return self._source

    def parts_of(self, msg_ids: Sequence[MessageId]) -> str:  # noqa: ARG002
        """The same."""
        return self._source

    def is_exhausted(self) -> bool:
        """Whether all rows were emitted and acked, and no more are waited for."""
        return not self.options.follow and self._is_at_end and not self.state
