"""A table that grows as a source: rows in the order of a column that never falls.

The position is a durable field: the highest value whose rows were emitted. All rows of one value
are emitted in one call, so that a position is never in the middle of them. A row that was emitted
is kept in the state until it is acked, so a replay does not depend on what the table has then.

Rows that are emitted in one call are a block: one entry in the state, which is there until all of
them are acked. A row that fails gets an entry of its own, so that it does not hold up its block.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from fulmen.api.collector import MessageId, SpoutOutputCollector
from fulmen.api.components import Outputs, Spout
from fulmen.api.context import TopologyContext
from fulmen.api.sinks import ERRORS_STREAM
from fulmen.connectors.formats import ERRORS, unread
from fulmen.connectors.sql.lag import LAG_SECONDS, seconds_since
from fulmen.connectors.sql.options import GrowingOptions, stream_of
from fulmen.connectors.sql.told import as_data
from fulmen.errors import repr_of
from fulmen.transactional.errors import StoreRefused

Row = Sequence[Any]
BLOCK = 1 << 28
"""The ids of a block's rows follow its key, which is a multiple of this."""


class GrowingTable(Protocol):
    """A table or query with a growing column. Its methods raise ServiceUnavailable.

    Attributes:
        placeless: What a value is that has no place in the order of the others.
    """

    placeless: str

    def highest(self, position: Any) -> Any:
        """The highest value that has a place; None: there is none.

        Args:
            position: Where the spout is.
        """
        ...

    def after(self, position: Any, last: Any) -> list[Row]:
        """The next rows in order: a number, the value of the growing column, then the fields.

        Rows whose values are equal to the database have one number: to Python they may differ.
        Either no row is missing or the last value is complete.

        Args:
            position: The values are higher than this one; None: from the first one.
            last: And not higher than this one; None: without limit.
        """
        ...

    def typed(self, values: list[Any]) -> list[Any]:
        """The values of a row, of the types that its fields are declared with.

        Raises:
            Malformed: One is not of its type.
        """
        ...

    def behind(self, position: Any) -> int:
        """How many rows have values higher than this one; at most MOST_COUNTED are counted."""
        ...

    def without_place(self, position: Any) -> int:
        """How many rows have a value such as null or infinity; counted up to MOST_COUNTED.

        Args:
            position: Where the spout is.
        """
        ...


