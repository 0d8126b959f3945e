"""Watches of which keys a bolt's task writes, and so what its state is by: see `evidence`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from typing_extensions import override

from fulmen.api.components import Component, StatefulBolt, overrides
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.tuples import TIMER_STREAM
from fulmen.engine.keyed.evidence import Evidence
from fulmen.engine.keyed.homes import KeyFields, is_of_ttl, part_of
from fulmen.engine.state.entries.disk_journals import TaskState
from fulmen.engine.state.entries.disk_state import DiskState
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.columns import listed
from fulmen.errors import StateError

HOMES = "homes"
"""The name in the engine's own state of a task."""


class HomeEvidence(TaskPart):
    """What shows where entries of a task belong.

    Attributes:
        state: Of its `self.state`.
        timers: Of its timers, but those of `state_ttl`.
    """

    def __init__(
        self,
        task: Task,
        instance: Component,
        state: TaskState,
        timers: TaskTimers,
        known: Any,
        *,
        by_attempts: bool = False,
    ) -> None:
        """Look at a task.

        Args:
            task: Which.
            instance: One of its class, for what that says of keys.
            state: Its `self.state`.
            timers: Its timers.
            known: What `engine_state` has given.
            by_attempts: Whether it may write what several batches have brought: those of an
                attempt of a transaction.
        """
        self._task, self._state, self._timers = task, state, timers
        self._by_attempts = by_attempts
        self._keys = grouped_by(task)
        self._fields = _fields_of(instance, task.context.options, self._keys)
        self.state, self.timers = Evidence(), Evidence()
        if known is not None and (state or timers):
            self.state, self.timers = map(Evidence.of_plain, known[1:3])
        self._declared: tuple[str | None, str | None] = None, None
        if isinstance(instance, StatefulBolt):
            self._declared = instance.state_part, instance.timer_part
        self._is_on = self._fields is not None and not any(self._declared)
        self._width = 0 if self._fields is None else self._fields.width
        self._sees_keys = self._fields is not None and len(self._fields.at) == self._width
        """Whether what is seen are values of so many fields as keys have."""
        self._seen: set[Any] = set()
        if self._is_on:
            state.watched_by(self._look_at_state)

    @override
    def engine_state(self) -> Mapping[str, Any]:
        is_declared = any(self._declared) and (self._state or self._timers)
        if not (self.state.since or self.timers.since or is_declared):
            return {}
        plain = self.state.to_plain(), self.timers.to_plain()
        return {HOMES: (self._fields, *plain, self._declared)}

    def saw(self, chunk: Chunk) -> None:
        """Remember of which keys the tuples of a chunk are. It was executed."""
        if not (self._is_on and (self._by_attempts or self._state or self._timers)):
            return
        if not (self.state.parts or self.timers.parts):
            return
        if chunk.stream == TIMER_STREAM:
            self._saw_timers([row[0] for row in chunk.rows])
            return
        with suppress(TypeError):  # such a value is no key either
            self._seen.update(self._values_of(chunk))

    def fetch(self, chunk: Chunk) -> None:
        """Read from the disk, at once, what the tuples of a chunk will ask for, if it is known.

        What can't be read is refused when it is asked for.
        """
        if isinstance(self._state, DiskState):
            part = self._declared[0] or self.state.proven
            if self._fields is not None and part == "whole":
                with suppress(TypeError, StateError, ServiceUnavailable):
                    self._state.fetch(self._values_of(chunk))

    def _values_of(self, chunk: Chunk) -> Iterable[Any]:
        """The values that tuples are grouped by."""
        names = self._keys.get((chunk.component, chunk.stream))
        if names is None or not len(chunk) or not {*names} <= {*chunk.fields}:
            return ()
        columns = [listed(chunk.rows.column(chunk.fields.index(name))) for name in names]
        return columns[0] if len(columns) == 1 else zip(*columns, strict=True)

    def _saw_timers(self, keys: Collection[Any]) -> None:
        for part in self.timers.parts:
            for key in keys:
                try:
                    self._seen.add(part_of(part, key, self._width))
                except (LookupError, TypeError):
                    continue

    def _look_at_state(self, changed: Collection[Any]) -> None:
        state, are_seen = self._state, self._sees_keys and self._seen.issuperset(changed)
        if not are_seen:
            changed = [key for key in changed if key in state]
        elif not any(key in state for key in changed):
            return
        self.state.look(changed, self._seen, *self._now, are_seen=are_seen)

    @property
    def _now(self) -> tuple[int, int]:
        return self._width, self._task.context.batch.number

    @override
    def record(self, number: int) -> Mapping[str, Any]:
        """Look at the timers, and forget the batch: it is asked behind what the author has."""
        if self._is_on:
            timers = self._timers
            keys = [k for k in timers.noted if timers.get(k) is not None and not is_of_ttl(k)]
            self.timers.look(keys, self._seen, *self._now)
            if not self._by_attempts:
                self._seen = set()
        return {}

    def begin_attempt(self) -> None:
        """Forget what attempts before have brought."""
        self._seen = set()


def _fields_of(
    instance: Component, options: Any, inputs: Mapping[tuple[str, str], Sequence[str]]
) -> KeyFields | None:
    """What keys have of the values that inputs are grouped by; None: it is not always the same.

    A class may have keys of more fields than its input is grouped by, or in another order.
    """
    found = set[KeyFields | None]()
    for source, grouped_by in inputs.items():
        key: Sequence[str] = grouped_by
        if overrides(instance, "grouping_key"):
            key = list(instance.grouping_key(options, source))
        is_in_key = bool(key) and {*grouped_by} <= {*key}
        at = tuple(key.index(name) for name in grouped_by) if is_in_key else ()
        found.add(KeyFields(len(key), at) if is_in_key else None)
    return found.pop() if len(found) == 1 else None


def grouped_by(task: Task) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The fields that each input of a bolt is grouped by, of those that are grouped by fields."""
    return {
        (s.source, s.stream): s.grouping.fields
        for s in task.placed.subscriptions
        if s.target == task.component and s.grouping.type == "fields" and s.grouping.fields
    }
