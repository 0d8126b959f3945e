"""Stream groupings: which tasks of a subscribing component receive each tuple of a chunk.

A chooser belongs to one emitting task, one of its streams and one subscription. It decides for a
whole chunk at once. Its state travels with the emitting task, so that what is even stays even
across batches, restarts and moves. A chooser that raises has kept its state: the chunk may be given
to it again without the offending emission.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fulmen.api.custom_grouping import CustomStreamGrouping
from fulmen.engine.grouping.partial_key import Choices
from fulmen.engine.keyed.hashing.column_hash import Hashes, column_hash
from fulmen.engine.keyed.hashing.positions import positions, task_index
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, GroupingError, error_text, repr_of
from fulmen.topology.resource.spec import GroupingType

Tasks = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Which emission goes to which task: as pairs, emissions ascending, or one task for each."""

    index: npt.NDArray[np.int32] | None
    """The emission of each pair. None: emission k goes to tasks[k], and to no other."""
    tasks: Tasks


class Chooser(Protocol):
    """Chooses the receiving tasks for one subscription to a stream of one task."""

    def choose(self, rows: TupleRows) -> Choice:
        """The receivers of each row.

        Raises:
            GroupingError: No task can be chosen for a row; `emission` says which.
        """

    def state(self) -> Any:
        """The state for the next choices: small and picklable. None: none, or as at first."""

    def restore(self, state: Any) -> None:
        """Go on from what `state()` returned. If it was about other tasks, begin anew."""


def make_chooser(
    kind: GroupingType,
    *,
    targets: Sequence[int],
    local: Sequence[int] = (),
    fields: Sequence[int] = (),
    rng: np.random.Generator,
    source_task: int,
    custom: CustomStreamGrouping | None = None,
) -> Chooser:
    """The chooser of one subscription.

    Args:
        kind: The grouping's `type` in the spec, but `direct`, where there is nothing to choose.
        targets: Ids of all tasks of the subscribing component.
        local: Those of them that are in the worker of the emitting task.
        fields: For fields and partial-key: the numbers of the fields in the stream, in their order
            in the spec. Fields grouping without any is global grouping, as in Storm.
        rng: The random generator for shuffle, local-or-shuffle and none.
        source_task: Id of the emitting task.
        custom: For custom: the author's grouping, prepared.
    """
    tasks: Tasks = np.unique(np.asarray(targets, np.int32))
    if kind == "custom" and custom is not None:
        return _Custom(tasks, source_task, custom)
    if kind == "local-or-shuffle":
        near = np.intersect1d(tasks, np.asarray(local, np.int32))
        tasks = near if len(near) else tasks
    no_fields = kind == "fields" and not fields
    if len(tasks) == 1 or kind == "global" or no_fields:  # the others send to at least one task
        return _Constant(int(tasks[0]))
    match kind:
        case "fields":
            return _Fields(tasks, fields)
        case "partial-key":
            return _PartialKey(tasks, fields)
        case "all":
            return _All(tasks)
        case "none":
            return _None(tasks, rng)
    return _Shuffle(tasks, rng)


def choose_one(chooser: Chooser, row: Sequence[Any]) -> list[int]:
    """The tasks that receive a single tuple, for an emit that needs to know them at once."""
    tasks: list[int] = chooser.choose(TupleRows([row])).tasks.tolist()
    return tasks


def _field_hashes(rows: TupleRows, fields: Sequence[int]) -> list[Hashes]:
    """The hashes of some fields, a column for each."""
    columns = []
    for field in fields:
        try:
            columns.append(column_hash(rows.column(field)))
        except GroupingError as error:
            raise GroupingError(error.reason, error.emission, field) from error.__cause__
    return columns


class _Stateless:
    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass


class _Constant(_Stateless):
    """Global grouping, and all but custom ones if there is only one target."""

    def __init__(self, task: int) -> None:
        self._task = task

    def choose(self, rows: TupleRows) -> Choice:
        return Choice(None, np.full(len(rows), self._task, np.int32))


class _All(_Stateless):
    def __init__(self, targets: Tasks) -> None:
        self._targets = targets

    def choose(self, rows: TupleRows) -> Choice:
        index = np.repeat(np.arange(len(rows), dtype=np.int32), len(self._targets))
        return Choice(index, np.tile(self._targets, len(rows)))


class _None(_Stateless):
    def __init__(self, targets: Tasks, rng: np.random.Generator) -> None:
        self._targets = targets
        self._rng = rng

    def choose(self, rows: TupleRows) -> Choice:
        return Choice(None, self._rng.choice(self._targets, len(rows)))


class _Fields(_Stateless):
    """The task that the position of the selected values belongs to."""

    def __init__(self, targets: Tasks, fields: Sequence[int]) -> None:
        self._targets = targets
        self._fields = fields

    def choose(self, rows: TupleRows) -> Choice:
        places = positions(_field_hashes(rows, self._fields))
        return Choice(None, self._targets[task_index(places, len(self._targets))])


