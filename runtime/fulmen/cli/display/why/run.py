"""Findings from a driver's figures, or a run's report: what fails, and what is slow. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from fulmen.api.times.event_time import TOO_LATE
from fulmen.api.tuples import TICK_COMPONENT, TICK_STREAM
from fulmen.cli.display.formats import age, count, milliseconds, several
from fulmen.cli.display.run.advice import LETTERS_CURE, not_acked_by, not_anchored_sentence
from fulmen.cli.display.served_figures import (
    ComponentView,
    ErrorView,
    FailureView,
    LatencyView,
    TopologyView,
)
from fulmen.cli.display.why.finding import Finding, cure_of
from fulmen.engine.protocol.figures.statistics import EMITTED, EXECUTED
from fulmen.engine.protocol.placed_topology import UnusedState
from fulmen.engine.totals.counted import TreeCounts
from fulmen.engine.totals.failures import failure_sentence, unread_sentences
from fulmen.engine.totals.kept_state import CURE, kept_sentences
from fulmen.engine.totals.waits import WaitKind
from fulmen.plan.model import DRIVER

BUSY = 0.8
"""A bolt or a worker that is at work for so much of the time has little room for more."""
STARVED = 0.25
"""A worker that has no processor for so much of the time is slow for no reason of its own."""
SKEWED = 2.0
"""A task with so many times its fair share has more to do than the others."""
AHEAD_SECONDS = 60
"""A watermark that is so far ahead of the clock is no matter of clocks that differ a little."""
QUIET_SECONDS = 60
"""A driver that runs for so long has asked its spouts often enough."""
SOME = 100
"""Fewer tuples say nothing about the shares of tasks."""
ERRORS_SHOWN = 5
_TICKS = f"{TICK_COMPONENT}:{TICK_STREAM}"
CURES_OF_WAITS: Mapping[WaitKind, str] = {
    WaitKind.LONG_CALL: "If the call may take that long, raise batchTimeoutSeconds. A source that"
    " may be silent should be asked with a timeout, such as queue.get(timeout=0.1).",
    WaitKind.LEFT_OUT: "Everything else goes on, and it is tried again now and then: see"
    " docs/troubleshooting.md#batches-are-run-again.",
    WaitKind.AWAY: cure_of("ServiceUnavailable"),
    WaitKind.RESTING: "Mend what the last reason says. With spec.maxReplays such messages go to the"
    " dead letters in the end.",
    WaitKind.FULL: "A bolt that collects tuples needs a larger maxSpoutPending, or has to ack them"
    " earlier.",
    WaitKind.HOLD: "It lets go when there is room again: see what that bolt waits for, or give it"
    " more executors.",
    WaitKind.TIME: "See docs/guide/no-results.md#why-does-my-timer-or-window-not-fire.",
}
CURES: Mapping[str, str] = {
    "silent": "It is asked, and returns without a tuple. Look at what its source has to read, and"
    " at what its fields say that it has emitted: `fulmen state get CHECKPOINT SPOUT --kind"
    " fields`.",
    "ahead": "Look for a sender whose clock is ahead, or times of another time zone or unit than"
    " eventTime says. What is further ahead than eventTime.maxAhead moves no watermark.",
    "missing": "Their executors run on the others meanwhile: see why their pods are not ready.",
    "failure": "The traceback is in the log.",
    "unread": "Let a bolt read that stream, such as a sink that keeps them: see"
    " docs/connectors/index.md.",
    "unread late": "Give eventTime of its sources a longer lag, or let a bolt read that stream: see"
    " docs/guide/time.md#how-to-choose-the-lag.",
    "attempts": "See docs/troubleshooting.md#batches-are-run-again.",
    "late": "See docs/troubleshooting.md#trees-time-out.",
    "dead": LETTERS_CURE,
    "head": "With spec.maxReplays such a transaction is given up in the end.",
    "skew": "If a fields grouping has a value that comes often: an Aggregate adds up each worker's"
    " tuples before they are sent if it has `partial: true`; a bolt of yours may get its tuples by"
    " partial-key, with a bolt behind it that merges the two results. Anything else has to be"
    " grouped by another field. See docs/guide/aggregate.md#frequent-keys.",
    "commit": "The checkpoint's store is slow, or much state changes in each batch: see"
    " docs/performance.md#large-keyed-state.",
    "stage": "`fulmen plan FILE` shows which groupings would save a stage.",
    "workers": "Add workers: each has work for one core.",
    "starved": "Its machine has more to do than it has processors, or its pod has reached its"
    " limit: give it more of them, or let topologies make fewer batches (`batchIntervalMillis`).",
}


# ---- what it waits for


def wait_findings(view: TopologyView) -> Iterator[Finding]:
    """Findings about all that holds up its batches or its spouts."""
    told = {wait.sentence: wait for wait in view.waits}
    for wait in told.values():
        yield Finding(wait.sentence, CURES_OF_WAITS[wait.kind])
    yield from _silent(view)
    yield from _ahead(view)
    counts = view.worker_counts
    if counts.present < counts.wanted:
        missing = counts.wanted - counts.present
        yield Finding(f"{missing} of {counts.wanted} workers are missing", CURES["missing"])


def _ahead(view: TopologyView) -> Iterator[Finding]:
    """Sources whose watermark is ahead of the clock: what comes with the right time is late."""
    for one in view.components:
        time = one.time
        if time is None or time.held_by is None or time.held_by.component != one.name:
            continue
        if (ahead := -(time.behind_seconds or 0)) >= AHEAD_SECONDS:
            text = f"the watermark of {one.name!r} is {age(ahead)} ahead of the clock"
            yield Finding(f"{text}, so what comes with the time of now is late", CURES["ahead"])


def _silent(view: TopologyView) -> Iterator[Finding]:
    """Spouts that emit nothing, and nothing of the above says why."""
    is_held = any(wait.kind is WaitKind.HOLD for wait in view.waits)
    if is_held or view.transactions or view.uptime_seconds < QUIET_SECONDS:
        return
    told = {w.component for w in view.waits if w.kind in (WaitKind.LEFT_OUT, WaitKind.AWAY)}
    for spout in view.components:
        if spout.kind == "spout" and not (spout.counts[EMITTED] or spout.name in told):
            since = f"since the driver started, {age(view.uptime_seconds)} ago"
            yield Finding(f"spout {spout.name!r} has emitted nothing {since}", CURES["silent"])


# ---- what fails


class _ReportedFailure(BaseModel):
    reason: str
    count: int


class _ReportedError(BaseModel):
    task: int
    message: str
    count: int


class _ReportedComponent(BaseModel):
    errors: list[_ReportedError] = []
    failures: list[_ReportedFailure] = []
    unread: dict[str, int] = {}


class _ReportedTransactions(BaseModel):
    head: str
    lag: int | None = None


class RunReport(BaseModel):
    """The used part of the report that `fulmen run --report` writes; it has more."""

    topology: str
    batches: int
    seconds: float
    trees: TreeCounts
    latency_ms: LatencyView
    transactions: _ReportedTransactions | None = None
    components: dict[str, _ReportedComponent]
    failed_attempts: int = 0
    kept_state: dict[str, UnusedState] = {}


def failures_of_view(view: TopologyView) -> Iterator[Finding]:
    """Why tuples fail, and what else goes wrong, by what a driver says."""
    yield from _failures(view.failures, view.errors)
    yield from _unread({one.name: one.unread for one in view.unread})
    yield from (Finding(text, CURE) for text in kept_sentences(view.kept_state))
    yield from _ends(view.trees)
    for bolt in view.components:
        if bolt.kind == "bolt":
            yield from _unanswered(view, bolt)
    batches, transactions = view.batches, view.transactions
    yield from _attempts(batches.failed_attempts, batches.last_failure)
    if transactions is not None and transactions.head:
        yield Finding(transactions.head, CURES["head"])


def failures_of_report(report: RunReport) -> Iterator[Finding]:
    """Findings about failures, from the report of a run."""
    failures = [
        FailureView(component=name, count=kind.count, example=kind.reason)
        for name, component in report.components.items()
        for kind in component.failures
    ]
    errors = [
        ErrorView(component=name, **error.model_dump())
        for name, component in report.components.items()
        for error in component.errors
    ]
    yield from _failures(failures, errors)
    yield from _unread({name: one.unread for name, one in report.components.items()})
    yield from (Finding(text, CURE) for text in kept_sentences(report.kept_state))
    yield from _ends(report.trees)
    yield from _attempts(report.failed_attempts, "")
    if report.transactions is not None and report.transactions.head:
        yield Finding(report.transactions.head, CURES["head"])


def _failures(failures: Sequence[FailureView], errors: Sequence[ErrorView]) -> Iterator[Finding]:
    """Each kind of failure, and errors that have failed nothing."""
    for one in sorted(failures, key=lambda one: -one.count):
        text = failure_sentence(one.component, one.count, one.example)
        yield Finding(text, CURES["failure"])
    told = [one.example for one in failures]
    rest = [
        error
        for error in errors
        if not any(error.message.removeprefix("failed: ") in example for example in told)
    ]
    for error in rest[:ERRORS_SHOWN]:
        times = f" ({count(error.count)} times)" if error.count > 1 else ""
        yield Finding(f"{error.component}, task {error.task}: {error.message}{times}")


def _unread(numbers: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    for component, of_streams in numbers.items():
        for stream, number in of_streams.items():
            (text,) = unread_sentences(component, {stream: number})
            yield Finding(text, CURES["unread late" if stream == TOO_LATE else "unread"])


def _ends(trees: TreeCounts) -> Iterator[Finding]:
    if trees.timed_out:
        yield Finding(f"{several(trees.timed_out, 'tree')} timed out", CURES["late"])
    if trees.dead_lettered:
        text = (
            f"{several(trees.dead_lettered, 'message')} went to the dead letters after maxReplays"
        )
        yield Finding(f"{text} failures", CURES["dead"])
    if trees.dropped:
        text = f"{several(trees.dropped, 'tuple')} dropped, since they kill their workers"
        yield Finding(text, CURES["dead"])


def _unanswered(view: TopologyView, bolt: ComponentView) -> Iterator[Finding]:
    """A bolt that forgets to ack, or to anchor."""
    inputs = [one for one in bolt.inputs if one.source != _TICKS]
    executed, failed = sum(i.executed for i in inputs), sum(i.failed for i in inputs)
    if view.trees.timed_out:
        acked = sum(i.acked for i in inputs)
        yield from map(Finding, not_acked_by(bolt.name, executed, acked, failed))
    has_ackers = any(component.kind == "acker" for component in view.components)
    if failed and has_ackers and not (view.trees.failed or view.trees.timed_out):
        yield Finding(not_anchored_sentence(bolt.name, failed))


def _attempts(number: int, last: str) -> Iterator[Finding]:
    if number:
        text = f"{several(number, 'attempt')} at batches came to nothing, and the batches ran again"
        yield Finding(f"{text}; the last one: {last}" if last else text, CURES["attempts"])


# ---- where the time goes


def time_findings(view: TopologyView) -> Iterator[Finding]:
    """How fast it is, what it is behind, and what has the most to do."""
    yield Finding(_speed(view))
    for spout in view.components:
        if spout.lag is not None and (behind := _behind(spout)):
            yield Finding(f"spout {spout.name!r} is behind its source: {behind}")
    yield from _busiest(view)
    for component in view.components:
        yield from _skew(component)
    yield from _batches(view)


def latency_of_report(report: RunReport) -> Iterator[Finding]:
    """Say how long trees, or transactions, took."""
    latency = report.latency_ms
    if latency.p50 is not None:
        p50, p99 = milliseconds(latency.p50), milliseconds(latency.p99)
        seconds = age(report.seconds)
        yield Finding(f"complete latency was {p50} (p50) and {p99} (p99), in {seconds}")
    if report.transactions is not None and report.transactions.lag:
        text = f"{several(report.transactions.lag, 'message')} of the source"
        yield Finding(f"{text} are in no transaction yet")


def _speed(view: TopologyView) -> str:
    transactions, latency = view.transactions, view.complete_latency_ms
    if transactions is not None:
        speed = f"{count(transactions.committed_per_second)} transactions committed per second"
    else:
        speed = f"{count(view.acked_per_second)} trees acked per second"
    if latency.p50 is None:
        return speed
    p50, p99 = milliseconds(latency.p50), milliseconds(latency.p99)
    return f"{speed}, complete latency {p50} (p50) and {p99} (p99)"


def _behind(spout: ComponentView) -> str:
    assert spout.lag is not None
    parts = [] if not spout.lag.messages else [f"{several(spout.lag.messages, 'message')} to read"]
    parts += [] if not spout.lag.seconds else [f"the oldest is {age(spout.lag.seconds)} old"]
    return ", ".join(parts)


def _busiest(view: TopologyView) -> Iterator[Finding]:
    """The bolt with the highest capacity, and workers without room for more."""
    bolts = [c for c in view.components if c.kind == "bolt" and c.capacity]
    if bolts:
        bolt = max(bolts, key=lambda bolt: bolt.capacity or 0.0)
        share = f"{100 * (bolt.capacity or 0.0):.0f} % of the time"
        took = f", and takes {milliseconds(bolt.execute_ms)} for a tuple"
        text = f"bolt {bolt.name!r} is the busiest: one of its executors is at work for {share}"
        is_busy = (bolt.capacity or 0.0) >= BUSY
        yield Finding(text + took, _more_executors(bolt) if is_busy else "")
    workers = [worker for worker in view.workers if worker.present and worker.worker != DRIVER]
    longest = max((worker.run_delay for worker in workers), default=0.0)
    if longest >= STARVED:
        share = f"{100 * longest:.0f} % of the time"
        text = f"a worker is ready to run and has no processor for {share}"
        yield Finding(text, CURES["starved"])
    elif workers and all(worker.busy >= BUSY for worker in workers):
        least = min(worker.busy for worker in workers)
        text = f"all workers are at work for {100 * least:.0f} % of the time or more"
        yield Finding(text, CURES["workers"])


def _more_executors(bolt: ComponentView) -> str:
    if bolt.executors < bolt.tasks:
        return (
            f"Raise its parallelism, which is {bolt.executors}: its {bolt.tasks} tasks may be on as"
            " many executors."
        )
    tasks = "task" if bolt.tasks == 1 else "tasks"
    return (
        f"It has as many executors as its {bolt.tasks} {tasks}: make it cheaper, or give it more"
        " numTasks. If it waits for something outside, give it blocking: true."
    )


def _skew(component: ComponentView) -> Iterator[Finding]:
    """A task of a bolt that gets far more than the others."""
    busiest = component.busiest_task
    if component.kind != "bolt" or busiest is None or component.tasks < 2:
        return
    fair = 1 / component.tasks
    # of two tasks none can have more than twice its share
    limit = min(SKEWED * fair, 1 - fair / SKEWED)
    if component.counts[EXECUTED] >= SOME and busiest.share >= limit:
        yield Finding(
            f"task {busiest.task} of bolt {component.name!r} gets {100 * busiest.share:.0f} % of"
            f" its tuples; a fair share of its {component.tasks} tasks would be {100 * fair:.0f} %",
            CURES["skew"],
        )


def _batches(view: TopologyView) -> Iterator[Finding]:
    """The slowest stage of a batch, and commits that take longer than the work."""
    stages = [stage for stage in view.batches.stages if stage.ms]
    run, commit = (view.batches.phases_ms.get(phase) or 0.0 for phase in ("run", "commit"))
    if len(stages) > 1:
        slowest = max(stages, key=lambda stage: stage.ms or 0.0)
        total = sum(stage.ms or 0.0 for stage in stages)
        text = f"the slowest stage of a batch is that of {', '.join(slowest.components)}"
        took = f"{milliseconds(slowest.ms)} of {milliseconds(total)}"
        yield Finding(f"{text}: {took}", CURES["stage"])
    if commit > run > 0:
        text = f"a commit takes {milliseconds(commit)}, and the batch itself {milliseconds(run)}"
        yield Finding(text, CURES["commit"])
