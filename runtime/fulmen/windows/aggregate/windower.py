"""What decides which windows a tuple is in, and keeps them: the part that all types share.

It is made of a clock, which says what is past, of aggregates, which say what is kept of a window,
and of panes, which emit it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.timers import Timers
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.aggregates import Aggregates, ColumnRows
from fulmen.windows.aggregate.panes import Kept, Key, Panes
from fulmen.windows.clock import EventClock


class Windower(ABC):
    """The windows of one task.

    Attributes:
        since: From this time on,
        until: and before this one, times are in the same windows as the last one was.
        at_hand: What is kept of these windows by key, of those keys for which a tuple can simply be
            added to it.
    """

    takes_columns: ClassVar[bool] = False
    since = until = 0
    at_hand: Mapping[Any, Kept] = {}

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

    def touched(self, plain: Any) -> Kept | None:  # noqa: ARG002 (for those below)
        """The same of another key. None: `add` must be called."""
        return None

    @abstractmethod
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        """Add a tuple.

        Args:
            key: Its key.
            time: Its event time.
            values: Its value for each aggregate.
            tup: Itself.
            collector: Takes what is emitted for it.
        """

    def too_late(self, tup: Tuple, time: int | None, collector: BasicOutputCollector) -> None:
        """Emit a tuple with a time whose windows are none on the stream of what is late."""
        self._panes.too_late(tup, time, None, collector)

    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:  # noqa: ARG002 (for those below)
        """Add what is kept of tuples that were aggregated before they came: see `partial`.

        Args:
            key: Their key.
            time: One that is in the same windows as theirs.
            other: What each aggregate keeps of them.

        Raises:
            FailedException: A window has ended, so each of them must be dealt with by itself.
        """
        raise FailedException("its windows are of another type by now")

    def count(self, keys: Sequence[Any], times: Sequence[int | None]) -> bool:  # noqa: ARG002 (for those below)
        """Count tuples by keys that are hashable, if none is late and their windows are near.

        Returns:
            False: they are not. Nothing has changed.
        """
        return False

    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:  # noqa: ARG002 (for those below)
        """Add rows by their columns, if it `takes_columns`.

        Returns:
            The positions of those that `add` must be called for; None: all.
        """
        return None

    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        """A timer is due. Default: it has none."""

    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        """Emit what has not ended, and was not emitted as it is. Default: nothing.

        Args:
            place: What the timer of its end is for.
            collector: Takes it.
        """

    def end_batch(self) -> None:
        """What has changed is in the state afterwards. Default: it is already."""
