"""How long things take, and how busy executors are: workers fill it in, the driver adds it up.

A worker reads the clock once for each chunk of tuples, since a reading for each tuple would cost a
tenth of the throughput: every tuple of a chunk counts with the chunk's mean. Counts are exact all
the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from fulmen.topology.resource.spec import ACKER

BOUNDS = (
    *(1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of the histograms' buckets in seconds, for anything from an `execute` to a tree."""


class Statistic(StrEnum):
    """What is counted or measured.

    The first five counts are Storm's; the next two are kinds of failed ones. Those of results are
    trees that began at a bolt, whose inputs are acked and failed, too. The last four are times.
    """

    EMITTED = "emitted"
    TRANSFERRED = "transferred"
    EXECUTED = "executed"
    ACKED = "acked"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    RESULTS_ACKED = "results_acked"
    RESULTS_FAILED = "results_failed"
    REPLAYED = "replayed"
    DEAD_LETTERED = "dead_lettered"
    DROPPED = "dropped"
    UNTIMED = "untimed"
    EXECUTE = "execute"
    PROCESS = "process"
    COMPLETE = "complete"
    BATCH = "batch"


# Names of their own: they are looked up for each chunk of tuples.
EMITTED: Final = Statistic.EMITTED
TRANSFERRED: Final = Statistic.TRANSFERRED
EXECUTED: Final = Statistic.EXECUTED
ACKED: Final = Statistic.ACKED
FAILED: Final = Statistic.FAILED
TIMED_OUT: Final = Statistic.TIMED_OUT
CRASHED: Final = Statistic.CRASHED
RESULTS_ACKED: Final = Statistic.RESULTS_ACKED
RESULTS_FAILED: Final = Statistic.RESULTS_FAILED
REPLAYED: Final = Statistic.REPLAYED
DEAD_LETTERED: Final = Statistic.DEAD_LETTERED
DROPPED: Final = Statistic.DROPPED
UNTIMED: Final = Statistic.UNTIMED
UNUSABLE, AHEAD = "unusable", "ahead"
"""Of which tuples without a usable time there are so many: their time can't be used, or it is too
far ahead of the clock."""
EXECUTE: Final = Statistic.EXECUTE
PROCESS: Final = Statistic.PROCESS
COMPLETE: Final = Statistic.COMPLETE
BATCH: Final = Statistic.BATCH

CountKey = tuple[str, Statistic, str]
"""(component, what, of which): of which stream, input `component:stream`, or phase of a batch."""
ChunkTimes = dict[tuple[str, str, int], list[float]]
"""What a worker sends: (component, source, bucket) -> executed, acked, the seconds of either."""
TaskSums = dict[int, list[float]]
"""What a worker sends: task -> tuples emitted, executed and failed, and seconds of work."""
TASK_EMITTED, TASK_EXECUTED, TASK_FAILED, TASK_SECONDS = range(4)
"""The places of these in `TaskSums`."""


def acker_name(task: int) -> str:
    """Under which name an acker task is counted by itself; `ACKER` is all of them together."""
    return f"{ACKER}/{task}"


def is_one_acker(name: str) -> bool:
    """Whether something is counted under the name of an acker task by itself."""
    return name.startswith(f"{ACKER}/")


def add_chunk(
    times: ChunkTimes, component: str, source: str, each: float, executed: int, acked: int
) -> None:
    """Count tuples that took `each` seconds, to be executed, or to be acked, or both alike."""
    key = component, source, bisect_left(BOUNDS, each)
    found = times.get(key)
    if found is None:
        times[key] = [executed, acked, each * executed, each * acked]
        return
    found[0] += executed
    found[1] += acked
    found[2] += each * executed
    found[3] += each * acked


