"""Totals of a topology so far, to be read: exact counts, latencies, errors.

Only batches that counted are in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.times.event_time import TOO_LATE
from fulmen.engine.batches.pace.next_timers import NextTimers
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    BATCHES,
    DEAD_LETTERED,
    DROPPED,
    EMITTED,
    FAILED,
    FAILED_ATTEMPTS,
    FIGURES,
    REPLAYED,
    RESULTS_ACKED,
    RESULTS_FAILED,
    TIMED_OUT,
    CountKey,
    Figure,
    LevelKey,
    Shown,
)
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.time.watermarks import Watermarks
from fulmen.engine.totals.author_metrics import AuthorMetrics
from fulmen.engine.totals.event_time import ComponentTime, times_of
from fulmen.engine.totals.failures import Errors, Failures
from fulmen.engine.totals.latencies import Latencies, Times
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.engine.totals.waits import Waits

STATISTICS = [f for f in FIGURES if Shown.RATE in f.shown and f.is_of_components]
"""Figures of each component, as Storm has them."""
_LOST = {
    ERRORS_STREAM: (ERRORS_STREAM,),
    TOO_LATE: (TOO_LATE, f"{TOO_LATE}_left", f"{TOO_LATE}_right"),
}
"""The streams of what is in no result, and those that have the same: one that is read is enough."""


@dataclass(frozen=True)
class TreeCounts:
    """How the tuple trees of tracked messages, and of results of bolts, ended.

    Attributes:
        acked: Ended well.
        failed: Ended otherwise, but not by a timeout.
        timed_out: Were not acked within messageTimeoutSeconds.
        pending: Have not ended.
        replayed: Emits of a message that had failed before.
        dead_lettered: Messages that went to the dead letters after `maxReplays` failures.
        dropped: Tuples that were dropped because they kill their workers.
    """

    acked: int = 0
    failed: int = 0
    timed_out: int = 0
    pending: int = 0
    replayed: int = 0
    dead_lettered: int = 0
    dropped: int = 0


class StageSeconds(NamedTuple):
    """The time of one stage in all batches of a plan.

    Attributes:
        slowest: Seconds of each batch's slowest worker, added up: what batches took for the stage.
        workers: Seconds of all workers, added up.
        runs: How many times a worker ran the stage.
        cpu: Seconds of processors that the workers' processes used for it, added up.
        run_delay: Seconds that they were ready to run and had no processor, added up.
    """

    slowest: float = 0.0
    workers: float = 0.0
    runs: float = 0
    cpu: float = 0.0
    run_delay: float = 0.0

    def since(self, before: StageSeconds) -> StageSeconds:
        """The part after another moment."""
        return StageSeconds(*(now - then for now, then in zip(self, before, strict=True)))


@dataclass
class Counted:
    """Everything since this driver started.

    Attributes:
        current: The topology, whose plan may change.
        started: When the driver did, in seconds of its steady clock.
        header: Of the newest batch.
        counts: What is added up of each figure.
        times: Histograms of each figure that is a time.
        levels: What tasks have said last of each figure.
        latencies: How long trees took; in a transactional topology, transactions.
        transactions: What became of them; None: the topology has none.
        pending_trees: Those that have not ended.
        failures: Why tuples failed, by component.
        resting: Task -> its messages, or results, that have failed and come again after a pause.
        errors: Of each component: the last ones.
        last_failure: Why the last attempt of a batch came to nothing; "" if none did.
        tasks: Of each task, since the plan is in force: a row as in `TaskSums`.
        stages: Of each stage, since the plan is in force.
        processes: Worker -> the process that served it last.
        metrics: Those of authors.
        waits: What holds up batches or spouts at the moment.
        watermarks: How far event time has come.
        timers: Those of bolts.
        wall: When the last batch was committed, in seconds of time.time(); 0: there was none.
    """

    current: CurrentTopology
    started: float = 0.0
    header: Header | None = None
    counts: Counter[CountKey] = field(default_factory=Counter)
    times: Times = field(default_factory=Times)
    levels: dict[LevelKey, int] = field(default_factory=dict)
    latencies: Latencies = field(default_factory=Latencies)
    transactions: TransactionTotals | None = None
    pending_trees: int = 0
    failures: Failures = field(default_factory=Failures)
    resting: dict[int, Resting] = field(default_factory=dict)
    errors: Errors = field(default_factory=Errors)
    last_failure: str = ""
    tasks: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    stages: dict[int, StageSeconds] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    metrics: AuthorMetrics = field(default_factory=AuthorMetrics)
    waits: Waits = field(default_factory=Waits)
    watermarks: Watermarks = field(default_factory=Watermarks)
    timers: NextTimers = field(default_factory=NextTimers)
    wall: float = 0.0

    @property
    def placed(self) -> PlacedTopology:
        """The topology and its plan."""
        return self.current.placed

    @property
    def batches(self) -> int:
        """The number of batches that have counted."""
        return self.counts["", BATCHES, ""]

    @property
    def failed_attempts(self) -> int:
        """The number of failed attempts of batches."""
        return self.counts["", FAILED_ATTEMPTS, ""]

    @property
    def trees(self) -> TreeCounts:
        """How trees ended."""
        sums: Counter[str] = Counter()
        for (_, figure, part), n in self.counts.items():
            if not part:  # inputs of bolts are acked and failed, too: these have parts
                sums[figure] += n
        return TreeCounts(
            acked=sums[ACKED] + sums[RESULTS_ACKED],
            failed=sums[FAILED] + sums[RESULTS_FAILED] - sums[TIMED_OUT],
            timed_out=sums[TIMED_OUT],
            pending=self.pending_trees,
            replayed=sums[REPLAYED],
            dead_lettered=sums[DEAD_LETTERED],
            dropped=sums[DROPPED],
        )

    def sum(self, figure: Figure, component: str | None = None) -> int:
        """Add up all parts of a figure; None: of all components."""
        return sum(
            n
            for (name, what, _), n in self.counts.items()
            if what == figure and component in (None, name)
        )

    def component(self, name: str) -> dict[str, int]:
        """The statistics of one component, over all its streams."""
        return {figure: self.sum(figure, name) for figure in STATISTICS}

    def unread(self) -> dict[str, dict[str, int]]:
        """Component -> stream -> tuples that are in no result, and that nobody reads.

        These are malformed rows on `errors`, and late ones on `late`. What has none is left out.
        """
        found: dict[str, dict[str, int]] = {}
        for name, streams in self.placed.streams.items():
            for lost, copies in _LOST.items():
                is_read = any(self.placed.subscribers(name, s) for s in copies if s in streams)
                if (n := self.counts[name, EMITTED, lost]) and not is_read:
                    found.setdefault(name, {})[lost] = n
        return found

    def event_times(self) -> dict[str, ComponentTime]:
        """The event times of components that have one, or timers."""
        clock = 0.0 if self.header is None else self.header.clock
        timers = dict(self.timers.by_task())
        return times_of(self.placed, self.watermarks, timers, self.counts, clock)

    def copied(self) -> Iterator[tuple[str, Any]]:
        """Each attribute, as it is and will stay; under the lock of who adds to them."""
        for name in (f.name for f in fields(Counted)):
            value = getattr(self, name)
            copy = getattr(value, "copy", None)  # what has none is replaced, and never changed
            yield name, value if copy is None else copy()
