"""The collectors that bolts emit, ack and fail with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount, intern
from typing import Any

from typing_extensions import override

from fulmen.api.collector import Anchors, BasicOutputCollector, OutputCollector, Values
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import HELD, Held, Tuple
from fulmen.engine.emitting.collectors.emit_buffer import UNSHARED, Buffer, are_plain
from fulmen.engine.emitting.collectors.emitter import Emitter, not_a_list, shown
from fulmen.errors import StreamError, error_text, text_of

EXPLICIT = "failed by the bolt"
NOWHERE = Tuple((), Held("", "", (), -1), 0)
"""Stands for the input where there is none."""


class BoltCollector(Emitter, OutputCollector):
    """The collector of a bolt that anchors and acks itself.

    Attributes:
        acked: Positions in the chunk at hand of the tuples that were acked.
        failed: Positions and reasons.
        late: (tuple, reason) of tuples kept from earlier chunks. No reason: it was acked.
        reset: Tuples whose timeout starts anew.
        chunk: The chunk at hand. An emit that is anchored to one of its tuples is noted with that
            one's position, so that the tuple itself need not be kept.
    """

    chunk: object = None

    @override
    def open(self) -> None:
        super().open()
        self.acked: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.late: list[tuple[Tuple, str | None]] = []
        self.reset: list[Tuple] = []

    @override
    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        anchors: Anchors = (),
        need_task_ids: bool = False,
    ) -> list[int] | None:
        origin: Any
        if anchors.__class__ is Tuple and anchors._origin is self.chunk:
            origin = i if (i := anchors._i) >= 0 else ~i
        else:
            origin = self._anchors(anchors)
        try:
            buffer = self._buffers[stream]
        except (KeyError, TypeError):
            buffer = self._buffer(stream, values)
        if type(values) is not list or len(values) != buffer.width or need_task_ids:
            return self._append(stream, values, origin, need_task_ids)
        buffer.rows.append(values if getrefcount(values) == UNSHARED else [*values])
        buffer.origins.append(origin)
        return None

    @override
    def emit_direct(
        self, task: int, values: Values, stream: str = DEFAULT_STREAM, anchors: Anchors = ()
    ) -> None:
        self._append_direct(task, stream, values, self._anchors(anchors))

    def _anchors(self, anchors: Any) -> int | Sequence[Tuple]:
        """A copy, since the bolt may change its list; or the position of the only one."""
        given: list[Tuple] = []
        if isinstance(anchors, Tuple):
            given = [anchors]
        elif anchors is not None:
            given = list(anchors) if isinstance(anchors, Iterable) else [anchors]
        for anchor in given:
            if not isinstance(anchor, Tuple):
                raise StreamError(
                    f"{self.who}: emit with anchors={shown(anchors)}: anchors are tuples that"
                    " the bolt has received, one or a list of them"
                )
        if len(given) == 1 and given[0]._origin is self.chunk:
            return given[0]._position
        return given

    @override
    def ack(self, tup: Tuple) -> None:
        if self._buffers is self._closed:
            self.check_open()
        i = tup._i
        if 0 <= i < HELD:
            tup._i = ~i
            self.acked.append(i)
        elif i >= 0:
            tup._i = ~i
            self.late.append((tup, None))

    @override
    def fail(self, tup: Tuple, reason: str | BaseException | None = None) -> None:
        self.check_open()
        i = tup._i
        if i < 0:
            return
        tup._i = ~i
        if i < HELD:
            self.failed.append((i, reason_text(reason)))
        else:
            self.late.append((tup, reason_text(reason)))

    def fail_now(self, tup: Tuple, is_in_chunk: bool, reason: str) -> None:
        """Fail a tuple, even if the bolt acked it in this chunk: an emit for it can't be sent."""
        if not is_in_chunk:
            self.late = [(t, why) for t, why in self.late if t is not tup or why is not None]
            if all(t is not tup for t, _ in self.late):
                tup._i = ~HELD
                self.late.append((tup, reason))
            return
        i = tup._position
        if i in self.acked:
            self.acked.remove(i)
        if i not in [failed for failed, _ in self.failed]:
            self.failed.append((i, reason))

    @override
    def reset_timeout(self, tup: Tuple) -> None:
        self.check_open()
        self.reset.append(tup)


