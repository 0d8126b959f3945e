"""The rows of a stream as a subscription takes them: what its `where` and `select` leave of them.

This runs in the task that emits, ahead of the grouping. What is left out is not sent, and as there
is no copy of it, its trees end without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fulmen.engine.emitting.parcels import Index
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import GroupingError
from fulmen.expressions.steps import Steps, StepsRunner

Tasks = Sequence[tuple[int, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a subscription takes of some emits.

    Attributes:
        rows: The rows that its bolt is to receive.
        at: The emit that each was made of, in rising order; None: each of its own.
        failed: Emit number -> why there is no row for it.
    """

    rows: TupleRows
    at: Index | None = None
    failed: Mapping[int, str] = field(default_factory=dict)

    def chosen(self, chosen: Mapping[int, Tasks] | None) -> Mapping[int, Tasks] | None:
        """Number what is known of some emits by the rows that they have become."""
        if not chosen or self.at is None:
            return chosen
        emits = enumerate(self.at.tolist())
        return {i: chosen[emit] for i, emit in emits if emit in chosen}

    def numbered(self, error: GroupingError) -> GroupingError:
        """An error about one of the rows, with the number of its emit."""
        if self.at is None or error.emission is None:
            return error
        return GroupingError(error.reason, int(self.at[error.emission]), error.field)


class InputSteps:
    """The steps of one subscription."""

    def __init__(self, steps: Steps) -> None:
        self._runner = StepsRunner(steps)

    def take(self, emitted: TupleRows) -> Taken:
        """Run the steps over some emits. One fails whose values Python does not have."""
        if wrong := emitted.without_values():
            good = np.array([i for i in range(emitted.n) if i not in wrong], np.int64)
            taken = self.take(emitted.take(good))
            failed = {int(good[i]): why for i, why in taken.failed.items()}
            places = good if taken.at is None else good[taken.at]
            return Taken(taken.rows, places, {**wrong, **failed})
        done = self._runner.run(emitted.to_look_at())
        at = None if done.at is None else np.array(done.at, np.int64)
        if done.rows is not None:
            rows = TupleRows(done.rows)
        else:
            rows = emitted if at is None else emitted.take(at)
        return Taken(rows, at, done.failed)
