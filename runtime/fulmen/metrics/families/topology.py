"""Storm's statistics as Prometheus metrics, read from the driver's totals when they are scraped.

`docs/metrics.md` describes each of them; a test compares it with what is scraped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fulmen.engine.batches.transactions import Phase
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    BATCH,
    COMPLETE,
    CRASHED,
    DEAD_LETTERED,
    DROPPED,
    EMITTED,
    EXECUTE,
    EXECUTED,
    FAILED,
    PROCESS,
    REPLAYED,
    TIMED_OUT,
    TRANSFERRED,
    TimeHistogram,
    acker_name,
)
from fulmen.engine.totals.failures import resting_by_component
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.transaction_totals import AttemptOutcome, TransactionTotals
from fulmen.metrics.families.authors import author_families, waiting_families
from fulmen.metrics.families.event_time import time_families
from fulmen.metrics.families.results import result_families
from fulmen.metrics.snapshot import ACKER_INPUTS, Snapshot, source_and_stream
from fulmen.topology.resource.spec import ACKER

SOURCE = ("source_component", "source_stream")
PHASES = ("run", "commit", "wait")
BY_FAIL, BY_TIMEOUT, BY_CRASH = "failed", "timeout", "crashed worker"
_PER_CHUNK = "Timed once per chunk of tuples: each tuple counts with the mean of its chunk."

Rows = Iterable[tuple[Sequence[str], float]]
"""(label values, value) of each sample of a family."""


class TopologyCollector(Collector):
    """Makes the metrics of one topology. A scrape sees all of a batch or nothing of it."""

    def __init__(self, totals: Callable[[], Totals | None]) -> None:
        """`totals` gives those of the driver; None as long as it has not started."""
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """All families."""
        totals = self._totals()
        if totals is not None:
            yield from families(Snapshot.of(totals))

    def describe(self) -> Iterable[Metric]:
        """Nothing: so that registering it asks for no scrape."""
        return ()


def families(now: Snapshot) -> Iterator[Metric]:
    """Every family, with the values of that moment."""
    yield from _tuples(now)
    yield from _latencies(now)
    yield from _trees(now)
    yield from result_families(now)
    if now.transactions is not None:
        yield from _transactions(now, now.transactions)
    yield from _batches(now)
    yield from _troubles(now)
    yield from _shape(now)
    yield from _workers(now)
    yield from waiting_families(now)
    yield from time_families(now)
    yield from author_families(now)


def _counter(
    now: Snapshot, name: str, documentation: str, labels: Sequence[str], rows: Rows
) -> Metric:
    family = CounterMetricFamily(f"fulmen_{name}", documentation, labels=("topology", *labels))
    for values, value in rows:
        family.add_metric((now.name, *values), value)
    return family


def _gauge(
    now: Snapshot, name: str, documentation: str, labels: Sequence[str], rows: Rows
) -> Metric:
    family = GaugeMetricFamily(f"fulmen_{name}", documentation, labels=("topology", *labels))
    for values, value in rows:
        family.add_metric((now.name, *values), value)
    return family


def _histogram(
    now: Snapshot,
    name: str,
    documentation: str,
    labels: Sequence[str],
    rows: Iterable[tuple[Sequence[str], TimeHistogram]],
) -> Metric:
    family = HistogramMetricFamily(
        f"fulmen_{name}_seconds", documentation, labels=("topology", *labels)
    )
    for values, histogram in rows:
        buckets = [(_bound(bound), float(n)) for bound, n in histogram.cumulative()]
        family.add_metric((now.name, *values), buckets, histogram.seconds)
    return family


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else str(seconds)


def _tuples(now: Snapshot) -> Iterator[Metric]:
    """What spouts and bolts did to tuples."""
    labels = ("component", "stream")
    streams, inputs = list(now.streams()), list(now.inputs())
    emitted = [(s, now.counts[s[0], EMITTED, s[1]]) for s in streams]
    yield _counter(now, "emitted", "Calls of emit, whatever the number of copies.", labels, emitted)
    copies = [(s, now.counts[s[0], TRANSFERRED, s[1]]) for s in streams]
    yield _counter(now, "transferred", "Copies of tuples sent to tasks.", labels, copies)
    executed = [((c, *source_and_stream(of)), now.counts[c, EXECUTED, of]) for c, of in inputs]
    yield _counter(now, "executed", "Calls of execute.", ("component", *SOURCE), executed)
    acked = [((c, *source_and_stream(of)), now.counts[c, ACKED, of]) for c, of in inputs]
    acked += [((spout, "", ""), now.counts[spout, ACKED, ""]) for spout in now.spouts]
    text = "Bolts: inputs that were acked. Spouts: tuple trees that were acked entirely."
    yield _counter(now, "acked", text, ("component", *SOURCE), acked)
    text = "Bolts: inputs that were failed. Spouts: tuple trees that failed, and why."
    yield _counter(now, "failed", text, ("component", *SOURCE, "reason"), _failed(now, inputs))


def _failed(now: Snapshot, inputs: Iterable[tuple[str, str]]) -> Rows:
    for component, of in inputs:
        failed = now.counts[component, FAILED, of]
        yield (component, *source_and_stream(of), BY_FAIL), failed
    for spout in now.spouts:
        late, crashed = now.counts[spout, TIMED_OUT, ""], now.counts[spout, CRASHED, ""]
        yield (spout, "", "", BY_FAIL), now.counts[spout, FAILED, ""] - late - crashed
        yield (spout, "", "", BY_TIMEOUT), late
        yield (spout, "", "", BY_CRASH), crashed


def _latencies(now: Snapshot) -> Iterator[Metric]:
    """How long tuples and trees took, and how busy that made executors."""
    labels, inputs = ("component", *SOURCE), list(now.inputs())
    for name, what, text in (
        ("execute_latency", EXECUTE, "Seconds inside of execute."),
        ("process_latency", PROCESS, "Seconds from the start of execute to the ack."),
    ):
        rows = [((c, *source_and_stream(of)), now.times[c, what, of]) for c, of in inputs]
        yield _histogram(now, name, f"{text} {_PER_CHUNK}", labels, rows)
    yield _histogram(
        now,
        "complete_latency",
        "Seconds from an emit at which a tree began until the batch in which it was acked counted.",
        ("component",),
        [((c,), now.times[c, COMPLETE, ""]) for c in (*now.spouts, *now.result_bolts)],
    )
    yield _gauge(
        now,
        "capacity_ratio",
        "Share of the last 10 minutes that the busiest executor of the component was executing.",
        ("component",),
        [((c,), now.capacity(c)) for c in now.components if c not in now.placed.sources],
    )


def _trees(now: Snapshot) -> Iterator[Metric]:
    """Pending trees, and what acker tasks do about them."""
    names = {task: acker_name(task) for task in now.ackers}
    yield _gauge(
        now,
        "acker_pending_trees",
        "Tuple trees that an acker task keeps.",
        ("task",),
        [((str(task),), now.pending_trees.get(task, 0)) for task in names],
    )
    yield _counter(
        now,
        "acker_executed",
        "Messages that an acker task executed: one for each root of a tuple.",
        ("task", "stream"),
        [
            ((str(task), stream), now.counts[name, EXECUTED, stream])
            for task, name in names.items()
            for stream in ACKER_INPUTS
        ],
    )
    for name, stream, text in (
        ("acker_trees_acked", "__ack_ack", "Trees that an acker task saw acked entirely."),
        ("acker_trees_failed", "__ack_fail", "Trees that an acker task saw fail or time out."),
    ):
        rows = [((str(t),), now.counts[of, EMITTED, stream]) for t, of in names.items()]
        yield _counter(now, name, text, ("task",), rows)
    yield _gauge(
        now,
        "spout_pending_messages",
        "Messages of a spout that are not acked or failed, or that it was not told of yet.",
        ("component",),
        [((spout,), float(now.pending(spout))) for spout in now.spouts],
    )


def _transactions(now: Snapshot, totals: TransactionTotals) -> Iterator[Metric]:
    """What became of transactions; only transactional topologies have these."""
    text = "The last transaction that is committed: all up to it are. 0: none is."
    rows: list[tuple[Sequence[str], float]] = [((), float(totals.committed))]
    yield _gauge(now, "transaction_committed_txid", text, (), rows)
    text = "Attempts of transactions that are on their way."
    rows = [((phase,), float(totals.active_in(phase))) for phase in Phase]
    yield _gauge(now, "transactions_active", text, ("phase",), rows)
    text = "Attempts of transactions that have ended, and how."
    rows = [((outcome,), float(totals.attempts[outcome])) for outcome in AttemptOutcome]
    yield _counter(now, "transaction_attempts", text, ("outcome",), rows)
    yield _histogram(
        now,
        "transaction",
        "Seconds of attempts that were committed, in each phase and in all of them.",
        ("phase",),
        [((phase,), histogram) for phase, histogram in totals.phases.items()],
    )
    text = "Attempts of the first transaction that is not committed that have failed."
    rows = [((), float(totals.head_failures))]
    yield _gauge(now, "transaction_head_failures", text, (), rows)
    text = "Messages of the source that are in no transaction yet."
    lag = [((source,), float(messages)) for source, messages in totals.lags.items()]
    yield _gauge(now, "source_lag_messages", text, ("component",), lag)


def _batches(now: Snapshot) -> Iterator[Metric]:
    """The batches, and what they cost."""
    yield _counter(now, "batches", "Batches that counted.", (), [((), now.batches)])
    text = "Attempts of batches that came to nothing and were repeated."
    yield _counter(now, "failed_attempts", text, (), [((), now.failed_attempts)])
    yield _histogram(
        now,
        "batch",
        "Seconds that batches took to run, to be committed, and to wait for since the one before.",
        ("phase",),
        [((phase,), now.times["", BATCH, phase]) for phase in PHASES],
    )
    text = "Tuples that all tasks of the spout together might emit in the newest batch."
    permits = [((spout,), now.permit(spout)) for spout in now.spouts]
    yield _gauge(now, "permit_tuples", text, ("component",), permits)
    commits = now.times["", BATCH, "commit"].seconds
    text = "Bytes written to the checkpoint, in commits and in state files beside them."
    rows = [(("commit",), float(now.commit_bytes)), (("state",), float(now.state_bytes))]
    yield _counter(now, "checkpoint_bytes", text, ("part",), rows)
    text = "Seconds of commits; and of all workers together, to pickle and write state."
    rows = [(("commit",), commits), (("state",), now.state_seconds)]
    yield _counter(now, "checkpoint_seconds", text, ("part",), rows)


def _troubles(now: Snapshot) -> Iterator[Metric]:
    """What went wrong."""
    for name, text, of in (
        ("replayed", "Messages and results that were emitted again after they failed.", REPLAYED),
        ("dead_lettered", "Messages and results given up after maxReplays.", DEAD_LETTERED),
        ("dropped", "Tuples dropped because they kill their workers.", DROPPED),
    ):
        names = [*now.spouts, *(now.result_bolts if of != DROPPED else ())]
        rows = [((c,), now.counts[c, of, ""]) for c in names]
        yield _counter(now, name, text, ("component",), rows)
    text = "Tuples that failed, by the kind of reason: without its values, 20 of a component."
    kinds = [
        ((component, kind), float(reason.count))
        for component, of in now.failures.items()
        for kind, reason in of.items()
    ]
    yield _counter(now, "failure_reasons", text, ("component", "reason"), kinds)
    resting = resting_by_component(now.resting, now.placed.plan)
    text = "Messages of a spout that have failed and come again after a pause."
    rests = [((s,), float(resting[s].messages if s in resting else 0)) for s in now.spouts]
    yield _gauge(now, "spout_resting_messages", text, ("component",), rests)
    components = list(now.components)
    text = "Exceptions in the component's code, and errors that it reported."
    rows = [((c,), now.error_counts[c]) for c in components if c != ACKER]
    yield _counter(now, "errors", text, ("component",), rows)
    text = "Times that a task was restored from the checkpoint."
    rows = [((c,), now.restored_tasks[c]) for c in components]
    yield _counter(now, "restored_tasks", text, ("component",), rows)


def _shape(now: Snapshot) -> Iterator[Metric]:
    """What the topology consists of."""
    plan = now.placed.plan
    yield _gauge(now, "workers", "Workers that it asks for.", (), [((), plan.workers)])
    text = "Workers that are there."
    yield _gauge(now, "workers_present", text, (), [((), len(now.placed.workers))])
    rows = [((c,), float(len(now.executors_of[c]))) for c in now.components]
    yield _gauge(now, "executors", "Executors of the component.", ("component",), rows)
    rows = [((c,), float(len(plan.tasks(c)))) for c in now.components]
    yield _gauge(now, "tasks", "Tasks of the component.", ("component",), rows)
    active = now.header is not None and now.header.active
    text = "Whether spouts may emit: 1, or 0 if it is inactive or drains."
    yield _gauge(now, "active", text, (), [((), float(active))])
    text = "Seconds since the driver started; all counters are of this time."
    yield _gauge(now, "uptime_seconds", text, (), [((), now.uptime)])


def _workers(now: Snapshot) -> Iterator[Metric]:
    """Where workers are, and what each of them needs."""
    processes = sorted(now.processes.items())
    text = "Where the worker is; always 1. On Kubernetes the host is the pod."
    rows = [
        ((str(worker), process.host, slot_label(now.slot_of(worker))), 1.0)
        for worker, process in processes
    ]
    yield _gauge(now, "worker_info", text, ("worker", "host", "slot"), rows)
    text = "Share of the last 10 seconds that the worker was at work."
    shares = [((str(worker),), now.workers.get(worker, 0.0)) for worker, _ in processes]
    yield _gauge(now, "worker_busy_ratio", text, ("worker",), shares)
    text = "Share of the last 10 seconds that the worker was ready to run and had no processor."
    shares = [((str(worker),), now.run_delays.get(worker, 0.0)) for worker, _ in processes]
    yield _gauge(now, "worker_run_delay_ratio", text, ("worker",), shares)
    text = "Resident memory of the worker's process."
    memory = [((str(w),), float(p.memory_bytes)) for w, p in processes if p.memory_bytes]
    yield _gauge(now, "worker_memory_bytes", text, ("worker",), memory)


def slot_label(slot: int | None) -> str:
    """The value of a label: "" where workers have no slots."""
    return "" if slot is None else str(slot)
