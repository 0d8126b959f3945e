"""The part that collectors share: buffers to append to by stream, and nothing else.

A collector is closed outside of its task's callbacks: using it then is an error that says so. What
makes it closed is another mapping in place of the one of buffers, so nothing has to be checked in
each emit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from fulmen.api.collector import (
    Values,
)
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.routes import Routes
from fulmen.errors import CollectorError, StreamError, repr_of


class _Closed(Mapping[str, Buffer]):
    """Stands for the buffers of a collector while its task is not being called."""

    def __init__(self, who: str) -> None:
        self._who = who

    def __getitem__(self, stream: str) -> NoReturn:
        raise CollectorError(outside(self._who))

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def outside(who: str) -> str:
    """The message about a collector that is used outside of its task's callbacks."""
    return (
        f"{who}: emit, ack or fail outside of a callback. Use the collector only inside of"
        " next_tuple, ack, fail, activate, deactivate, execute or drain, and on the thread that"
        " calls them"
    )


class CollectorOwner(Protocol):
    """The parts of a task that its collector needs."""

    @property
    def who(self) -> str:
        """The task, for messages."""

    @property
    def routes(self) -> Mapping[str, Routes]:
        """The streams that it may emit on."""

    @property
    def ordered(self) -> frozenset[str]:
        """See `Emitter`."""

    def report(self, error: BaseException | str) -> object:
        """Note an error."""


class OwnedCollector:
    """The base of all collectors: it has their task."""

    def __init__(self, owner: CollectorOwner) -> None:
        self._owner, self.who = owner, owner.who

    def __reduce__(self) -> Any:
        raise TypeError("a collector can't be pickled")

    def report_error(self, error: BaseException | str) -> None:
        """Show an error in the report, the status and the metrics. The topology goes on."""
        self._owner.report(error)

    def routes_of(self, stream: str) -> Routes:
        """The routes of a stream.

        Raises:
            StreamError: It is not declared.
        """
        declared = self._owner.routes
        if stream not in declared or stream.startswith("__"):
            raise StreamError(
                f"{self.who}: emit on stream {stream!r}, but the component declares "
                f"{sorted(s for s in declared if not s.startswith('__'))}"
            )
        return declared[stream]


class Emitter(OwnedCollector):
    """The part that all collectors of rows share: buffers by stream.

    A stream has one buffer. Of those that its owner calls `ordered`, a new one is begun whenever
    the stream changes, because a bolt that subscribes to several of the component's streams must
    receive the tuples of all of them in the order in which they were emitted.

    Attributes:
        runs: The buffers in the order in which they are to be sent.
        growing: Those of them that emits are still added to.
    """

    def __init__(self, owner: CollectorOwner) -> None:
        super().__init__(owner)
        self._ordered = owner.ordered
        self._closed = _Closed(self.who)
        self._buffers: Mapping[str, Buffer] = self._closed
        self._earlier = 0
        self.runs: list[Buffer] = []
        self.growing: list[Buffer] = []

    def open(self) -> None:
        """Allow the author's code to emit."""
        self._earlier = 0  # emits in all runs that don't grow any more
        routes = self._owner.routes.values()
        self.growing = [Buffer(one) for one in routes if one.stream not in self._ordered]
        self.runs = [*self.growing]
        self._buffers = {buffer.routes.stream: buffer for buffer in self.runs}

    def close(self) -> None:
        """Forbid the author's code to emit."""
        self._buffers = self._closed

    def release(self) -> None:
        """Let go of what is sent, so that the garbage collector need not look through it."""
        self.runs, self.growing = [], []

    def check_open(self) -> None:
        """Raise CollectorError outside of a callback."""
        if self._buffers is self._closed:
            self._closed[""]

    def _buffer(self, stream: str, values: Values, direct: bool = False) -> Buffer:
        """The slow way to a buffer: explains what is wrong, or begins a new run."""
        self.check_open()
        if not isinstance(stream, str):  # in Storm that is where anchors or message ids are
            raise StreamError(
                f"{self.who}: {shown(stream)} is given as the stream, the second argument of"
                " emit(values, stream). Give a message id as msg_id=..., and anchors as anchors=..."
            )
        routes = self.routes_of(stream)
        if isinstance(values, str | bytes) or len(values) != len(routes.fields):
            raise StreamError(
                f"{self.who}: emit of {shown(values)} on stream {stream!r}, which has the fields"
                f" {list(routes.fields)}. Emit a list with one value for each field, such as"
                f" [{', '.join(routes.fields)}]"
            )
        if routes.direct and not direct:
            raise StreamError(
                f"{self.who}: stream {stream!r} is direct: use emit_direct(task, ...)"
            )
        if direct and not routes.direct:
            raise StreamError(
                f"{self.who}: stream {stream!r} is not direct: use emit(...), or declare it with"
                " direct=True"
            )
        if stream not in self._buffers:
            self._begin_run(routes)
        return self._buffers[stream]

    def _begin_run(self, routes: Routes) -> None:
        """Begin a buffer of an ordered stream. That of another one does not grow any more."""
        growing = [b for b in self.growing if b.routes.stream not in self._ordered]
        if len(growing) < len(self.growing):
            self._earlier += len(self.growing[-1])
        self.runs.append(Buffer(routes))
        self.growing = [*growing, self.runs[-1]]
        self._buffers = {buffer.routes.stream: buffer for buffer in self.growing}

    def _append(
        self, stream: str, values: Values, origin: Any, need_task_ids: bool
    ) -> list[int] | None:
        try:
            buffer = self._buffers[stream]
        except (KeyError, TypeError):
            buffer = self._buffer(stream, values)
        if len(values) != buffer.width:
            self._buffer(stream, values)
        chosen = buffer.routes.choose_now(values) if need_task_ids else None
        buffer.append(values, origin)
        if chosen is None:
            return None
        buffer.chosen[len(buffer) - 1] = chosen
        return sorted(task for _, tasks in chosen for task in tasks)

    def _append_direct(self, task: int, stream: str, values: Values, origin: Any) -> None:
        if not hasattr(values, "__len__"):
            raise StreamError(
                f"{self.who}: emit_direct({shown(task)}, {shown(values)}): the values must be a"
                " list or a tuple. It is emit_direct(task, values, stream)"
            )
        buffer = self._buffer(stream, values, direct=True)
        buffer.append(values, origin)
        buffer.chosen[len(buffer) - 1] = buffer.routes.direct_to(task)


def shown(values: Any) -> str:
    """Cut an author's values short for a message."""
    text = repr_of(values)
    return text if len(text) <= 80 else text[:77] + "..."


def not_a_list(who: str, values: Any) -> StreamError:
    """The error about values that are no list or tuple: emit("a") for emit(["a"])."""
    shown = repr_of(values)
    return StreamError(
        f"{who}: emit({shown}): the values must be a list or a tuple, such as [{shown}]"
    )
