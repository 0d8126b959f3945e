"""The part that all window types share: decides which windows a tuple is in, and keeps them.

It is made of a clock, which tells what is past, of aggregates, which keep a window's values, and
of panes, which emit it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import MutableMapping, Sequence
from typing import Any, ClassVar, Literal

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.times.timers import Timers
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.adding.aggregates import Aggregates, ColumnRows
from fulmen.windows.aggregate.adding.chunk_rows import ChunkRows
from fulmen.windows.aggregate.kinds.panes import Key, Panes
from fulmen.windows.clock import EventClock


class Windower(ABC):
    """The windows of one task.

    Attributes:
        takes_chunks: Whether it has `add_chunk`.
        takes_columns: Whether it has `add_columns`.
        state_part: What of the keys of its state is the aggregation's, see `StatefulBolt`.
        timer_part: The same of the keys of its timers.
    """

    state_part: ClassVar[Literal["first", "second", "inner"]]
    timer_part: ClassVar[Literal["inner", "every"]] = "every"
    takes_chunks: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = False

    def __init__(
        self,
        state: MutableMapping[Any, Any],
        timers: Timers,
        clock: EventClock,
        aggregates: Aggregates,
        panes: Panes,
    ) -> None:
        self._state, self._timers, self._clock = state, timers, clock
        self._aggregates, self._panes = aggregates, panes

    @property
    def count(self) -> int:
        """The number of open windows, of all keys."""
        return len(self._state)

    @abstractmethod
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        """Add a tuple. `values`: one for each aggregate."""

    def too_late(self, tup: Tuple, time: int | None, collector: BasicOutputCollector) -> None:
        """Emit a tuple with a time, but without an open window, on the stream of late tuples."""
        self._panes.too_late(tup, time, None, collector)

    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:  # noqa: ARG002 (for those below)
        """Add tuples that were aggregated before they came: see `partial`.

        Args:
            key: Their key.
            time: A time in the same windows as theirs.
            other: What each aggregate keeps of them.

        Raises:
            FailedException: A window has ended, so each tuple must be added by itself.
        """
        raise FailedException("its windows are of another type by now")

    def add_chunk(self, rows: ChunkRows) -> Sequence[int]:
        """Add the rows of a chunk, if it `takes_chunks`.

        Returns:
            The positions of those that `add` must be called for, ascending.
        """
        return range(len(rows.times))

    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:  # noqa: ARG002 (for those below)
        """Add rows by their columns, if it `takes_columns`.

        Returns:
            The positions of those that `add` must be called for; None: all.
        """
        return None

    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        """A timer is due. Default: it has none."""

    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        """Emit an open window, if it has changed. Default: nothing. `place`: its timer's."""

    def end_batch(self) -> None:
        """Put all changes into the state. Default: they are already there."""
