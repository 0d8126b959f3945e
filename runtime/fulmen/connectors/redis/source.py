"""The base of the sources of streams and lists.

Redis keeps a message for a task from the moment it is read until Fulmen has acked it: a stream in
the group's list of pending entries, a list in a hash. What the checkpoint has are ids: of messages
in flight, by the blocks in which they were emitted, of those to emit again, and of those that Redis
is to forget. So a message that Redis keeps and whose id the checkpoint does not have was read, and
lost with a process or with an answer: it is emitted. After a change of the number of tasks, Redis
may keep a message for one task while the checkpoint has its id for another. So each task knows the
ids that others had then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from typing_extensions import override

from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.connectors.base.blocks import EmittedBlocks
from fulmen.connectors.base.redealing import heir_of, refuse_own_fields, waiting
from fulmen.connectors.base.source import Source
from fulmen.connectors.formats import Malformed, unread
from fulmen.services.redis import Redis

LOOK_SECONDS = 60.0
M = TypeVar("M")


class RedisSource(Source, Generic[M]):
    """A source whose messages have ids, and which keeps them until they are acked."""

    durable = ("failed", "acked", "in_blocks", "elsewhere")
    lag_seconds = 5.0
    options: Any

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.acked: dict[str, None] = {}
        self.in_blocks: dict[int, int] = {}
        self.elsewhere: dict[str, None] = {}

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        refuse_own_fields(cls, kept, RedisSource.durable)
        dealt = [Kept({name: {} for name in RedisSource.durable}) for _ in range(tasks)]
        known = {msg_id for one in kept for msg_id in one.fields.get("elsewhere", ())}
        for task, one in enumerate(kept):
            for msg_id, value in waiting(one).items():
                dealt[cls.heir(task, msg_id, tasks)].state[msg_id] = value
            for name in ("failed", "acked"):
                for msg_id in one.fields.get(name, ()):
                    dealt[cls.heir(task, msg_id, tasks)].fields[name][msg_id] = None
            for msg_id in one.failed:
                dealt[cls.heir(task, msg_id, tasks)].failed.append(msg_id)
        own = [{*one.state, *one.fields["failed"], *one.fields["acked"]} for one in dealt]
        known = known.union(*own)
        for one, ids in zip(dealt, own, strict=True):
            one.fields["elsewhere"] = dict.fromkeys(sorted(known - ids))
        return dealt

    @staticmethod
    def heir(task: int, msg_id: str, tasks: int) -> int:  # noqa: ARG004 (for those below)
        """The task, of so many, for which Redis then keeps a message that it keeps for `task`."""
        return heir_of(task, tasks)

    def connect(self) -> None:
        """Connect."""
        self._server = Redis(self.options.url)
        self._blocks = EmittedBlocks(self.state, self.in_blocks)
        self._read: deque[tuple[str, M]] = deque()
        self._fetched: deque[tuple[str, M]] = deque()
        self._lost: dict[str, None] = {}
        self._is_active = False
        self.find()
        self._look_due = self.due(self.look_seconds)

    # What a kind of source does. All of it raises ServiceUnavailable.

    @abstractmethod
    def find(self) -> None:
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
    def left(self) -> int | None:
        """The number of messages that nobody has read; None: Redis does not know it."""

    def seconds_behind(self) -> float | None:
        """The age of the oldest message that was not emitted; None: Redis does not know it."""
        return None

    @property
    def look_seconds(self) -> float:
        """Seconds between looks for lost messages, also if nothing went wrong."""
        return LOOK_SECONDS

    # The life of a message

    def next_tuple(self) -> bool:
        """Emit messages that have failed, that were lost, or new ones: as many as there is room."""
        try:
            self._forget_acked()
            if self._look_due.is_now():
                self._look()
            if not self._fetched and (self.failed or self._lost):
                self._fetch()
            if not (self._fetched or self._read):
                self._read.extend(self._new())
            if self.lag_due.take():
                self._tell_lag()
        except ServiceUnavailable:
            self._look_due.soon()  # an answer may have been lost
            raise
        waiting = self._fetched or self._read
        if not waiting:
            return False
        some = list(islice(waiting, max(1, self.collector.room)))
        ids = [msg_id for msg_id, _ in some]
        self._emit(ids, [message for _, message in some])
        self._forget_to_emit(ids)
        if new := [msg_id for msg_id in ids if msg_id not in self._blocks]:
            self._blocks.add(new)
        for _ in some:
            waiting.popleft()
        return True

    def _forget_to_emit(self, ids: Sequence[str]) -> None:
        if self.failed or self._lost:
            for msg_id in ids:
                self.failed.pop(msg_id, None)
                self._lost.pop(msg_id, None)

    def _emit(self, ids: Sequence[str], messages: Sequence[M]) -> None:
        """Emit messages; those that can't be read go to the stream `errors`.

        Raises:
            ServiceUnavailable: What reading them needs is away. Nothing was emitted.
        """
        decoded = self.decode_each(ids, messages)
        if Malformed not in set(map(type, decoded)):
            self.collector.emit_many(decoded, msg_ids=ids)
            return
        read = [i for i, values in enumerate(decoded) if type(values) is not Malformed]
        self.collector.emit_many([decoded[i] for i in read], msg_ids=[ids[i] for i in read])
        for msg_id, message, why in zip(ids, messages, decoded, strict=True):
            if type(why) is Malformed:
                values = [self.data_of(message), str(why), self.place_of(msg_id, message)]
                self.collector.emit(values, ERRORS_STREAM, msg_id)

    def decode_each(self, ids: Sequence[str], messages: Sequence[M]) -> list[list[Any] | Malformed]:
        """The values of each message, or why it can't be read."""
        decoded: list[list[Any] | Malformed] = []
        for msg_id, message in zip(ids, messages, strict=True):
            try:
                decoded.append(self.decode(msg_id, message))
            except BaseException as error:  # noqa: BLE001 (of any decoder)
                decoded.append(unread(error))
        return decoded

    def _tell_lag(self) -> None:
        left = self.left() if self.context.task_index == 0 else 0  # one tells it for all of them
        messages = None if left is None else left + len(self._read)
        self.context.lag(messages=messages, seconds=self.seconds_behind())

    def _look(self) -> None:
        read, kept = {msg_id for msg_id, _ in self._read}, self.kept()
        self.elsewhere = {msg_id: None for msg_id in kept if msg_id in self.elsewhere}
        known = self.elsewhere.keys() | self.acked.keys() | read
        for msg_id in kept:
            if not (msg_id in self._blocks or msg_id in known):
                self._lost[msg_id] = None
        self._look_due.later()

    def _fetch(self) -> None:
        """Get messages whose ids are known. One that is gone from Redis can't be emitted."""
        ids = list(islice(self.failed or self._lost, self.options.count))
        messages = self.fetch(ids)
        self._fetched.extend((msg_id, messages[msg_id]) for msg_id in ids if msg_id in messages)
        for msg_id in ids:
            if msg_id not in messages:
                key = self.options.key
                text = f"it was removed from {key!r} before it was processed"
                self.tell(text, msg_id)
                self._end([msg_id])

    def _new(self) -> list[tuple[str, M]]:
        """New messages, but none that is in flight: Redis may have forgotten that it was read."""
        return [(msg_id, m) for msg_id, m in self.read() if msg_id not in self._blocks]

    def fail(self, msg_id: Any, reason: str) -> None:  # noqa: ARG002
        """Emit the message again, soon."""
        if self._blocks.fail(msg_id):
            self.failed[msg_id] = None

    def ack(self, msg_id: Any) -> None:
        """Have Redis forget the message; if it is away now, later."""
        self.ack_batch([msg_id])

    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        """Have Redis forget messages; if it is away now, later."""
        self._end(msg_ids)
        if not self._is_active:
            try:
                self._forget_acked()
            except ServiceUnavailable as error:
                self.collector.report_error(error)

    def _end(self, ids: Sequence[str]) -> None:
        self._forget_to_emit(ids)
        self._blocks.end(ids)
        self.acked.update(dict.fromkeys(ids))

    def _forget_acked(self) -> None:
        if self.acked:
            self.forget(list(self.acked))
            self.acked = {}

    def activate(self) -> None:
        """Acks go to Redis all at once, when there is the next turn."""
        self._is_active = True

    def deactivate(self) -> None:
        """Note that there are no turns now: acks go to Redis one by one."""
        self._is_active = False