class _Shuffle:
    """A random permutation of the targets, walked in order, and another one after each lap."""

    _AHEAD = 1024
    """At least so many choices are drawn at once: a chunk of a few tuples then costs a slice."""

    def __init__(self, targets: Tasks, rng: np.random.Generator) -> None:
        self._targets = targets
        self._rng = rng
        self._drawn: Tasks = targets[:0]  # ends at the end of a lap
        self._next = 0

    def choose(self, rows: TupleRows) -> Choice:
        end = self._next + len(rows)
        if end <= len(self._drawn):
            tasks = self._drawn[self._next : end]
            self._next = end
            return Choice(None, tasks)
        rest = self._drawn[self._next :]
        laps = -(-max(len(rows) - len(rest), self._AHEAD) // len(self._targets))
        permuted = self._rng.permuted(np.tile(self._targets, (laps, 1)), axis=1)
        drawn = np.concatenate([rest, permuted.ravel()])
        self._drawn, self._next = drawn[len(rows) :].copy(), 0  # a view would keep a large chunk
        return Choice(None, drawn[: len(rows)])

    def state(self) -> Any:
        """The rest of this lap. Those after it, if drawn already, may as well be drawn anew."""
        rest = (len(self._drawn) - self._next) % len(self._targets)
        return tuple(self._drawn[self._next : self._next + rest].tolist()) or None

    def restore(self, state: Any) -> None:
        rest = state if set(state or ()) <= set(self._targets.tolist()) else ()
        self._drawn, self._next = np.array(rest or (), np.int32), 0


class _PartialKey:
    """Chooses the one of a key's two targets that was sent fewer tuples; the first if equal."""

    def __init__(self, targets: Tasks, fields: Sequence[int]) -> None:
        self._targets = targets
        self._fields = fields
        self._choices = Choices(len(targets))
        self._sent = [0] * len(targets)

    def choose(self, rows: TupleRows) -> Choice:
        pairs = self._choices.of(_field_hashes(rows, self._fields))
        picked = _fewest_sent(pairs, self._sent)
        small = len(self._targets) <= 256  # through bytes it takes a third of the time
        position = np.frombuffer(bytes(picked), np.uint8) if small else np.array(picked, np.intp)
        return Choice(None, self._targets[position])

    def state(self) -> Any:
        """How many more tuples than to the least used target were sent to each."""
        least = min(self._sent)
        sent = tuple(count - least for count in self._sent)
        return sent if any(sent) else None

    def restore(self, state: Any) -> None:
        same = state is not None and len(state) == len(self._targets)
        self._sent = list(state) if same else [0] * len(self._targets)


def _fewest_sent(pairs: Iterable[tuple[int, int]], sent: list[int]) -> list[int]:
    """Decide one after the other, counting in `sent`: each depends on all before it."""
    picked: list[int] = []
    pick = picked.append
    for first, second in pairs:
        to_first, to_second = sent[first], sent[second]
        if to_second < to_first:
            sent[second] = to_second + 1
            pick(second)
        else:
            sent[first] = to_first + 1
            pick(first)
    return picked


class _Custom(_Stateless):
    """Asks the author's grouping about each tuple. What it keeps in fields is its own affair."""

    def __init__(self, targets: Tasks, source_task: int, custom: CustomStreamGrouping) -> None:
        self._targets = frozenset(targets.tolist())
        self._source_task = source_task
        self._custom = custom

    def choose(self, rows: TupleRows) -> Choice:
        for k, reason in rows.without_values().items():
            raise GroupingError(f"a custom grouping can't be asked. {reason}", k)
        answers = [self._answer(k, rows[k]) for k in range(len(rows))]
        tasks = np.array([task for answer in answers for task in answer], np.int32)
        counts = np.array([len(answer) for answer in answers], np.int32)
        if (counts == 1).all():
            return Choice(None, tasks)
        return Choice(np.repeat(np.arange(len(rows), dtype=np.int32), counts), tasks)

    def _answer(self, k: int, row: Sequence[Any]) -> Sequence[int]:
        called = f"{type(self._custom).__name__}.choose_tasks() called for task {self._source_task}"
        try:
            answer = self._custom.choose_tasks(self._source_task, row)
        except PASSED_ON:
            raise
        except BaseException as error:
            raise GroupingError(f"{called} raised {error_text(error)}", k) from error
        if not isinstance(answer, Iterable):
            raise GroupingError(
                f"{called} returned {repr_of(answer)}. It must return a list of task ids, maybe"
                " empty",
                k,
            )
        tasks = list(answer)
        for task in tasks:
            if not isinstance(task, int | np.integer) or task not in self._targets:
                raise GroupingError(
                    f"{called} returned {repr_of(task)}, which is not one of the tasks that"
                    f" subscribe: {sorted(self._targets)}",
                    k,
                )
        return tasks
