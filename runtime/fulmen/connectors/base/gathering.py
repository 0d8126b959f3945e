"""Sinks that gather rows over several commits, such as for a file of some size."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.components.chunks import ChunkBolt, ChunkValues
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import ANY_STREAM
from fulmen.api.marks import Point
from fulmen.api.tuples import Tuple
from fulmen.connectors.formats import Malformed, Rowlike
from fulmen.errors import PASSED_ON

Encode = Callable[[Sequence[Any]], Any]
EncodeMany = Callable[[Rowlike], list[Any]]
_PAUSE_SECONDS = 0.5


class Gathered(NamedTuple):
    """Rows that are to be written as soon as they are committed.

    Attributes:
        label: Whose they are: topology, component and number of the task.
        number: The commit that has the last of them.
        attempt: The attempt of the batch of that commit.
        first: The first of their chunks in the state.
        end: The one behind the last.
    """

    label: str
    number: int
    attempt: str
    first: int
    end: int

    @property
    def point(self) -> Point:
        """By which the mark of these rows is told from others."""
        return Point(self.number, self.attempt)


class GatheringSink(ChunkBolt):
    """Gathers rows in its state, and writes them when they are many or old enough.

    Rows are acked when they are in the checkpoint. They are written after the commit that has the
    last of them, under a name that is part of that commit. So each row is written once, whatever is
    repeated, if writing the same name twice does no harm. A mark at the store and one in the
    checkpoint (`context.signals.kept_mark`) say which commit was written last. When the topology is
    drained, all rows are written.

    While the service is away, rows stay in the checkpoint. The spouts are held, so that these do
    not become more and more, and each batch waits up to `wait_seconds` for it.
    """

    keeps_mark: ClassVar[bool] = True
    durable = ("first", "end", "size", "since", "fields", "full")
    wait_seconds: ClassVar[float] = 5.0
    now: ClassVar[Callable[[], float]] = time.time  # noqa: TID251 (rows outlive processes)
    context: TopologyContext
    options: Any

    def __init__(self) -> None:
        self.first = self.end = 0
        self.size = 0
        self.since: float | None = None
        self.fields: tuple[str, ...] = ()
        self.full: list[Gathered] = []

    @abstractmethod
    def connect(self) -> None:
        """Look at where rows are written."""

    @abstractmethod
    def encoder(self, fields: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
        """A function that makes what is written of a row. It raises Malformed for some rows."""

    @abstractmethod
    def encoder_of_many(self, fields: tuple[str, ...]) -> Callable[[Rowlike], list[Any]]:
        """A function that makes of rows what `encoder` does of each, or raises whatever it may."""

    @abstractmethod
    def chunk(self, rows: list[Any]) -> bytes:
        """Rows as the state keeps them."""

    @abstractmethod
    def put(self, gathered: Gathered, chunks: list[bytes]) -> None:
        """Write rows, again perhaps.

        Raises:
            ServiceUnavailable: The service is away. They are written later.
        """

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.context, self.options = context, context.options
        self._rows: list[Any] = []
        self._encoders: dict[tuple[str, ...], tuple[Encode, EncodeMany]] = {}
        self.connect()
        if self.fields:
            self._encoders_of(self.fields)

    @override
    def execute_chunk(self, tup: Tuple, rows: ChunkValues) -> Sequence[int] | None:
        if self.options.any_stream:
            return None
        try:
            _, encode_many = self._encoders_of(tuple(tup.fields))
            self._rows += encode_many(list(rows))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (of an author's class: one of them is another case)
            return None
        return ()

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup.is_tick():
            return
        fields, values = tuple(tup.fields), tup.values
        if self.options.any_stream:
            fields, values = ANY_STREAM.fields, [tup.component, tup.stream, tup.as_dict()]
        try:
            encode, _ = self._encoders_of(fields)
            self._rows.append(encode(values))
        except Malformed as error:
            raise FailedException(str(error)) from error

    def _encoders_of(self, fields: tuple[str, ...]) -> tuple[Encode, EncodeMany]:
        encoders = self._encoders.get(fields)
        if encoders is None:
            encoders = self.encoder(fields), self.encoder_of_many(fields)
            self._encoders[fields] = encoders
            self.fields = self.fields or fields
        return encoders

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._gather()
        if self.since is not None:
            is_old = type(self).now() >= self.since + self.options.roll_seconds
            if self.size >= self.options.roll_bytes or is_old:
                self._roll()
        self.committed(self.context.batch.number - 1)

    @override
    def drain(self, collector: BasicOutputCollector) -> None:
        self._gather()
        self._roll()
        self.committed(self.context.batch.number - 1)

    @override
    def committed(self, number: int) -> None:
        """Write what is durable with this commit."""
        while self.full and self.full[0].number <= number:
            full = self.full[0]
            self._put_or_hold(full, [self.state[i] for i in range(full.first, full.end)])
            for i in range(full.first, full.end):
                del self.state[i]
            self.full.pop(0)

    def _gather(self) -> None:
        if not self._rows:
            return
        chunk = self.chunk(self._rows)
        self._rows = []
        self.state[self.end] = chunk
        self.end += 1
        self.size += len(chunk)
        if self.since is None:
            self.since = type(self).now()

    def _roll(self) -> None:
        if self.first < self.end:
            label, batch = self.context.label, self.context.batch
            self.full.append(Gathered(label, batch.number, batch.attempt, self.first, self.end))
            self.first, self.size, self.since = self.end, 0, None

    def _put_or_hold(self, gathered: Gathered, chunks: list[bytes]) -> None:
        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                self.put(gathered, chunks)
            except ServiceUnavailable as error:
                if time.monotonic() >= deadline:
                    self.context.hold_spouts(f"a file can't be written: {error}")
                    raise
            else:
                self.context.release_spouts()
                return
            time.sleep(_PAUSE_SECONDS)