class GrowingSpout(Spout):
    """Emits the rows of a table or query in the order of a growing column."""

    backoff = True
    durable = ("position", "emitted", "failed", "blocks", "without_place")
    now: Callable[[], float] = time.monotonic
    today: ClassVar[Callable[[], float]] = time.time  # noqa: TID251 (rows have the time of day)
    _options: GrowingOptions
    _table: GrowingTable
    _rows: deque[Row]
    _seen: deque[tuple[float, Any]]
    _due: float
    _lag_due: float
    _context: TopologyContext
    _is_at_end: bool

    def __init__(self) -> None:
        self.position: Any = None
        self.emitted = 0
        self.failed: list[int] = []
        self.blocks: dict[int, int] = {}
        self.without_place = 0  # rows that can't be emitted were told of

    def outputs_for(self, options: GrowingOptions) -> Outputs:
        """The columns to emit."""
        return {"default": stream_of(options.fields), ERRORS_STREAM: ERRORS}

    @abstractmethod
    def connect(self, options: Any) -> GrowingTable:
        """Find the table."""

    def open(
        self,
        conf: Mapping[str, Any],  # noqa: ARG002
        context: TopologyContext,
        collector: SpoutOutputCollector,
    ) -> None:
        """Look at the table.

        Raises:
            ServiceUnavailable: The database is away.
            StoreRefused: A name or a right is wrong: the text says which.
        """
        options = context.options
        if len(context.tasks(context.component)) > 1:
            raise StoreRefused(
                f"spout {context.component!r}",
                "its rows are read in order, which more than one task can't do",
                "Leave parallelism out.",
            )
        self.collector = collector
        self._options = options
        self._table = self.connect(options)
        self._rows, self._seen = deque(), deque()
        self._due = self._lag_due = self.now()
        self._is_at_end, self._context = False, context

    def next_tuple(self) -> bool:
        """Emit the rows of the next values, or one that has failed."""
        if self.now() >= self._lag_due:
            self._tell_lag()
        if self.failed:
            msg_id = self.failed.pop(0)
            self._emit([self.state[msg_id]], msg_id)
            return True
        if not self._rows and self.now() >= self._due:
            self._fetch()
        if not self._rows:
            return False
        rows, value = self._next_rows()
        self.emitted += 1
        key = self.emitted * BLOCK
        self.blocks[key] = len(rows)
        self.state[key] = rows
        self._emit(rows, key + 1)
        self.position = value
        return True

    def _next_rows(self) -> tuple[list[Any], Any]:
        """As many rows as there is room for, and all with the value of the last one."""
        left, room = self._rows, self.collector.room
        rows: list[Any] = []
        number, value = left[0][0], None
        while left and (len(rows) < room or left[0][0] == number):
            number, value, *values = left.popleft()
            rows.append(self._kept(values, value))
        return rows, value

    def _kept(self, values: list[Any], place: Any) -> Sequence[Any]:
        """A row as it is kept: as a tuple, if it is told on the stream `errors`."""
        try:
            return self._table.typed(values)
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            reason, at = str(unread(error)), f"{self._source}.{self._options.column}"
            position = f"{at}={repr_of(place)}"
            self.collector.report_error(f"{position}: {reason}")
            return as_data(self._options.fields, values), reason, position

    def _emit(self, rows: Sequence[Any], first: int) -> None:
        """Emit rows with ids from the first one on."""
        good = [i for i, row in enumerate(rows, first) if type(row) is list]
        if len(good) == len(rows):
            self.collector.emit_many(rows, msg_ids=good)
            return
        self.collector.emit_many([row for row in rows if type(row) is list], msg_ids=good)
        for i, row in enumerate(rows, first):
            if type(row) is tuple:
                self.collector.emit(list(row), stream=ERRORS_STREAM, msg_id=i)

    @property
    def _source(self) -> str:
        return self._options.table or "the query"

    def _fetch(self) -> None:
        self._due = self.now() + self._options.poll_seconds  # also if this raises
        self._take_rows_after(self._start)
        if self._is_at_end:  # a source that ends here does not come to its next look at the lag
            self._context.lag(messages=0, seconds=0.0)

    @property
    def _start(self) -> Any:
        return self._options.start if self.position is None else self.position

    def _tell_lag(self) -> None:
        """Also while there are rows to emit: that may take long, and the table grows meanwhile."""
        self._lag_due = self.now() + LAG_SECONDS  # also if this raises
        behind = self._table.behind(self._start)
        self._tell_of_rows_without_place()
        if behind and not self._rows and self.now() >= self._due:
            self._fetch()  # the first of them tells how old they are
        self._context.lag(messages=behind, seconds=self._age() if behind else 0.0)

    def _tell_of_rows_without_place(self) -> None:
        """Tell of rows that have come since the last time, before a restart as well."""
        before, self.without_place = self.without_place, self._table.without_place(self._start)
        more = self.without_place - before
        if more > 0:
            rows, column = "a row" if more == 1 else f"{more} rows", self._options.column
            where = self._source
            why = f"{column!r} is {self._table.placeless}, which has no place in a growing order"
            reason = f"{rows} can't be emitted: {why}"
            self.collector.report_error(f"{where}: {reason}")
            self.collector.emit([None, reason, f"{where}.{column}"], stream=ERRORS_STREAM)

    def _age(self) -> float | None:
        """How old the row to be emitted next is, if the column says when it was written."""
        return seconds_since(self._rows[0][1], type(self).today()) if self._rows else None

    def _take_rows_after(self, position: Any) -> None:
        options = self._options
        last = None
        if options.delay_seconds:
            last = self._settled(self._table.highest(position))
            if last is None:
                self._is_at_end = not self._seen
                return
        self._rows.extend(self._table.after(position, last))
        if len(self._rows) >= options.fetch_size:
            self._due = self.now()
        self._is_at_end = not self._rows and (last is None or last == self._seen[-1][1])

    def _settled(self, highest: Any) -> Any:
        """The highest value that has been there for the delay; None: there is none."""
        now, seen = self.now(), self._seen
        if highest is not None and (not seen or seen[-1][1] != highest):
            seen.append((now, highest))
        while len(seen) > 1 and seen[1][0] <= now - self._options.delay_seconds:
            seen.popleft()
        is_settled = seen and seen[0][0] <= now - self._options.delay_seconds
        return seen[0][1] if is_settled else None

    def ack(self, msg_id: MessageId) -> None:
        """Forget the row."""
        if self.state.pop(msg_id, None) is None:
            self._end(msg_id // BLOCK * BLOCK)  # type: ignore[operator]

    def fail(self, msg_id: MessageId, reason: str) -> None:  # noqa: ARG002
        """Emit the row again."""
        block, place = divmod(msg_id, BLOCK)  # type: ignore[operator]
        if msg_id not in self.state:
            if (rows := self.state.get(block * BLOCK)) is None:
                return
            self.state[msg_id] = rows[place - 1]
            self._end(block * BLOCK)
        if msg_id not in self.failed:
            self.failed.append(msg_id)  # type: ignore[arg-type]

    def _end(self, key: int) -> None:
        """A row of a block needs it no more."""
        if key in self.blocks:
            self.blocks[key] -= 1
            if not self.blocks[key]:
                del self.blocks[key], self.state[key]

    def part_of(self, msg_id: MessageId) -> str:  # noqa: ARG002
        """The table: its rows are one part of the source."""
        return self._source

    @property
    def knows_its_end(self) -> bool:
        """Whether the table has an end."""
        return not self._options.follow

    def is_exhausted(self) -> bool:
        """Whether all rows were emitted and acked, and no more are waited for."""
        return not self._options.follow and self._is_at_end and not self.state
