"""The signals of one task's code, until the engine takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from fulmen.api.marks import EngineMark
from fulmen.api.signals.families import MOST_SERIES, Family, differs, too_many
from fulmen.api.signals.metrics import KINDS, Metric, Sample
from fulmen.errors import MetricError

M = TypeVar("M", bound=Metric)
Result = tuple[str, bytes]
"""A call, and one of its results."""


class Lag(NamedTuple):
    """The lag of a spout task behind its source.

    Attributes:
        messages: How many messages it has not emitted yet; None: not known.
        seconds: How old the oldest of them is; None: not known.
    """

    messages: int | None = None
    seconds: float | None = None


class StepRows(NamedTuple):
    """What has become of some rows in one step of a pipeline.

    Attributes:
        step: Its name.
        rows: How many it got.
        given: How many it gave.
        failed: For how many it raised.
    """

    step: str
    rows: int
    given: int
    failed: int


class Hold:
    """Whether one task holds the spouts.

    Attributes:
        reason: Why spouts are to emit nothing; "": they may.
    """

    reason = ""


class Signals:
    """Signals of one task's code, which the engine takes at the end of each batch.

    Attributes:
        hold: Whether it holds the spouts. Several may have the same.
        maps: The maps of a committer that were made, by their names: what is to be called with an
            attempt that has nothing for the map, which says whether the map is the bolt's. None:
            it was written to.
        kept_mark: What the store of a bolt that keeps a mark by itself has.
        on_returned: Called in the driver, on its thread, with the results of calls that a commit
            has, those of other tasks among them. None: they are nothing to this task.
        wake: Ends the rest before the next batch; in the driver alone. None: nothing does.
    """

    def __init__(self, hold: Hold | None = None) -> None:
        self._series: dict[tuple[str, tuple[str, ...]], Metric] = {}
        self._families: dict[str, Family] = {}
        self._lag: Lag | None = None
        self._lock = threading.Lock()
        self.hold = hold or Hold()
        self.maps: dict[str, Callable[[Any], bool] | None] = {}
        self.kept_mark = EngineMark()
        self.on_returned: Callable[[Sequence[Result]], object] | None = None
        self._results: list[Result] = []
        self._steps: list[StepRows] = []
        self.wake: Callable[[], object] | None = None

    def __reduce__(self) -> Any:  # a copy of a context is nobody's
        return Signals, ()

    def metric(self, kind: type[M], family: Family, labels: tuple[str, ...]) -> M:
        """The series with these label values, made if it is new.

        Raises:
            MetricError: Another metric has the name, or there are too many.
        """
        key = family.name, labels
        with self._lock:
            known = self._families.setdefault(family.name, family)
            if known != family:
                raise MetricError(differs(family, known, "this component"))
            if key not in self._series:
                if len(self._series) >= MOST_SERIES:
                    raise MetricError(too_many(family.name))
                self._series[key] = kind(family, labels)
            found = self._series[key]
        assert isinstance(found, kind)
        return found

    def again(self, family: Family, labels: tuple[str, ...]) -> Metric:
        """Find or make a series that an earlier process had. Raises what `metric` does."""
        return self.metric(KINDS[family.kind], family, labels)

    def say_lag(self, lag: Lag) -> None:
        """Note how far the task is behind its source."""
        with self._lock:
            self._lag = lag

    def take_lag(self) -> Lag | None:
        """Take the lag since the last call; None: it was not said."""
        with self._lock:
            lag, self._lag = self._lag, None
        return lag

    def answer(self, call: str, result: bytes) -> None:
        """Have a result given to whoever has emitted a call, once it is committed."""
        with self._lock:
            self._results.append((call, result))

    def take_results(self) -> list[Result]:
        """Take the results since the last call."""
        with self._lock:
            results, self._results = self._results, []
        return results

    def give_returned(self, results: Sequence[Result]) -> None:
        """Give the task in the driver what a commit has of results."""
        if self.on_returned is not None:
            self.on_returned(results)

    def note_steps(self, steps: Iterable[StepRows]) -> None:
        """Note what steps have done, for figures."""
        with self._lock:
            self._steps += steps

    def take_steps(self) -> list[StepRows]:
        """Take what steps have done since the last call."""
        with self._lock:
            steps, self._steps = self._steps, []
        return steps

    def take_samples(self) -> list[Sample]:
        """Take what was counted and measured since the last call."""
        with self._lock:
            series = list(self._series.values())
        taken = ((*one.series, one.take()) for one in series)
        return [Sample(family, of, value) for family, of, value in taken if value is not None]
