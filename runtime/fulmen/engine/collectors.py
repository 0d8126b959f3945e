"""The collectors that tasks emit, ack and fail with: lists to append to, and nothing else.

A collector is closed outside of its task's callbacks: using it then is an error that says so. Being closed costs nothing
while it is open: it is another mapping in place of the one of buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from fulmen.api.collector import (
    Anchors,
    BasicOutputCollector,
    OutputCollector,
    SpoutOutputCollector,
    Values,
)
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import HELD, Tuple
from fulmen.engine.outbox import Routes
from fulmen.errors import CollectorError, StreamError

EXPLICIT = "failed by the bolt"


class Buffer:
    """Emits on one stream, in their order.

    Attributes:
        values: What was emitted.
        origins: For each emit: the message id (spouts), the anchors (bolts) or the input's position (basic bolts).
        chosen: Emits whose tasks are known already: emit number -> (subscription number, tasks).
    """

    __slots__ = ("chosen", "origins", "routes", "values", "width")

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.width = (
            -1 if routes.direct else len(routes.fields)
        )  # -1: never right, so the slow way explains it
        self.values: list[Values] = []
        self.origins: list[Any] = []
        self.chosen: dict[int, list[tuple[int, list[int]]]] = {}

    def remove(self, i: int) -> None:
        """Take emit number `i` out."""
        del self.values[i], self.origins[i]
        self.chosen = {k - (k > i): v for k, v in self.chosen.items() if k != i}


class _Closed(Mapping[str, Buffer]):
    """Stands for the buffers of a collector while its task is not being called."""

    def __init__(self, who: str) -> None:
        self._who = who

    def __getitem__(self, stream: str) -> NoReturn:
        raise CollectorError(
            f"{self._who}: emit, ack or fail outside of a callback. Use the collector only inside of next_tuple, ack, "
            "fail, activate, deactivate or execute, and on the thread that calls them"
        )

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


class Emitter:
    """The part that all collectors share: buffers by stream.

    With `ordered` a new buffer is begun whenever the stream changes, because a bolt that subscribes to several of the
    component's streams must receive the tuples of all of them in the order in which they were emitted.
    """

    def __init__(
        self, who: str, routes: Mapping[str, Routes], ordered: bool, report: Callable[[Any], None]
    ) -> None:
        self._who = who
        self._routes = routes
        self._ordered = ordered
        self._report = report
        self._closed = _Closed(who)
        self._buffers: Mapping[str, Buffer] = self._closed
        self.runs: list[Buffer] = []

    def open(self) -> None:
        """From now on the author's code may emit."""
        self.runs = []
        if self._ordered:
            self._buffers = {}
        else:
            self.runs = [Buffer(routes) for routes in self._routes.values()]
            self._buffers = {buffer.routes.stream: buffer for buffer in self.runs}

    def close(self) -> None:
        """From now on the author's code may not emit."""
        self._buffers = self._closed

    def report_error(self, error: BaseException | str) -> None:
        self._report(error)

    def _buffer(self, stream: str, values: Values, direct: bool = False) -> Buffer:
        """The slow way to a buffer: explains what is wrong, or begins a new run."""
        if self._buffers is self._closed:
            self._closed[stream]
        routes = self._routes.get(stream)
        if routes is None or stream.startswith("__"):
            raise StreamError(
                f"{self._who}: emit on stream {stream!r}, but the component declares "
                f"{sorted(s for s in self._routes if not s.startswith('__'))}"
            )
        if isinstance(values, str | bytes) or len(values) != len(routes.fields):
            raise StreamError(
                f"{self._who}: emit of {_shown(values)} on stream {stream!r}, which has the fields {list(routes.fields)}. "
                f"Emit a list with one value for each field, such as [{', '.join(routes.fields)}]"
            )
        if routes.direct != direct:
            raise StreamError(
                f"{self._who}: stream {stream!r} is direct: use emit_direct(task, ...)"
                if routes.direct
                else f"{self._who}: stream {stream!r} is not direct: use emit(...), or declare it with direct=True"
            )
        if self._ordered and (not self.runs or self.runs[-1].routes is not routes):
            self.runs.append(Buffer(routes))
            self._buffers = {stream: self.runs[-1]}
        return self._buffers[stream]

    def _append(
        self, stream: str, values: Values, origin: Any, need_task_ids: bool
    ) -> list[int] | None:
        try:
            buffer = self._buffers[stream]
        except KeyError:
            buffer = self._buffer(stream, values)
        if len(values) != buffer.width:
            self._buffer(stream, values)
        buffer.values.append(values)
        buffer.origins.append(origin)
        if need_task_ids:
            chosen = buffer.routes.choose_now(values)
            buffer.chosen[len(buffer.values) - 1] = chosen
            return sorted(task for _, tasks in chosen for task in tasks)
        return None

    def _append_direct(self, task: int, stream: str, values: Values, origin: Any) -> None:
        buffer = self._buffer(stream, values, direct=True)
        buffer.values.append(values)
        buffer.origins.append(origin)
        buffer.chosen[len(buffer.values) - 1] = buffer.routes.direct_to(task)


