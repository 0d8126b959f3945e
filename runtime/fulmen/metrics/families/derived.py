"""Prometheus metrics of what follows from figures, from the plan, or from what waits.

A figure that is measured is declared as such, and has its metric by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fulmen.engine.batches.transactions import Phase
from fulmen.engine.protocol.figures.statistics import (
    CRASHED,
    EMITTED,
    EXECUTED,
    FAILED,
    RESULTS_ACKED,
    RESULTS_FAILED,
    TIMED_OUT,
    acker_name,
)
from fulmen.engine.totals.failures import resting_by_component
from fulmen.engine.totals.transaction_totals import AttemptOutcome, TransactionTotals
from fulmen.metrics.snapshot import ACKER_INPUTS, Snapshot, source_and_stream

INPUT = ("component", "source_component", "source_stream")
BY_FAIL, BY_TIMEOUT, BY_CRASH = "failed", "timeout", "crashed worker"

Rows = Mapping[Any, float]
"""The value of the label, or the values of all of them -> the sample."""


def derived_families(now: Snapshot) -> Iterator[Metric]:
    """Yield the families, with the values of that moment."""
    yield from _ends(now)
    yield from _shape(now)
    yield from _workers(now)
    yield from _waits(now)
    yield from _times(now)
    if now.transactions is not None:
        yield from _transactions(now, now.transactions)


def _counter(now: Snapshot, name: str, text: str, labels: Iterable[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(f"fulmen_{name}", text, labels=("topology", *labels))
    for values, value in rows.items():
        family.add_metric((now.name, *_tuple(values)), value)
    return family


def _gauge(now: Snapshot, name: str, text: str, labels: Iterable[str], rows: Rows) -> Metric:
    family = GaugeMetricFamily(f"fulmen_{name}", text, labels=("topology", *labels))
    for values, value in rows.items():
        family.add_metric((now.name, *_tuple(values)), value)
    return family


def _tuple(values: str | tuple[str, ...]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else values


def _ends(now: Snapshot) -> Iterator[Metric]:
    """Families of ended trees, and of tuples that failed."""
    failed = {
        (c, *source_and_stream(of), BY_FAIL): now.counts[c, FAILED, of] for c, of in now.inputs
    }
    for spout in now.spouts:
        late, crashed = now.counts[spout, TIMED_OUT, ""], now.counts[spout, CRASHED, ""]
        failed[spout, "", "", BY_FAIL] = now.counts[spout, FAILED, ""] - late - crashed
        failed[spout, "", "", BY_TIMEOUT] = late
        failed[spout, "", "", BY_CRASH] = crashed
    text = "Bolts: inputs that were failed. Spouts: tuple trees that failed, and why."
    yield _counter(now, "failed", text, (*INPUT, "reason"), failed)
    ackers = {str(task): acker_name(task) for task in now.ackers}
    text = "Messages that an acker task executed: one for each root of a tuple."
    executed = {(t, s): now.counts[a, EXECUTED, s] for t, a in ackers.items() for s in ACKER_INPUTS}
    yield _counter(now, "acker_executed", text, ("task", "stream"), executed)
    for name, stream, text in (
        ("acker_trees_acked", "__ack_ack", "Trees that an acker task saw acked entirely."),
        ("acker_trees_failed", "__ack_fail", "Trees that an acker task saw fail or time out."),
    ):
        ended = {task: now.counts[acker, EMITTED, stream] for task, acker in ackers.items()}
        yield _counter(now, name, text, ("task",), ended)
    trees = {}
    for bolt in now.result_bolts:
        late = now.counts[bolt, TIMED_OUT, ""]
        trees[bolt, "acked"] = now.counts[bolt, RESULTS_ACKED, ""]
        trees[bolt, "failed"] = now.counts[bolt, RESULTS_FAILED, ""] - late
        trees[bolt, "timed_out"] = late
    text = "Tuple trees of results that have ended, and how: a result that failed has another one."
    yield _counter(now, "result_trees", text, ("component", "outcome"), trees)
    text = "Tuples that failed, by the kind of reason: without its values, 20 of a component."
    kinds = {(c, kind): one.count for c, of in now.failures.items() for kind, one in of.items()}
    yield _counter(now, "failure_reasons", text, ("component", "reason"), kinds)


def _shape(now: Snapshot) -> Iterator[Metric]:
    """Families of the topology's parts and limits."""
    plan, of = now.placed.plan, ("component",)
    yield _gauge(now, "workers", "Workers that it asks for.", (), {(): plan.workers})
    text = "Workers that are there."
    yield _gauge(now, "workers_present", text, (), {(): len(now.placed.workers)})
    executors = {c: len(now.executors_of[c]) for c in now.components}
    yield _gauge(now, "executors", "Executors of the component.", of, executors)
    tasks = {c: len(plan.tasks(c)) for c in now.components}
    yield _gauge(now, "tasks", "Tasks of the component.", of, tasks)
    text = "Share of the last 10 minutes that the busiest executor of the component was executing."
    capacity = {c: now.capacity(c) for c in now.components if c not in now.placed.sources}
    yield _gauge(now, "capacity_ratio", text, of, capacity)
    text = "Tuples that all tasks of the spout together might emit in the newest batch."
    permits = {spout: now.permit(spout) for spout in now.spouts}
    yield _gauge(now, "permit_tuples", text, of, permits)
    text = "Whether spouts may emit: 1, or 0 if it is inactive or drains."
    yield _gauge(now, "active", text, (), {(): now.is_active})
    text = "Seconds since the driver started; all counters are of this time."
    yield _gauge(now, "uptime_seconds", text, (), {(): now.uptime})


