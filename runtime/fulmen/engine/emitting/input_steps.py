"""The rows of a stream as a subscription takes them: its `where`, `select` and `through`.

This runs in the task that emits, ahead of the grouping. What is left out is not sent, and as there
is no copy of it, its trees end without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fulmen.api.components import FailedException
from fulmen.api.input_function import InputFunction, RowsMade
from fulmen.api.signals import StepRows
from fulmen.engine.emitting.parcels import Index
from fulmen.engine.protocol.callbacks.call_names import FUNCTIONS
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, FulmenError, GroupingError, error_text, text_of
from fulmen.expressions.steps import Steps, StepsRunner

Tasks = Sequence[tuple[int, Sequence[int]]]
Why = str | BaseException


def told(why: Why) -> str:
    """Why there is no row, as a text."""
    if isinstance(why, FailedException):
        return text_of(why) or type(why).__name__
    if isinstance(why, FulmenError) or not isinstance(why, BaseException):
        return text_of(why)
    return error_text(why)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a subscription takes of some emits.

    Attributes:
        rows: The rows that its bolt is to receive.
        at: The emit that each was made of, in rising order; None: each of its own.
        failed: Emit number -> why there is no row for it. A `FailedException` is not reported.
        steps: What each step of its function has done.
    """

    rows: TupleRows
    at: Index | None = None
    failed: Mapping[int, Why] = field(default_factory=dict)
    steps: Sequence[StepRows] = ()

    def chosen(self, chosen: Mapping[int, Tasks] | None) -> Mapping[int, Tasks] | None:
        """Number what is known of some emits by the rows that they have become."""
        if not chosen or self.at is None:
            return chosen
        emits = enumerate(self.at.tolist())
        return {i: chosen[emit] for i, emit in emits if emit in chosen}

    def left_out(self, emits: int) -> int:
        """Of how many of the emits nothing is left, although none of these has failed."""
        if self.at is None:
            return 0
        taken = 1 + int(np.count_nonzero(np.diff(self.at))) if len(self.at) else 0
        return emits - taken - len(self.failed)

    def without(self, emits: Collection[int]) -> Taken:
        """Without the rows of some emits."""
        at = np.arange(len(self.rows)) if self.at is None else self.at
        left = np.flatnonzero(~np.isin(at, [*emits]))
        return replace(self, rows=self.rows.take(left), at=at[left])

    def refused(self, error: GroupingError) -> Taken:
        """Without the emit that one of the rows can't be grouped of."""
        emit = self.numbered(error).emission
        assert emit is not None
        return replace(self.without([emit]), failed={**self.failed, emit: error})

    def numbered(self, error: GroupingError) -> GroupingError:
        """An error about one of the rows, with the number of its emit."""
        if self.at is None or error.emission is None:
            return error
        return GroupingError(error.reason, int(self.at[error.emission]), error.field)


class RefusedTuple(NamedTuple):
    """A tuple that can't leave its worker.

    Attributes:
        task: The one that emitted it.
        reason: Why.
        values: Its values.
        is_reported: Whether that is an error of the task: not what was failed on purpose.
    """

    task: int
    reason: str
    values: Sequence[Any]
    is_reported: bool = True


class RowsFunction:
    """Runs the class of an input's `through`."""

    def __init__(self, function: InputFunction, task: int, kept: int) -> None:
        """Make it.

        Args:
            function: It is prepared.
            task: The task that emits.
            kept: How many fields stay in front of the rows, which the function does not see.
        """
        self._function, self._task, self._kept = function, task, kept

    def run(self, rows: Sequence[Any]) -> RowsMade:
        """Make rows. What an exception is raised for as a whole fails all."""
        kept = self._kept
        given = [row[kept:] for row in rows] if kept else rows
        calling = CALLS.begin(self._task, FUNCTIONS)
        try:
            made = self._function.run(given)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (an author's class)
            made = RowsMade([], [], dict.fromkeys(range(len(rows)), error))
        finally:
            end_child()
        CALLS.end(calling)
        if kept:
            pairs = zip(made.at, made.rows, strict=True)
            whole = [[*rows[i][:kept], *row] for i, row in pairs]
            return RowsMade(whole, made.at, made.failed, made.steps)
        return made


class InputSteps:
    """What one subscription does: its `where` and `select`, then its `through`."""

    def __init__(self, steps: Steps | None, function: RowsFunction | None = None) -> None:
        self._runner = None if steps is None else StepsRunner(steps)
        self.function = function

    def take(self, emitted: TupleRows) -> Taken:
        """Run the steps over some emits. One fails whose values Python does not have."""
        if wrong := emitted.without_values():
            good = np.array([i for i in range(emitted.n) if i not in wrong], np.int64)
            taken = self.take(emitted.take(good))
            failed: dict[int, Why] = {int(good[i]): why for i, why in taken.failed.items()}
            places = good if taken.at is None else good[taken.at]
            return Taken(taken.rows, places, {**wrong, **failed}, taken.steps)
        taken = Taken(emitted) if self._runner is None else self._stepped(self._runner, emitted)
        return taken if self.function is None else _computed(self.function, taken)

    @staticmethod
    def _stepped(runner: StepsRunner, emitted: TupleRows) -> Taken:
        done = runner.run(emitted.to_look_at())
        at = None if done.at is None else np.array(done.at, np.int64)
        if done.rows is not None:
            rows = TupleRows(done.rows)
        else:
            rows = emitted if at is None else emitted.take(at)
        return Taken(rows, at, done.failed)


def _computed(function: RowsFunction, taken: Taken) -> Taken:
    """What a function makes of rows. Of an emit that fails by one of its rows nothing is left."""
    made = function.run(taken.rows.to_look_at())
    if taken.at is None and made.at == [*range(len(taken.rows))]:  # as it is most often
        return Taken(TupleRows(made.rows), steps=made.steps)
    at = np.array(made.at, np.int64)
    if taken.at is None:
        return Taken(TupleRows(made.rows), at, made.failed, made.steps)
    places = taken.at[at]
    failed = {int(taken.at[i]): why for i, why in made.failed.items()}
    taken = Taken(TupleRows(made.rows), places, {**taken.failed, **failed}, made.steps)
    return taken.without(failed) if failed else taken
