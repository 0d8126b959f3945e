"""Each task's work of the last seconds, to see whether one has more than the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.protocol.figures.statistics import (
    TASK_EMITTED,
    TASK_EXECUTED,
    TASK_FAILED,
    TASK_SECONDS,
)
from fulmen.metrics.snapshot import Snapshot

TASKS_SHOWN = 200
"""Rows of a component's tasks, at most: those with the most to do."""


@dataclass(frozen=True)
class RecentTasks:
    """The tasks at one moment, compared with some seconds earlier.

    Attributes:
        now: That moment.
        before: Some seconds earlier.
    """

    now: Snapshot
    before: Snapshot

    @cached_property
    def _recent(self) -> npt.NDArray[np.float64]:
        """Counts since `before`, or since the plan is in force, if that was later."""
        now, before = self.now.tasks, self.before.tasks
        if now.shape != before.shape or (now < before).any():
            return now
        return now - before

    def _work(self, component: str) -> tuple[range, npt.NDArray[np.float64]]:
        """The tasks of a component, and how many tuples each executed, or emitted if a spout."""
        what = TASK_EMITTED if component in self.now.placed.sources else TASK_EXECUTED
        tasks = self.now.placed.plan.tasks(component)
        rows = slice(tasks.start, tasks.stop)
        recent = self._recent[rows, what]
        return tasks, recent if recent.any() else self.now.tasks[rows, what]

    def busiest(self, component: str) -> dict[str, Any] | None:
        """The task with the most to do, and its share of all; None: nothing was done."""
        tasks, work = self._work(component)
        if not work.any():
            return None
        at = int(work.argmax())
        return {"task": tasks[at], "share": round(float(work[at] / work.sum()), 4)}

    def rows(self, component: str) -> Iterator[dict[str, Any]]:
        """A row for each task of a component; the busiest ones, if there are many."""
        now, plan = self.now, self.now.placed.plan
        if component not in plan.component_tasks:
            return
        tasks, work = self._work(component)
        total, seconds = work.sum(), now.uptime - self.before.uptime
        shown = np.sort(np.argsort(-work, kind="stable")[:TASKS_SHOWN])
        for at in shown.tolist():
            task = tasks[at]
            sums, recent = now.tasks[task], self._recent[task]
            rates = recent / seconds if seconds > 0 else np.zeros_like(recent)
            yield {
                "task": task,
                "worker": plan.worker_of(task),
                "executor": plan.executor_of(task).first,
                "emitted": int(sums[TASK_EMITTED]),
                "executed": int(sums[TASK_EXECUTED]),
                "failed": int(sums[TASK_FAILED]),
                "emitted_per_second": round(float(rates[TASK_EMITTED]), 2),
                "executed_per_second": round(float(rates[TASK_EXECUTED]), 2),
                "share": round(float(work[at] / total), 4) if total else 0.0,
                "busy": None
                if component in now.placed.sources
                else round(min(1.0, float(rates[TASK_SECONDS])), 4),
                "pending": now.pending_of(task),
            }
