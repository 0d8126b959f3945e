"""A bolt's calls that are for no tuple: how each is noted, and what becomes of a deadly one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from typing_extensions import override

from fulmen.api.declarer import DEAD_LETTERS
from fulmen.api.times.timers import WindowCalls
from fulmen.api.tuples import DRAIN_STREAM, END_STREAM, TICK_COMPONENT, TICK_STREAM, TIMER_STREAM
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.call_names import (
    COMMITTED,
    DRAIN,
    END,
    TICK,
    TIMER,
    WINDOW,
    name_of,
)
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.figures.statistics import DROPPED
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.letters.dead_letters import LetterKind, LostMessage
from fulmen.engine.tasks.parts.dead_letters import DeadLetters
from fulmen.engine.tasks.parts.results import Results
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows

WINDOW_STREAM = "__window"
"""Stands for a window in dead letters."""
CALLBACKS = {DRAIN_STREAM: DRAIN, END_STREAM: END, TIMER_STREAM: TIMER}
"""The author's methods that are called in place of `execute`, by the stream that stands for it."""
_NAMES = {**CALLBACKS, TICK_STREAM: TICK}


class NamedCalls(TaskPart, WindowCalls):
    """Calls of a task of a bolt besides those for tuples.

    Attributes:
        letters: What was left out, as it kills workers, and was not sent to the dead letters yet.
    """

    def __init__(self, task: Task, results: Results | None, kept: DeadLetters) -> None:
        self._task, self._results, self._kept = task, results, kept
        self.letters: list[list[Any]] = []
        self._header: Header | None = None
        self._made: set[str] = set()

    def begin_batch(self, header: Header) -> None:
        """Begin a batch."""
        self._header, self._made = header, set()

    @property
    def hears_commits(self) -> bool:
        """Whether `committed` is not left out."""
        return self._why_not(COMMITTED) is None

    def note_committed(self) -> None:
        """`committed` was called."""
        self._made.add(COMMITTED)

    @override
    def tell(self, summary: Summary) -> None:
        if self._is_one_by_one:
            summary.own_calls[self._task.task] = sorted(self._made)

    def _why_not(self, name: str) -> str | None:
        """Why a call is left out; None: it is not."""
        without = self._header.without.get(self._task.task) if self._header else None
        return without.get(name) if without else None

    @property
    def _is_one_by_one(self) -> bool:
        return self._header is not None and self._task.task in self._header.one_by_one

    def name_of(self, chunk: Chunk) -> str:
        """Under which name the call for a chunk is noted."""
        if self._task.all_calls is not None:
            return self._task.all_calls
        if chunk.component != TICK_COMPONENT:
            return "execute"
        name = _NAMES.get(chunk.stream, "execute")
        if name == TIMER and self._is_one_by_one:
            return name_of(name, chunk.rows[0][0])
        return name

    def apart(self, chunk: Chunk | None, outbox: Outbox) -> Iterator[Chunk]:
        """Yield the calls that are not left out; each by itself, where one is looked for."""
        if chunk is None:
            return
        if chunk.stream != TIMER_STREAM:
            name = self.name_of(chunk)
            if self._why_not(name) is None:
                self._made.add(name)
                yield chunk
        elif not self._is_one_by_one:
            yield chunk
        else:
            for row in chunk.rows:
                one = Chunk(chunk.component, chunk.stream, chunk.fields, -1, None, TupleRows([row]))
                if not self._leaves_out(self.name_of(one), TIMER_STREAM, list(row)):
                    yield one
            self.send_letters(outbox)

    @override
    def begin(self, key: Hashable, end: int | None) -> bool:
        name = WINDOW
        if self._is_one_by_one:
            name = name_of(WINDOW, key, end or "")
            if self._leaves_out(name, WINDOW_STREAM, [key, end]):
                return False
        self._calling = CALLS.begin(self._task.task, name)
        return True

    @override
    def end(self) -> None:
        CALLS.end(self._calling)

    def _leaves_out(self, name: str, stream: str, values: list[Any]) -> bool:
        """Whether a call for a key is left out: then it is over, reported, and kept."""
        reason = self._why_not(name)
        if reason is None:
            return False
        self._task.was_called = True
        lost = LostMessage(stream, values)
        [letter] = self._kept.keep(LetterKind.LEFT_OUT, [lost], [(1, reason)])
        kept = letter.shown
        key, at = kept
        which = f"key {key!r}" if at is None else f"key {key!r}, at {at}"
        self._task.report(f"left out for {which}: {reason}")
        self.letters.append([stream, kept, None, 1, reason])
        return True

    def send_letters(self, outbox: Outbox) -> None:
        """Send what was left out to the dead letters."""
        letters, self.letters = self.letters, []
        if not letters:
            return
        task = self._task
        outbox.counts[task.component, DROPPED, ""] += len(letters)
        routes = task.routes.get(DEAD_LETTERS)
        if routes is None or not routes.subscriptions:
            return
        if self._results is not None and self._results.is_on:
            self._results.send_rows(DEAD_LETTERS, TupleRows(letters), outbox)
            self._results.send_waiting(outbox)
        else:
            outbox.send(task.task, routes, TupleRows(letters), None)