def _workers(now: Snapshot) -> Iterator[Metric]:
    """Families of workers: where each is, and what it needs."""
    processes = {str(worker): now.processes[worker] for worker in sorted(now.processes)}
    text = "Where the worker is; always 1. On Kubernetes the host is the pod."
    places = {(w, p.host, slot_label(now.slot_of(int(w)))): 1 for w, p in processes.items()}
    yield _gauge(now, "worker_info", text, ("worker", "host", "slot"), places)
    text = "Share of the last 10 seconds that the worker was at work."
    shares = {w: now.workers.get(int(w), 0.0) for w in processes}
    yield _gauge(now, "worker_busy_ratio", text, ("worker",), shares)
    text = "Share of the last 10 seconds that the worker was ready to run and had no processor."
    shares = {w: now.run_delays.get(int(w), 0.0) for w in processes}
    yield _gauge(now, "worker_run_delay_ratio", text, ("worker",), shares)
    text = "Resident memory of the worker's process."
    memory = {w: p.memory_bytes for w, p in processes.items() if p.memory_bytes}
    yield _gauge(now, "worker_memory_bytes", text, ("worker",), memory)


def _waits(now: Snapshot) -> Iterator[Metric]:
    """Families of waits: how far spouts are behind, and what holds up batches or spouts."""
    resting, of = resting_by_component(now.resting, now.placed.plan), ("component",)
    text = "Messages of a spout that have failed and come again after a pause."
    rests = {c: resting[c].messages if c in resting else 0 for c in now.spouts}
    yield _gauge(now, "spout_resting_messages", text, of, rests)
    text = "Results that have failed and come again after a pause."
    rests = {c: resting[c].messages if c in resting else 0 for c in now.result_bolts}
    yield _gauge(now, "result_resting", text, of, rests)
    lags = {
        (now.placed.plan.component_of(task), str(task)): lag
        for task, lag in sorted(now.waits.lags.items())
    }
    text = "Messages of its source that a spout task has not emitted yet, as the spout says."
    messages = {of: lag.messages for of, lag in lags.items() if lag.messages is not None}
    yield _gauge(now, "spout_lag_messages", text, ("component", "task"), messages)
    text = "Age of the oldest message that a spout task has not emitted yet, as the spout says."
    seconds = {of: lag.seconds for of, lag in lags.items() if lag.seconds is not None}
    yield _gauge(now, "spout_lag_seconds", text, ("component", "task"), seconds)
    text = "For how long a service has been away that a component needs."
    away = {(one.service, one.component): now.away_seconds(one) for one in now.waits.away.values()}
    yield _gauge(now, "service_away_seconds", text, ("service", "component"), away)
    text = "Tasks of a bolt that hold the spouts, because a buffer is full."
    holding = {component: len(tasks) for component, tasks in now.holding.items()}
    yield _gauge(now, "holding_tasks", text, of, holding)


def _times(now: Snapshot) -> Iterator[Metric]:
    """Families of event time, of each component that declares or receives it."""
    times, of = now.component_times, ("component",)
    text = "The component's watermark, in seconds since 1970."
    marks = {c: at.watermark / 1000 for c, at in times.items() if at.watermark is not None}
    yield _gauge(now, "watermark_timestamp_seconds", text, of, marks)
    text = "How long the part that holds the component's watermark has had no tuple."
    silent = {
        (c, at.held_by.part): at.held_by.silent_seconds
        for c, at in times.items()
        if at.held_by is not None and at.held_by.component == c and at.held_by.part is not None
    }
    yield _gauge(now, "watermark_silent_seconds", text, ("component", "part"), silent)
    timers = {c: at.timers for c, at in times.items() if c not in now.placed.sources}
    yield _gauge(now, "timers", "Timers that are set.", of, timers)


def _transactions(now: Snapshot, totals: TransactionTotals) -> Iterator[Metric]:
    """Families of transactions; only transactional topologies have these."""
    text = "The last transaction that is committed: all up to it are. 0: none is."
    yield _gauge(now, "transaction_committed_txid", text, (), {(): totals.committed})
    text = "Attempts of transactions that are on their way."
    active = {str(phase): totals.active_in(phase) for phase in Phase}
    yield _gauge(now, "transactions_active", text, ("phase",), active)
    text = "Attempts of transactions that have ended, and how."
    ended = {str(outcome): totals.attempts[outcome] for outcome in AttemptOutcome}
    yield _counter(now, "transaction_attempts", text, ("outcome",), ended)
    text = "Seconds of attempts that were committed, in each phase and in all of them."
    phases = HistogramMetricFamily("fulmen_transaction_seconds", text, labels=("topology", "phase"))
    for phase, times in totals.phases.items():
        phases.add_metric((now.name, phase), times.buckets(), times.seconds)
    yield phases
    text = "Attempts of the first transaction that is not committed that have failed."
    yield _gauge(now, "transaction_head_failures", text, (), {(): totals.head_failures})
    text = "Messages of the source that are in no transaction yet."
    yield _gauge(now, "source_lag_messages", text, ("component",), totals.lags)


def slot_label(slot: int | None) -> str:
    """The value of a label: "" where workers have no slots."""
    return "" if slot is None else str(slot)