class BasicCollector(Emitter, BasicOutputCollector):
    """The collector of a bolt whose emits are anchored to the input.

    Attributes:
        tup: The input; set by the loop over the chunk.
    """

    tup = NOWHERE
    # what is emitted most: on which stream, with how many values, and what takes it
    _stream, _width, _is_single = DEFAULT_STREAM, -1, False
    _rows: list[Any]
    _main: Buffer | None = None

    def begin(self, tup: Tuple, *, in_order: bool) -> tuple[Sequence[Any], list[int] | None]:
        """Begin a loop over tuples, in which emits on the main stream are as quick as they can be.

        Where they came from is looked at only when a tuple had none of them, or several.

        Args:
            tup: What the first of them will be.
            in_order: Whether the loop has the tuples of a chunk from the first one on.

        Returns:
            What will be emitted, and the positions of the tuples that it was emitted for. None:
            each tuple has one emit so far. When there are not as many, call `place`. There are
            always as many if `emit` notes by itself where they came from.
        """
        self.tup = tup
        if self._ordered or len(self.runs) < 2:  # all may emit dead letters
            return [], []
        main = self._main = self._buffers.get(DEFAULT_STREAM, self.runs[0])
        main.origins, main.is_placed = range(0) if in_order else [*main.origins], True
        # emit compares it by `is`: a name in an author's code is interned
        self._stream, self._width = intern(main.routes.stream), main.width
        self._is_single = main.is_single = main.width == 1 and not main.rows
        self._rows = main.rows
        return main.rows, None if in_order else main.origins

    def place(self) -> list[int]:
        """Anchor what was emitted on the main stream to the input."""
        assert self._main is not None
        return self._main.place(self.tup._i)

    def end(self) -> None:
        """End a loop over tuples. The input is the last one."""
        if self._main is not None:
            self._main.place_last(self.tup._i)
            self._main = None

    @override
    def close(self) -> None:
        super().close()
        self._width, self._rows, self.tup = -1, [], NOWHERE

    @override
    def emit(
        self, values: Values, stream: str = DEFAULT_STREAM, need_task_ids: bool = False
    ) -> list[int] | None:
        if (
            type(values) is list
            and len(values) == self._width
            and stream is self._stream
            and not need_task_ids
        ):
            if getrefcount(values) != UNSHARED:
                values = [*values]
            # Python calls no function for that
            self._rows.append(values[0] if self._is_single else values)
            return None
        return self._append(stream, values, self.tup._i, need_task_ids)

    @override
    def _append(
        self, stream: str, values: Values, origin: Any, need_task_ids: bool
    ) -> list[int] | None:
        tasks = super()._append(stream, values, origin, need_task_ids)
        if self._is_single and type(values) is not list:  # its buffer may keep them all as they are
            self._is_single = self._buffers[self._stream].is_single
        return tasks

    def emit_rows(self, rows: Sequence[Values], stream: str, places: Sequence[int]) -> None:
        """Emit many, each for the tuple at a position. They are kept as they are.

        Raises:
            StreamError: As `emit`. Then none of them is emitted.
        """
        if not rows:
            return
        is_list = isinstance(rows[0], list | tuple)
        buffer = self._buffer(stream, rows[0]) if is_list else None
        if buffer is None or not are_plain(rows, buffer.width):
            for values in rows:
                if not isinstance(values, list | tuple):
                    raise not_a_list(self.who, values)
            for values in rows:
                buffer = self._buffer(stream, values)
        assert buffer is not None
        buffer.place_rows(rows, places)

    @override
    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        self._append_direct(task, stream, values, self.tup._i)


def reason_text(reason: str | BaseException | None) -> str:
    """The text for the spout. Of an exception, it also names the class."""
    if reason is None:
        return EXPLICIT
    text = error_text(reason) if isinstance(reason, BaseException) else text_of(reason)
    return text or EXPLICIT
