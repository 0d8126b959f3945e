"""Measures the topology's load in the last minute, for the operator to decide about its workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.protocol.figures.statistics import TASK_EMITTED, TASK_EXECUTED, TASK_SECONDS
from fulmen.engine.totals.counted import StageSeconds
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import lag_of
from fulmen.kube.load import ComponentLoad, Load, StageLoad
from fulmen.plan.model import DRIVER, Plan

WINDOW_SECONDS = 60.0
LEAST_SECONDS = 20.0
"""Shorter measurements say little: new workers must get warm first."""
LITTLE = 0.01
"""Seconds of work in each second, below which a bolt is not told of. Nothing is told more exactly:
each report that says something new is a call of the API server's."""
DIGITS = 2
SHARE_DIGITS = 1
"""Digits of shares of the workers' seconds."""


class LoadMark(NamedTuple):
    """The counts at a moment.

    Attributes:
        run: The plan's run. Counts of another run begin at 0.
        moment: The time, in seconds of the driver's steady clock.
        batches: The number of batches that have counted.
        failed: The number of attempts that have failed.
        stages: The seconds of each stage.
        tasks: The work of each task: a row as in `TaskSums`.
    """

    run: str
    moment: float
    batches: int
    failed: int
    stages: dict[int, StageSeconds]
    tasks: npt.NDArray[np.float64]

    @classmethod
    def of(cls, totals: Totals) -> LoadMark:
        """Now; under `totals.lock`."""
        return cls(
            totals.placed.run,
            totals.steady(),
            totals.batches,
            totals.failed_attempts,
            dict(totals.stages),
            totals.tasks.copy(),
        )


class LoadMeter:
    """Remembers the counts of the time that it tells about.

    Only times that end with a batch that counts are measured. Nothing is counted while a batch goes
    on for minutes, or none succeeds: that does not mean that there is little to do.
    """

    def __init__(self) -> None:
        self._marks: deque[LoadMark] = deque()

    def measure(self, totals: Totals) -> Load | None:
        """The load of the last minute; None: it is not known.

        Not long ago executors were placed anew, or nothing but failed attempts came.
        """
        with totals.lock:
            now = LoadMark.of(totals)
            plan, sources = totals.placed.plan, totals.placed.sources
            lags = {name: lag_of(totals.waits.lags, plan.tasks(name)) for name in sources}
        self._note(now)
        first, last = self._marks[0], self._marks[-1]
        if last.moment - first.moment < LEAST_SECONDS:
            return None
        late = [
            (lag.seconds, name) for name, lag in lags.items() if lag and lag.seconds is not None
        ]
        lag, behind = max(late, default=(None, ""))
        load = load_between(first, last, plan, sources)
        return load.model_copy(update={"lag": lag and round(lag), "behind": behind})

    def forget(self) -> None:
        """Forget all counts: they say nothing about the load later."""
        self._marks.clear()

    def _note(self, now: LoadMark) -> None:
        marks = self._marks
        if marks:
            last = marks[-1]
            none_counted = now.batches == last.batches
            if now.run != last.run or (none_counted and now.failed != last.failed):
                marks.clear()
            elif none_counted:
                return  # a batch goes on
        marks.append(now)
        while len(marks) > 2 and now.moment - marks[1].moment >= WINDOW_SECONDS:
            marks.popleft()


def load_between(before: LoadMark, now: LoadMark, plan: Plan, sources: Collection[str]) -> Load:
    """The load between two moments, by workers.

    The driver's own work is left out: pinned spouts wait there for messages, which is no work, and
    no number of workers makes them faster.

    Args:
        before: The first moment.
        now: The second moment.
        plan: The plan in force at both.
        sources: The spouts.
    """
    seconds = max(now.moment - before.moment, 1e-9)
    tasks = (now.tasks - before.tasks) / seconds
    numbers = sorted(number for number in now.stages if number != DRIVER)
    took = [now.stages[n].since(before.stages.get(n, StageSeconds())) for n in numbers]
    work = sum(stage.workers for stage in took)
    return Load(
        workers=plan.workers,
        stages=tuple(
            StageLoad(
                slowest=round(stage.slowest / seconds, DIGITS),
                workers=round(stage.workers / seconds, DIGITS),
                components=tuple(_components(number, tasks, plan, sources)),
            )
            for number, stage in zip(numbers, took, strict=True)
        ),
        tuples=float(f"{tasks[:, TASK_EXECUTED].sum():.3g}"),
        cpu=_share([stage.cpu for stage in took], work, 1.0),
        run_delay=_share([stage.run_delay for stage in took], work, 0.0),
    )


def _share(seconds: Iterable[float], work: float, without: float) -> float:
    return round(min(1.0, sum(seconds) / work), SHARE_DIGITS) if work else without


def _components(
    stage: int, tasks: npt.NDArray[np.float64], plan: Plan, sources: Collection[str]
) -> Iterator[ComponentLoad]:
    for name in plan.stages[stage]:
        ids = plan.tasks(name)
        own = tasks[ids.start : ids.stop]
        seconds = float(own[:, TASK_SECONDS].sum())
        if name in sources or seconds >= LITTLE:
            yield ComponentLoad(
                name=name,
                seconds=round(seconds, DIGITS),
                busiest=round(float(own[:, TASK_SECONDS].max()), DIGITS),
                tasks=len(ids),
                active=int((own[:, TASK_EMITTED] + own[:, TASK_EXECUTED] > 0).sum()),
            )
