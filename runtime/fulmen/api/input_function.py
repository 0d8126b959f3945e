"""What an input does to the rows of a stream before they are divided among tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fulmen.api.declarer import Stream
from fulmen.api.signals import StepRows


class RowsMade(NamedTuple):
    """What has become of some rows.

    Attributes:
        rows: Those that come out: lists or tuples with a value for each field.
        at: The place of the row that each was made of, in rising order.
        failed: Place -> why nothing comes out of that row. A `FailedException` is not reported.
        steps: What each of its steps has done, for metrics.
    """

    rows: list[Any]
    at: list[int]
    failed: Mapping[int, str | BaseException]
    steps: Sequence[StepRows] = ()


class InputFunction(ABC):
    """Makes rows for one input of a bolt, in the task that emits and ahead of the grouping.

    The spec names it: `through: {class: module.Class, fields: [...]}`. `fulmen.streams` writes
    that for the functions of a pipeline.

    There is one instance for each emitting task and subscription. It is made anew whenever the
    emitting task is restored, so that it can't keep anything from row to row.
    """

    config: dict[str, Any]
    """Its `config` in the spec; set before anything is called."""

    def check(self, stream: Stream) -> Iterable[str]:  # noqa: ARG002 (for those that derive)
        """Mistakes that show before the topology runs: `stream` is what it will get rows of."""
        return ()

    @abstractmethod
    def prepare(self, fields: Sequence[str]) -> None:
        """Called once, before the first rows. An exception stops the topology.

        Args:
            fields: Those of the rows that it will get.
        """

    @abstractmethod
    def run(self, rows: Sequence[Any]) -> RowsMade:
        """Make rows of those that the task has emitted. Others may have the same lists.

        A row that is in neither `at` nor `failed` is left out: it counts as acked. An exception
        fails all rows. Of an emit that asks for its task ids it runs twice.
        """
