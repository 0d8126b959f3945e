"""A source: how it is opened, what of it is durable, what it says, and what comes again.

- Durable are the fields that `durable` names, and `state`; nothing else, so that neither a cache
  nor a password gets into a checkpoint. They say which messages are pending: by a position up to
  which all were emitted, or by an entry in `state` until a message, or a block of them, is acked.
- A message is emitted by the chunk where the service gives more than one at once: rows in a list,
  and their ids beside them, as many as the collector has room for.
- While the service is away, a turn raises ServiceUnavailable. The engine tells it and waits; the
  source tries again with a later turn. What the service forgets with a lost connection, it has to
  hand out again; what the checkpoint knows of that is not emitted twice.
- What is lost or can't be read is told on the stream `errors`. Nothing is skipped in silence.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fulmen.api.components import Outputs, Spout
from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.connectors.base.recurring import Recurring
from fulmen.connectors.formats import ERRORS, Format, unread


class Source(Spout):
    """The base of all sources.

    Attributes:
        options: Its validated config.
        format: How its messages are read, if `connect` sets it.
        tasks: How many tasks it has.
        lag_due: When to tell the lag next.
    """

    backoff = True
    durable: ClassVar[Sequence[str]] = ()
    lag_seconds: ClassVar[float] = 1.0
    clock: Callable[[], float] = time.monotonic
    """The clock, in seconds, of all that is done now and then."""
    today: ClassVar[Callable[[], float]] = time.time  # noqa: TID251 (systems have the time of day)
    options: Any
    context: TopologyContext
    collector: Any
    format: Format

    def stream(self, options: Any) -> Stream:
        """The stream `default`: what a message becomes in the format."""
        made: Stream = options.format.make().stream()
        return made

    def outputs_for(self, options: Any) -> Outputs:
        """The streams for messages, and for those that can't be read."""
        return {DEFAULT_STREAM: self.stream(options), ERRORS_STREAM: ERRORS}

    def open(
        self,
        conf: Mapping[str, Any],  # noqa: ARG002
        context: TopologyContext,
        collector: Any,
    ) -> None:
        """Connect, with all that is not durable begun anew. Raises what `connect` does."""
        self.context, self.collector, self.options = context, collector, context.options
        self.tasks = len(context.tasks(context.component)) or 1
        self.lag_due = self.due(self.lag_seconds)
        self.connect()

    @abstractmethod
    def connect(self) -> None:
        """Look at the source.

        Raises:
            ServiceUnavailable: It is away, or something is to be mended there.
        """

    def due(self, seconds: float) -> Recurring:
        """Make something due every so many seconds."""
        return Recurring(
            lambda: self.clock(), seconds
        )  # tests put in a clock of their own after `open`

    def tell(self, reason: str, position: str, report: str = "") -> None:
        """Report a loss or a passed-over message, and tell it on the stream `errors`."""
        self.collector.report_error(report or f"{position}: {reason}")
        self.collector.emit([None, reason, position], ERRORS_STREAM)

    def emit_message(self, msg_id: Any, message: Any) -> None:
        """Emit a message; one that can't be read goes to the stream `errors`.

        Raises:
            ServiceUnavailable: What reading it needs is away. Nothing was emitted.
        """
        try:
            values, stream = self.decode(msg_id, message), DEFAULT_STREAM
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            values = [self.data_of(message), str(unread(error)), self.place_of(msg_id, message)]
            stream = ERRORS_STREAM
        self.collector.emit(values, stream, msg_id)

    def decode(self, msg_id: Any, message: Any) -> list[Any]:  # noqa: ARG002
        """The values of a message. Whatever it raises is about this message."""
        return self.format.decode(message)

    def data_of(self, message: Any) -> bytes:
        """A message as people see it that can't be read."""
        data: bytes = message
        return data

    def place_of(self, msg_id: Any, message: Any) -> str:  # noqa: ARG002
        """The place of a message in the source, for people."""
        return str(msg_id)


class MessageSource(Source):
    """A source that can emit any pending message again, by its id.

    Attributes:
        failed: The ids of messages to be emitted again, in order.
    """

    durable: ClassVar[Sequence[str]] = ("failed",)

    def __init__(self) -> None:
        self.failed: dict[Any, None] = {}

    def next_tuple(self) -> bool:
        """Emit a message that has failed, or what comes next."""
        if not self.begin_turn():
            return False
        if not self.failed:
            return self.emit_next()
        msg_id = next(iter(self.failed))
        del self.failed[msg_id]
        self.emit_again(msg_id)
        return True

    def begin_turn(self) -> bool:
        """Do what is to be done before anything is emitted. False: nothing can be now."""
        return True

    @abstractmethod
    def emit_next(self) -> bool:
        """Emit what comes next; False: there is nothing now."""

    @abstractmethod
    def emit_again(self, msg_id: Any) -> None:
        """Emit a message that has failed."""

    def fail(self, msg_id: Any, reason: str) -> None:  # noqa: ARG002
        """Emit the message again."""
        self.failed[msg_id] = None
