"""Sinks that gather rows over several commits, such as for a file of some size."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from fulmen.api.collector import OutputCollector
from fulmen.api.components import Bolt, FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import ANY_STREAM
from fulmen.api.sinks import ServiceUnavailable
from fulmen.api.tuples import Tuple
from fulmen.connectors.formats import Malformed

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


class GatheringSink(Bolt):
    """Gathers rows in its state, and writes them when they are many or old enough.

    Rows are acked when they are in the checkpoint. They are written after the commit that has the
    last of them, under a name that is part of that commit. So each row is written once, whatever is
    repeated, if writing the same name twice does no harm. When the topology is drained, all rows
    are written.

    While the service is away, rows stay in the checkpoint. The spouts are held, so that these do
    not become more and more, and each batch waits up to `wait_seconds` for it.
    """

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
    def chunk(self, rows: list[Any]) -> bytes:
        """Rows as the state keeps them."""

    @abstractmethod
    def put(self, gathered: Gathered, chunks: list[bytes]) -> None:
        """Write rows, again perhaps.

        Raises:
            ServiceUnavailable: The service is away. They are written later.
        """

    @override
    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> None:
        self.context, self.options = context, context.options
        self._collector = collector
        self._rows: list[Any] = []
        self._encoders: dict[tuple[str, ...], Callable[[Sequence[Any]], Any]] = {}
        self.connect()
        if self.fields:
            self._encoder_of(self.fields)

    @override
    def execute(self, tup: Tuple) -> None:
        if tup.is_tick():
            return
        try:
            fields, values = tuple(tup.fields), tup.values
            if self.options.any_stream:
                fields, values = ANY_STREAM.fields, [tup.component, tup.stream, tup.as_dict()]
            self._rows.append(self._encoder_of(fields)(values))
        except Malformed as error:
            raise FailedException(str(error)) from error
        self._collector.ack(tup)

    def _encoder_of(self, fields: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
        encoder = self._encoders.get(fields)
        if encoder is None:
            encoder = self._encoders[fields] = self.encoder(fields)
            self.fields = self.fields or fields
        return encoder

    @override
    def end_batch(self) -> None:
        self._gather()
        if self.since is not None:
            is_old = type(self).now() >= self.since + self.options.roll_seconds
            if self.size >= self.options.roll_bytes or is_old:
                self._roll()
        self.committed(self.context.batch.number - 1)

    @override
    def drain(self) -> None:
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
            context, batch = self.context, self.context.batch
            label = f"{context.topology}/{context.component}/{context.task_index}"
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