def _shown(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 80 else text[:77] + "..."


class SpoutCollector(Emitter, SpoutOutputCollector):
    """Of a spout task. `acks_at_once` is set where there are no ackers: then emit acks, as in Storm."""

    acks_at_once: Callable[[Any], None] | None = None

    def check_open(self, stream: str) -> None:
        """Raise CollectorError outside of a callback."""
        if self._buffers is self._closed:
            self._closed[stream]

    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        msg_id: Any = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        try:
            buffer = self._buffers[stream]
        except KeyError:
            buffer = self._buffer(stream, values)
        if len(values) != buffer.width or need_task_ids or self.acks_at_once is not None:
            tasks = self._append(stream, values, msg_id, need_task_ids)
            if self.acks_at_once is not None and msg_id is not None:
                self.acks_at_once(msg_id)
            return tasks
        buffer.values.append(values)
        buffer.origins.append(msg_id)
        return None

    def emit_direct(
        self, task: int, values: Values, stream: str = DEFAULT_STREAM, msg_id: Any = None
    ) -> None:
        self._append_direct(task, stream, values, msg_id)
        if self.acks_at_once is not None and msg_id is not None:
            self.acks_at_once(msg_id)

    def emitted(self) -> int:
        """How many tuples were emitted since `open`."""
        return sum(len(buffer.values) for buffer in self.runs)


class BoltCollector(Emitter, OutputCollector):
    """Of a bolt that anchors and acks itself.

    Attributes:
        acked: Positions in the chunk at hand of the tuples that were acked.
        failed: Positions and reasons.
        late: (tuple, reason or None) of tuples kept from earlier chunks: acked if there is no reason.
        reset: Tuples whose timeout starts anew.
        chunk: The chunk at hand. An emit that is anchored to one of its tuples is noted with that
            one's position, so that the tuple itself need not be kept.
    """

    chunk: object = None

    def open(self) -> None:
        super().open()
        self.acked: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.late: list[tuple[Tuple, str | None]] = []
        self.reset: list[Tuple] = []

    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        anchors: Anchors = (),
        need_task_ids: bool = False,
    ) -> list[int] | None:
        if anchors.__class__ is Tuple and anchors._origin is self.chunk:  # type: ignore[union-attr]
            anchors = anchors._position  # type: ignore[union-attr,assignment]
        try:
            buffer = self._buffers[stream]
        except KeyError:
            buffer = self._buffer(stream, values)
        if len(values) != buffer.width or need_task_ids:
            return self._append(stream, values, anchors, need_task_ids)
        buffer.values.append(values)
        buffer.origins.append(anchors)
        return None

    def emit_direct(
        self, task: int, values: Values, stream: str = DEFAULT_STREAM, anchors: Anchors = ()
    ) -> None:
        if isinstance(anchors, Tuple) and anchors._origin is self.chunk:
            anchors = anchors._position  # type: ignore[assignment]
        self._append_direct(task, stream, values, anchors)

    def ack(self, tup: Tuple) -> None:
        i = tup._i
        if 0 <= i < HELD:
            tup._i = ~i
            self.acked.append(i)
        elif i >= 0:
            tup._i = ~i
            self.late.append((tup, None))
        elif self._buffers is self._closed:
            self._closed[""]

    def fail(self, tup: Tuple, reason: str | None = None) -> None:
        i = tup._i
        if i < 0:
            return
        tup._i = ~i
        if i < HELD:
            self.failed.append((i, reason or EXPLICIT))
        else:
            self.late.append((tup, reason or EXPLICIT))

    def fail_now(self, tup: Tuple, is_in_chunk: bool, reason: str) -> None:
        """Fail a tuple whether or not the bolt has acked it in this chunk: an emit for it could not be sent."""
        if not is_in_chunk:
            self.fail(tup, reason)
            return
        i = tup._position
        if i in self.acked:
            self.acked.remove(i)
        if i not in [failed for failed, _ in self.failed]:
            self.failed.append((i, reason))

    def reset_timeout(self, tup: Tuple) -> None:
        self.reset.append(tup)


class BasicCollector(Emitter, BasicOutputCollector):
    """Of a bolt whose emits are anchored to the input. `position` is that input's, set by the loop over the chunk."""

    position = 0

    def emit(
        self, values: Values, stream: str = DEFAULT_STREAM, need_task_ids: bool = False
    ) -> list[int] | None:
        try:
            buffer = self._buffers[stream]
        except KeyError:
            buffer = self._buffer(stream, values)
        if len(values) != buffer.width or need_task_ids:
            return self._append(stream, values, self.position, need_task_ids)
        buffer.values.append(values)
        buffer.origins.append(self.position)
        return None

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        self._append_direct(task, stream, values, self.position)


def flatten(anchors: Any) -> Sequence[Tuple]:
    """What was given as `anchors`, as a sequence."""
    if isinstance(anchors, Tuple):
        return (anchors,)
    if anchors is None:
        return ()
    return list(anchors) if isinstance(anchors, Iterable) else (anchors,)
