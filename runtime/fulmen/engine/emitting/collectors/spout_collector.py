"""The collector that a spout's task emits with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from sys import getrefcount
from typing import Any

from typing_extensions import override

from fulmen.api.collector import MessageId, SpoutOutputCollector, Values
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.engine.emitting.collectors.emit_buffer import UNSHARED, are_plain
from fulmen.engine.emitting.collectors.emitter import Emitter, shown
from fulmen.errors import StreamError


class SpoutCollector(Emitter, SpoutOutputCollector):
    """The collector of a spout task.

    Attributes:
        acks_at_once: Calls the spout's `ack`. Set where there are no ackers: then emit acks, as in
            Storm.
        limit: How many tuples there should be since `open` when the callback returns.
    """

    acks_at_once: Callable[[Any], None] | None = None
    limit = 0

    @property
    @override
    def room(self) -> int:
        return max(0, self.limit - self.emitted())

    @override
    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        msg_id: Any = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        try:
            buffer = self._buffers[stream]
        except (KeyError, TypeError):
            buffer = self._buffer(stream, values)
        try:
            hash(msg_id)
        except TypeError:
            raise unhashable(self.who, msg_id) from None
        if (
            type(values) is not list
            or len(values) != buffer.width
            or need_task_ids
            or self.acks_at_once is not None
        ):
            tasks = self._append(stream, values, msg_id, need_task_ids)
            if self.acks_at_once is not None and msg_id is not None:
                self.acks_at_once(msg_id)
            return tasks
        buffer.rows.append(values if getrefcount(values) == UNSHARED else [*values])
        buffer.origins.append(msg_id)
        return None

    @override
    def emit_many(
        self,
        rows: Iterable[Values],
        stream: str = DEFAULT_STREAM,
        msg_ids: Iterable[MessageId | None] | None = None,
    ) -> None:
        if not isinstance(rows, list | tuple):  # a generator is used up by the first look
            rows = self._taken(rows, stream, msg_ids)
        if msg_ids is not None and not isinstance(msg_ids, list | tuple | range):
            msg_ids = list(msg_ids)
        ids = [None] * len(rows) if msg_ids is None else msg_ids
        if len(ids) != len(rows):
            raise StreamError(
                f"{self.who}: emit_many of {len(rows)} rows with {len(ids)} message ids: each"
                " row needs one. Give None instead of an id for a row that is not to be tracked"
            )
        if not len(rows):
            return
        buffer = self._buffers.get(stream) if isinstance(stream, str) else None
        if buffer is None:
            buffer = self._buffer(stream, rows[0])
        if (
            self.acks_at_once is not None
            or not are_plain(rows, buffer.width)
            or not (msg_ids is None or _hashable(ids))
        ):
            for values, msg_id in zip(rows, ids, strict=True):
                self.emit(values, stream, msg_id)
            return
        buffer.extend(rows, ids)

    def _taken(
        self, rows: Iterable[Values], stream: str, msg_ids: Iterable[MessageId | None] | None
    ) -> list[Values]:
        """Rows of any kind, as a list. If one raises, those before it are emitted."""
        taken: list[Values] = []
        try:
            taken.extend(rows)
        except BaseException:
            ids = None if msg_ids is None else list(islice(msg_ids, len(taken)))
            self.emit_many(taken, stream, ids)
            raise
        return taken

    @override
    def emit_direct(
        self, task: int, values: Values, stream: str = DEFAULT_STREAM, msg_id: Any = None
    ) -> None:
        try:
            hash(msg_id)
        except TypeError:
            raise unhashable(self.who, msg_id) from None
        self._append_direct(task, stream, values, msg_id)
        if self.acks_at_once is not None and msg_id is not None:
            self.acks_at_once(msg_id)

    def emitted(self) -> int:
        """How many tuples were emitted since `open`. Called after each: runs may be many."""
        count = self._earlier
        for buffer in self.growing:  # a third of the time of sum() over a generator
            count += len(buffer.rows)
        return count


def _hashable(values: Sequence[Any]) -> bool:
    if type(values) is range:
        return True
    try:
        deque(map(hash, values), maxlen=0)
    except TypeError:
        return False
    return True


def unhashable(who: str, msg_id: Any) -> StreamError:
    """The error about a message id that can't be hashed."""
    return StreamError(
        f"{who}: emit with the message id {shown(msg_id)}, which is not hashable. Use text, a"
        " number, or a tuple of them"
    )
