"""What the sources of streams and lists have in common.

Redis keeps a message for a task from the moment it is read until Fulmen has acked it: a stream in
the group's list of pending entries, a list in a hash. What the checkpoint has are ids: of messages
in flight, of those to emit again, and of those that Redis is to forget. So a message that Redis
keeps and whose id the checkpoint does not have was read, and lost with a process or with an answer:
it is emitted.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from fulmen.api.collector import SpoutOutputCollector
from fulmen.api.components import Spout
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.connectors.formats import unread
from fulmen.services.redis import Redis

LOOK_SECONDS = 60.0
LAG_SECONDS = 5.0
"""How often Redis is asked how many messages are left."""
M = TypeVar("M")


class RedisSource(Spout, Generic[M]):
    """A source whose messages have ids, and which keeps them until they are acked."""

    backoff = True
    durable = ("failed", "acked")
    now = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.acked: dict[str, None] = {}

    def open(
        self,
        conf: Mapping[str, Any],  # noqa: ARG002
        context: TopologyContext,
        collector: SpoutOutputCollector,
    ) -> None:
        """Connect.

        Raises:
            ServiceUnavailable: Redis is away, or something is to be mended there.
        """
        self.collector, self._context = collector, context
        self._options: Any = context.options
        self._server = Redis(self._options.url)
        self._read: deque[tuple[str, M]] = deque()
        self._fetched: deque[tuple[str, M]] = deque()
        self._lost: dict[str, None] = {}
        self._look_at: float | None = self.now()
        self._lag_at = self.now()
        self._is_active = False
        self.connect(context)

    # What a kind of source does. All of it raises ServiceUnavailable.

    @abstractmethod
    def connect(self, context: TopologyContext) -> None:
        """Look at the stream or list."""

    @abstractmethod
    def read(self) -> list[tuple[str, M]]:
        """Messages that nobody has read, with their ids. Redis keeps them for this task."""

    @abstractmethod
    def kept(self) -> list[str]:
        """The ids of all messages that Redis keeps for this task."""

    @abstractmethod
    def fetch(self, ids: Sequence[str]) -> dict[str, M]:
        """Messages that Redis keeps for this task; those that are gone are missing."""

    @abstractmethod
    def forget(self, ids: Sequence[str]) -> None:
        """Have Redis keep these no longer."""

    @abstractmethod
    def decode(self, msg_id: str, message: M) -> list[Any]:
        """The values of a tuple. Whatever it raises is about this message."""

    @abstractmethod
    def data_of(self, message: M) -> bytes:
        """A message as it is shown to people, if it can't be read."""

    @abstractmethod
    def left(self) -> int | None:
        """How many messages nobody has read; None: Redis does not know it."""

    def seconds_behind(self) -> float | None:
        """How old the oldest message is that was not emitted; None: Redis does not know it."""
        return None

    def seconds_between_looks(self) -> float | None:
        """How often lost messages are looked for; None: only when something went wrong."""
        return LOOK_SECONDS

    # The life of a message

    def next_tuple(self) -> bool:
        """Emit a message that has failed, one that was lost, or a new one."""
        try:
            self._forget_acked()
            if self._look_at is not None and self.now() >= self._look_at:
                self._look()
            if not self._fetched and (self.failed or self._lost):
                self._fetch()
            if not self._fetched and not self._read:
                self._read.extend(self._new())
            if self.now() >= self._lag_at:
                self._lag_at = self.now() + LAG_SECONDS
                self._tell_lag()
        except ServiceUnavailable:
            self._look_at = self.now()  # an answer may have been lost
            raise
        waiting = self._fetched or self._read
        if not waiting:
            return False
        self._emit(*waiting[0])
        waiting.popleft()
        return True

    def _tell_lag(self) -> None:
        left = self.left() if self._context.task_index == 0 else 0  # one tells it for all of them
        messages = None if left is None else left + len(self._read)
        self._context.lag(messages=messages, seconds=self.seconds_behind())

    def _look(self) -> None:
        read = {msg_id for msg_id, _ in self._read}
        for msg_id in self.kept():
            if not (msg_id in self.state or msg_id in self.acked or msg_id in read):
                self._lost[msg_id] = None
        seconds = self.seconds_between_looks()
        self._look_at = None if seconds is None else self.now() + seconds

    def _fetch(self) -> None:
        """Get messages whose ids are known. One that is gone from Redis can't be emitted."""
        ids = list(islice(self.failed or self._lost, self._options.count))
        found = self.fetch(ids)
        self._fetched.extend((msg_id, found[msg_id]) for msg_id in ids if msg_id in found)
        for msg_id in ids:
            if msg_id not in found:
                key = self._options.key
                text = f"it was removed from {key!r} before it was processed"
                self.tell_lost(text, msg_id)
                self._end(msg_id)

    def tell_lost(self, reason: str, position: str) -> None:
        """Something can't be emitted any more: report it, and tell it on the stream `errors`."""
        self.collector.report_error(f"{position}: {reason}")
        self.collector.emit([None, reason, position], stream=ERRORS_STREAM)

    def _new(self) -> list[tuple[str, M]]:
        """New messages, but none that is in flight: Redis may have forgotten that it was read."""
        return [(msg_id, m) for msg_id, m in self.read() if msg_id not in self.state]

    def _emit(self, msg_id: str, message: M) -> None:
        try:
            values, stream = self.decode(msg_id, message), DEFAULT_STREAM
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            values = [self.data_of(message), str(unread(error)), msg_id]
            stream = ERRORS_STREAM
        self.failed.pop(msg_id, None)
        self._lost.pop(msg_id, None)
        self.state[msg_id] = True
        self.collector.emit(values, stream, msg_id)

    def fail(self, msg_id: Any, reason: str) -> None:  # noqa: ARG002
        """Emit the message again, soon."""
        if msg_id in self.state:
            self.failed[msg_id] = None

    def ack(self, msg_id: Any) -> None:
        """Have Redis forget the message; if it is away now, later."""
        self._end(msg_id)
        if not self._is_active:
            try:
                self._forget_acked()
            except ServiceUnavailable as error:
                self.collector.report_error(error)

    def _end(self, msg_id: str) -> None:
        self.failed.pop(msg_id, None)
        self._lost.pop(msg_id, None)
        self.state.pop(msg_id, None)
        self.acked[msg_id] = None

    def _forget_acked(self) -> None:
        if self.acked:
            self.forget(list(self.acked))
            self.acked = {}

    def activate(self) -> None:
        """Acks go to Redis all at once, when there is the next turn."""
        self._is_active = True

    def deactivate(self) -> None:
        """There are no turns now: acks go to Redis one by one."""
        self._is_active = False
