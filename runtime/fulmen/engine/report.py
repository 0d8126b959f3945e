"""What a topology has done so far: exact counts, latencies, errors.

Only batches that counted are in it.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fulmen.engine.coordinator import Done
from fulmen.engine.protocol import ErrorReport
from fulmen.engine.setup import Setup

_PER_DECADE = 200
_ERRORS_KEPT = 20
ERRORS_PER_INTERVAL = 5
ERROR_INTERVAL_SECONDS = 10.0
STATISTICS = ("emitted", "transferred", "executed", "acked", "failed")


class Latencies:
    """A histogram of milliseconds in steps of about 1 %."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0

    def add(self, milliseconds: float, n: int = 1) -> None:
        """Count `n` events that took this long."""
        self._counts[round(_PER_DECADE * math.log10(max(milliseconds, 0.01)))] += n
        self.count += n

    def quantile(self, q: float) -> float | None:
        """The time that the share `q` of all events stayed within; None if there were none."""
        seen = 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= q * self.count:
                return round(10 ** (step / _PER_DECADE), 2)
        return None


@dataclass
class Trees:
    """How the tuple trees of tracked messages ended.

    Attributes:
        acked: Ended well.
        failed: Ended otherwise, but not by a timeout.
        timed_out: Were not acked within messageTimeoutSeconds.
        pending: Have not ended.
        replayed: Emits of a message that had failed before.
        dead_lettered: Messages that went to the dead letters.
    """

    acked: int = 0
    failed: int = 0
    timed_out: int = 0
    pending: int = 0
    replayed: int = 0
    dead_lettered: int = 0


@dataclass
class Totals:
    """Everything since this driver started. See `docs/api.md` for the report that is made of it."""

    setup: Setup
    batches: int = 0
    attempts_failed: int = 0
    seconds: float = 0.0
    trees: Trees = field(default_factory=Trees)
    latencies: Latencies = field(default_factory=Latencies)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    errors: dict[str, deque[dict[str, Any]]] = field(default_factory=dict)
    error_counts: Counter[str] = field(default_factory=Counter)
    restored: int = 0
    processes: dict[int, set[int]] = field(default_factory=dict)
    last_failure: str = ""

    def add(self, done: Done, pending: int, wall_clock: float) -> list[ErrorReport]:
        """Count a batch that was committed, or had nothing to commit.

        Args:
            done: The batch.
            pending: Trees pending after it.
            wall_clock: When its commit was done, in seconds of time.time().

        Returns:
            Errors to be logged: at most 5 of a component in 10 seconds, as in Storm.
        """
        self.batches += 1
        trees = self.trees
        trees.pending = pending
        logged: list[ErrorReport] = []
        for summary in done.summaries:
            self.counts.update(summary.counts)
            trees.acked += sum(int((r[:, 1] - r[:, 0]).sum()) for r in summary.acked.values())
            trees.failed += len(summary.failed) - summary.timed_out
            trees.timed_out += summary.timed_out
            self.restored += len(summary.restored)
            worker, process = summary.process
            self.processes.setdefault(worker, set()).add(process)
            for born, n in summary.born:
                self.latencies.add((wall_clock - born) * 1000, n)
            logged += [error for error in summary.errors if self._note(error, wall_clock)]
        trees.replayed = self._sum("replayed")
        trees.dead_lettered = self._sum("dead_lettered")
        return logged

    def _sum(self, what: str) -> int:
        return sum(n for (_, kind, _), n in self.counts.items() if kind == what)

    def _note(self, error: ErrorReport, wall_clock: float) -> bool:
        self.error_counts[error.component] += 1
        kept = self.errors.setdefault(error.component, deque(maxlen=_ERRORS_KEPT))
        recent = [e for e in kept if wall_clock - e["time"] < ERROR_INTERVAL_SECONDS]
        if len(recent) >= ERRORS_PER_INTERVAL:
            return False
        kept.append({"task": error.task, "message": error.message, "time": wall_clock})
        return True

    def component(self, name: str) -> dict[str, int]:
        """The statistics of one component, over all its streams."""
        return {
            what: sum(
                n
                for (component, kind, _), n in self.counts.items()
                if (component, kind) == (name, what)
            )
            for what in STATISTICS
        }

    def report(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "topology": self.setup.topology.metadata.name,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "trees": dict(vars(self.trees)),
            "latency_ms": {
                "p50": self.latencies.quantile(0.5),
                "p99": self.latencies.quantile(0.99),
            },
            "components": {name: self._component_report(name) for name in self._names()},
            "failed_attempts": self.attempts_failed,
            "restored_tasks": self.restored,
        }

    def _names(self) -> Iterable[str]:
        return self.setup.plan.component_tasks

    def _component_report(self, name: str) -> dict[str, Any]:
        errors = [{"task": e["task"], "message": e["message"]} for e in self.errors.get(name, ())]
        return {**self.component(name), "tasks": len(self.setup.plan.tasks(name)), "errors": errors}