def add_task(
    sums: TaskSums,
    task: int,
    *,
    emitted: int = 0,
    executed: int = 0,
    failed: int = 0,
    seconds: float = 0.0,
) -> None:
    """Count what a task did: once for each chunk, not for each tuple."""
    found = sums.get(task)
    if found is None:
        sums[task] = [emitted, executed, failed, seconds]
        return
    found[TASK_EMITTED] += emitted
    found[TASK_EXECUTED] += executed
    found[TASK_FAILED] += failed
    found[TASK_SECONDS] += seconds


class TimeHistogram:
    """How many events took how long.

    Attributes:
        counts: Number of a bucket -> events. Bucket i ends at `BOUNDS[i]`; the last has no end.
        seconds: The seconds of all events together.
    """

    __slots__ = ("counts", "seconds")

    def __init__(self, counts: Mapping[int, int] | None = None, seconds: float = 0.0) -> None:
        self.counts = dict(counts or {})
        self.seconds = seconds

    def add(self, each: float, n: int = 1) -> None:
        """Count `n` events that took `each` seconds."""
        if n:
            self.put(bisect_left(BOUNDS, each), n, each * n)

    def put(self, bucket: int, n: int, seconds: float) -> None:
        """Count `n` events of one bucket that took `seconds` together."""
        self.counts[bucket] = self.counts.get(bucket, 0) + n
        self.seconds += seconds

    def merge(self, other: TimeHistogram) -> None:
        """Add the events of `other`."""
        for bucket, n in other.counts.items():
            self.put(bucket, n, 0.0)
        self.seconds += other.seconds

    def copy(self) -> TimeHistogram:
        """One that does not change with this."""
        return TimeHistogram(self.counts, self.seconds)

    @property
    def count(self) -> int:
        """How many events there were."""
        return sum(self.counts.values())

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound with the events that stayed within it; the last bound is infinite."""
        seen = 0
        for bucket, bound in enumerate((*BOUNDS, float("inf"))):
            seen += self.counts.get(bucket, 0)
            yield bound, seen


class Times(dict[CountKey, TimeHistogram]):
    """Histograms by key, made as they are needed."""

    def __missing__(self, key: CountKey) -> TimeHistogram:
        found = self[key] = TimeHistogram()
        return found

    def add_chunks(self, times: ChunkTimes) -> None:
        """Add what a worker has sent."""
        for (component, source, bucket), numbers in times.items():
            executed, acked, execute_seconds, process_seconds = numbers
            if executed:
                self[component, EXECUTE, source].put(bucket, int(executed), execute_seconds)
            if acked:
                self[component, PROCESS, source].put(bucket, int(acked), process_seconds)

    def copy(self) -> Times:
        """One that does not change with this."""
        return Times((key, histogram.copy()) for key, histogram in self.items())


class RollingWindow:
    """Sums of the last so many seconds, by key: Storm's rolling buckets."""

    def __init__(self, seconds: float, parts: int, now: float) -> None:
        """Start at nothing.

        Args:
            seconds: How far it reaches back.
            parts: What is older is forgotten in so many steps.
            now: Seconds of any steady clock, as in all methods.
        """
        self._step = seconds / parts
        self._parts: deque[tuple[float, dict[int, float]]] = deque([(now, {})], parts)

    def add(self, amounts: Mapping[int, float], now: float) -> None:
        """Add to the sums."""
        self._forget(now)
        newest = self._parts[-1][1]
        for key, amount in amounts.items():
            newest[key] = newest.get(key, 0.0) + amount

    def _forget(self, now: float) -> None:
        start = self._parts[-1][0]
        steps = int((now - start) / self._step)
        for i in range(max(0, steps - (self._parts.maxlen or 0)), steps):
            self._parts.append((start + (i + 1) * self._step, {}))

    def shares(self, now: float) -> dict[int, float]:
        """The sum of each key, divided by the seconds that it is of."""
        self._forget(now)
        seconds = max(now - self._parts[0][0], 1e-9)
        sums: dict[int, float] = {}
        for _, part in self._parts:
            for key, amount in part.items():
                sums[key] = sums.get(key, 0.0) + amount
        return {key: amount / seconds for key, amount in sums.items()}
