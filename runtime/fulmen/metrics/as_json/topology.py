"""A topology as JSON: what the page shows. `docs/metrics.md` describes it for other programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from fulmen.api.signals import Lag
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    BATCH,
    DEAD_LETTERED,
    EMITTED,
    EXECUTED,
    FAILED,
    FIGURES,
    LETTERS_KEPT,
    PENDING_TREES,
    PHASES,
    REPLAYED,
    RESULTS_ACKED,
    RESULTS_FAILED,
    TIMED_OUT,
    FigureKind,
    Of,
    Shown,
    acker_name,
    by_task,
)
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.counted import StageSeconds
from fulmen.engine.totals.failures import resting_by_component
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.engine.totals.waits import Wait
from fulmen.metrics.as_json.errors import ERROR_CHARACTERS, errors_json, failures_json
from fulmen.metrics.as_json.recent_tasks import RecentTasks
from fulmen.metrics.as_json.transactions import transactions_json
from fulmen.metrics.history import STEPS, HistoryPoint
from fulmen.metrics.snapshot import ACKER_INPUTS, Snapshot
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import ACKER

WORKERS_SHOWN = 250
"""Rows of workers: those that are missing, then those with the most to do."""
ACKERS_SHOWN = 250
EXECUTORS_SHOWN = 20
"""Executors of each worker."""

Json = dict[str, Any]


@dataclass(frozen=True)
class TopologyJson:
    """The JSON of a topology at one moment.

    Attributes:
        now: That moment.
        before: Some seconds earlier: rates are of the time between.
        points: The history.
        tasks_of: The component whose tasks are listed; "" for none.
        step: How many seconds each point of the history is of.
    """

    now: Snapshot
    before: Snapshot
    points: Sequence[HistoryPoint]
    tasks_of: str = ""
    step: int = STEPS[0]

    def json(self) -> Json:
        """Make the JSON."""
        now = self.now
        last = now.latencies.since(self.before.latencies)
        return {
            "name": now.name,
            "state": now.placed.topology.spec.state,
            "active": now.is_active,
            "uptime_seconds": round(now.uptime, 1),
            "message_timeout_seconds": now.placed.topology.spec.message_timeout_seconds,
            "trees": asdict(now.trees),
            "dead_letters_kept": sum(by_task(now.levels, LETTERS_KEPT).values()),
            "transactions": self._transactions(),
            "waits": [self._wait(wait) for wait in now.waiting],
            "kept_state": {name: asdict(one) for name, one in now.placed.kept.items()},
            "acked_per_second": self._rate(now.trees.acked, self.before.trees.acked),
            "complete_latency_ms": {"p50": last.quantile(0.5), "p99": last.quantile(0.99)},
            "components": [self._component(name) for name in now.components],
            "edges": list(self._edges()),
            "ackers": [self._acker(task) for task in now.ackers[:ACKERS_SHOWN]],
            "tasks_of": self.tasks_of,
            "tasks": list(self._tasks.rows(self.tasks_of)),
            "worker_counts": {
                "wanted": now.placed.plan.workers,
                "present": len(now.placed.workers),
            },
            "workers": list(self._workers()),
            "batches": self._batches(),
            "errors": errors_json(now),
            "failures": failures_json(now),
            "history_step": self.step,
            "history": [
                {k: round(v, 2) if isinstance(v, float) else v for k, v in asdict(point).items()}
                for point in self.points
            ],
        }

    def _wait(self, wait: Wait) -> Json:
        since = None if wait.since is None else round(wait.since, 3)
        text = wait.sentence[:ERROR_CHARACTERS]
        return {"kind": wait.kind, "component": wait.component, "since": since, "sentence": text}

    def _transactions(self) -> Json | None:
        """Transactions, with their rate; None: the topology has none."""
        now, before = self.now.transactions, self.before.transactions or TransactionTotals()
        if now is None:
            return None
        return {
            **transactions_json(now, before, self.now.moment),
            "committed_per_second": self._rate(self.now.committed, self.before.committed),
        }

    def _rate(self, after: float, before: float) -> float:
        seconds = self.now.uptime - self.before.uptime
        return round((after - before) / seconds, 2) if seconds > 0 else 0.0

    def _figures(self, component: str) -> Iterator[tuple[str, Any]]:
        """The declared figures of a component, or of the topology itself, which is ""."""
        for figure in FIGURES:
            if Shown.JSON not in figure.shown or figure.is_of_components is not bool(component):
                continue
            if figure.kind is FigureKind.TIMES:
                has_it = self.now.has(figure, component)
                yield f"{figure}_ms", self._mean(component, figure) if has_it else None
                continue
            after, before = (s.sums[component, figure] for s in (self.now, self.before))
            yield figure, after
            if Shown.RATE in figure.shown:
                yield f"{figure}_per_second", self._rate(after, before)

    @cached_property
    def _tasks(self) -> RecentTasks:
        return RecentTasks(self.now, self.before)

    @cached_property
    def _unread(self) -> Mapping[str, Mapping[str, int]]:
        return self.now.unread()

    @cached_property
    def _outputs(self) -> Mapping[str, Sequence[str]]:
        return _grouped(self.now.streams)

    @cached_property
    def _inputs(self) -> Mapping[str, Sequence[str]]:
        return _grouped(self.now.inputs)

    def _component(self, name: str) -> Json:
        now, plan = self.now, self.now.placed.plan
        is_spout = name in now.placed.sources
        tasks = plan.tasks(name)
        return {
            "name": name,
            "kind": "spout" if is_spout else "acker" if name == ACKER else "bolt",
            "tasks": len(tasks),
            "executors": len(now.executors_of[name]),
            **dict(self._figures(name)),
            "capacity": None if is_spout else round(now.capacity(name), 4),
            "pending": now.pending(name),
            "results": self._results(name) if name in now.result_bolts else None,
            "lag": _lag(now.lag(name)),
            "time": _time(now, name),
            "metrics": now.metrics.of_component(name),
            "busiest_task": self._tasks.busiest(name),
            "unread": self._unread.get(name, {}),
            "outputs": [self._output(name, stream) for stream in self._outputs.get(name, ())],
            "inputs": [self._input(name, of) for of in self._inputs.get(name, ())],
            "steps": [{"step": s, **now.of_step(name, s)} for of, s in now.steps if of == name],
        }

    def _results(self, bolt: str) -> Json:
        """Counts of the results of a bolt, which it has emitted by itself."""
        counts = self.now.counts
        late, resting = counts[bolt, TIMED_OUT, ""], self._resting_of.get(bolt)
        return {
            "acked": counts[bolt, RESULTS_ACKED, ""],
            "failed": counts[bolt, RESULTS_FAILED, ""] - late,
            "timed_out": late,
            "pending": self.now.pending(bolt),
            "resting": resting.messages if resting else 0,
            "replayed": counts[bolt, REPLAYED, ""],
            "dead_lettered": counts[bolt, DEAD_LETTERED, ""],
        }

    @cached_property
    def _resting_of(self) -> Mapping[str, Resting]:
        return resting_by_component(self.now.resting, self.now.placed.plan)

    def _output(self, component: str, stream: str) -> Json:
        return {"stream": stream, **dict(self._part(component, stream, Of.STREAM))}

    def _input(self, component: str, of: str) -> Json:
        return {"from": of, **dict(self._part(component, of, Of.INPUT, Of.INPUT_OR_TREES))}

    def _part(self, component: str, part: str, *of: Of) -> Iterator[tuple[str, Any]]:
        """The declared figures of one stream, or of one input."""
        for figure in FIGURES:
            if Shown.JSON in figure.shown and figure.of in of:
                key = component, figure, part
                if figure.kind is FigureKind.TIMES:
                    yield f"{figure}_ms", _rounded(self.now.times[key].millis, 4)
                else:
                    yield figure, self.now.counts[key]

    def _mean(self, component: str, what: str) -> float | None:
        """Milliseconds, over all inputs, of the last seconds; of all time if there was nothing."""
        after, before = (s.summed_times[component, what] for s in (self.now, self.before))
        lately = after.since(before)
        return _rounded((lately if lately.counts else after).millis, 4)

    def _edges(self) -> Iterator[Json]:
        for s in self.now.placed.subscriptions:
            key = s.target, EXECUTED, f"{s.source}:{s.stream}"
            after, before = self.now.counts[key], self.before.counts[key]
            yield {
                "from": s.source,
                "stream": s.stream,
                "to": s.target,
                "grouping": s.grouping.type,
                "fields": list(s.grouping.fields),
                "executed": after,
                "executed_per_second": self._rate(after, before),
            }

    def _acker(self, task: int) -> Json:
        now, name = self.now, acker_name(task)
        after, before = (
            sum(s.counts[name, EXECUTED, stream] for stream in ACKER_INPUTS)
            for s in (now, self.before)
        )
        return {
            "task": task,
            "worker": now.placed.plan.worker_of(task),
            "pending": now.levels.get((PENDING_TREES, task), 0),
            EXECUTED: {stream: now.counts[name, EXECUTED, stream] for stream in ACKER_INPUTS},
            "executed_per_second": self._rate(after, before),
            ACKED: now.counts[name, EMITTED, "__ack_ack"],
            FAILED: now.counts[name, EMITTED, "__ack_fail"],
        }

    def _workers(self) -> Iterator[Json]:
        """The workers, or some of them if there are many, and the driver if it hosts executors."""
        plan, busy = self.now.placed.plan, self.now.workers
        workers: Sequence[int] = range(plan.workers)
        if plan.workers > WORKERS_SHOWN:
            present = frozenset(self.now.placed.workers)
            most = sorted(workers, key=lambda w: (w in present, -busy.get(w, 0.0)))
            workers = sorted(most[:WORKERS_SHOWN])
        return map(self._worker, [*workers, *([DRIVER] if plan.pinned else [])])

    def _worker(self, worker: int) -> Json:
        now, plan = self.now, self.now.placed.plan
        process = now.processes.get(worker, Process())
        executors = plan.executors_on(worker)
        return {
            "worker": worker,
            "present": worker == DRIVER or worker in now.placed.workers,
            "busy": round(now.workers.get(worker, 0.0), 4),
            "run_delay": round(now.run_delays.get(worker, 0.0), 4),
            "host": process.host or None,
            "pod": process.pod or None,
            "slot": now.slot_of(worker),
            "pid": process.pid or None,
            "memory_bytes": process.memory_bytes or None,
            "executor_count": len(executors),
            "executors": [
                {
                    "component": e.component,
                    "first": e.first,
                    "last": e.last,
                    "capacity": round(now.executors.get(e.first, 0.0), 4),
                }
                for e in executors[:EXECUTORS_SHOWN]
            ],
        }

    def _stages(self) -> Iterator[Json]:
        """Yield the seconds of each stage, in the mean of the last seconds' batches."""
        now, before = self.now, self.before
        batches = now.batches - before.batches
        for number, components in enumerate(now.placed.plan.stages):
            new, old = (s.stages.get(number, StageSeconds()) for s in (now, before))
            if before.placed.run != now.placed.run:  # of another plan
                old = StageSeconds()
            took = new.since(old)
            yield {
                "stage": number,
                "components": list(components),
                "ms": round(1000 * took.slowest / batches, 3) if batches else None,
                "worker_ms": round(1000 * took.workers / took.runs, 3) if took.runs else None,
            }

    def _batches(self) -> Json:
        now, before = self.now, self.before
        took = {
            phase: now.times["", BATCH, phase].since(before.times["", BATCH, phase])
            for phase in PHASES
        }
        return {
            "count": now.batches,
            "per_second": self._rate(now.batches, before.batches),
            **dict(self._figures("")),
            "last_failure": now.last_failure[:ERROR_CHARACTERS],
            "phases_ms": {phase: _rounded(times.millis, 3) for phase, times in took.items()},
            "stages": list(self._stages()),
            "permits": {spout: now.permit(spout) for spout in now.spouts},
        }


def _lag(lag: Lag | None) -> Json | None:
    return None if lag is None else {"messages": lag.messages, "seconds": lag.seconds}


def _time(now: Snapshot, component: str) -> Json | None:
    """The event time of a component; None: it has none, and no timers."""
    found = now.component_times.get(component)
    if found is None:
        return None
    behind, held = now.behind(component), found.held_by
    return {
        "watermark": _seconds(found.watermark),
        "behind_seconds": None if behind is None else round(behind, 1),
        "held_by": held
        and {
            "component": held.component,
            "part": held.part,
            "newest": _seconds(held.newest),
            "silent_seconds": round(held.silent_seconds, 1),
        },
        "timers": found.timers,
        "due": _seconds(found.due),
        "late": now.late(component),
        "why": found.why,
        "is_stuck": found.is_stuck,
    }


def _seconds(at: int | None) -> float | None:
    return None if at is None else at / 1000


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, one in pairs:
        found[name].append(one)
    return found


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
