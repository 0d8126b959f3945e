"""The summary that each stage sends to the driver at the end of a batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fulmen.api.signals import Lag, Sample, Signals
from fulmen.checkpoint import Update
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.failure_reasons import FailureReasons
from fulmen.engine.protocol.figures.statistics import (
    ChunkTimes,
    CountKey,
    LevelKey,
    TaskSums,
    count_step,
)
from fulmen.engine.protocol.figures.taps import Tapped
from fulmen.engine.protocol.figures.trace_notes import TraceNotes
from fulmen.engine.protocol.letter_orders import LetterKey
from fulmen.engine.protocol.read_ahead import AheadReport
from fulmen.engine.protocol.transaction_work import FailedAttempt
from fulmen.engine.tuples.chunk import Ranges
from fulmen.secrets import masked
from fulmen.visible import visible, visible_lines


@dataclass(frozen=True)
class ErrorReport:
    """Something that went wrong in an author's code, or a warning about it.

    Attributes:
        component: The component that it happened in.
        task: The task that it happened in.
        message: What happened, in one line.
        traceback: The stack of the author's code, if there is one.
        fatal: `onError: crash`, or an error that the topology can't go on after.
        more: How many errors followed it in the same task and batch that are not told.
        is_warning: Nothing has gone wrong yet: it is told, and not counted.
        is_failure: Nothing went wrong in the component: it has failed a tuple, and this is why.
        service: What is away, if the error is about that and says so.
        is_outside: `open` or `prepare` has refused what is outside, such as a table: it may have
            been right before, and be mended.
    """

    component: str
    task: int
    message: str
    traceback: str = ""
    fatal: bool = False
    more: int = 0
    is_warning: bool = False
    is_failure: bool = False
    service: str = ""
    is_outside: bool = False

    def __post_init__(self) -> None:
        """Show no secrets: whoever makes a report is in the process that knows them."""
        object.__setattr__(self, "message", visible(masked(self.message)))
        object.__setattr__(self, "traceback", visible_lines(masked(self.traceback)))
        object.__setattr__(self, "service", visible(self.service))


class Resting(NamedTuple):
    """Messages of a spout task that have failed and come again after a pause. Or results of a bolt.

    Attributes:
        messages: How many there are.
        due: When the first of them comes again, by the batch clock.
        failures: How many times the one has failed that has failed most.
        reason: Why the last one failed.
    """

    messages: int
    due: float
    failures: int
    reason: str


class PendingTimers(NamedTuple):
    """The timers of a task.

    Attributes:
        event: When the next one of event time is due, in milliseconds; None: there is none.
        clock: The same by the batch clock, in seconds.
        number: How many there are.
        are_many: Whether so many results may be due by event time at once that a batch does not
            bring all of them.
    """

    event: int | None
    clock: float | None
    number: int = 0
    are_many: bool = False


@dataclass(kw_only=True)
class Measured:
    """Counts, times and notes of the tasks of a stage in a batch.

    Attributes:
        counts: (component, figure, part) -> number: it is added to those of other batches.
        levels: (figure, task) -> number: replaces what the task has said before.
        times: How long tuples took to be executed and acked.
        busy: First task of an executor -> seconds in the author's code.
        tasks: What each task did.
        failures: Why tuples failed.
        event_times: (task, part of its source) -> the newest event time that it emitted. The part
            is "" if none is known.
        traces: What was noted of traced trees; None: none is traced.
    """

    counts: Counter[CountKey] = field(default_factory=Counter)
    levels: dict[LevelKey, int] = field(default_factory=dict)
    times: ChunkTimes = field(default_factory=dict)
    busy: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    tasks: TaskSums = field(default_factory=dict)
    failures: FailureReasons = field(default_factory=FailureReasons)
    event_times: dict[tuple[int, str], int] = field(default_factory=dict)
    traces: TraceNotes | None = None


@dataclass
class Summary(Measured):
    """The work of one stage on one worker in one batch.

    Attributes:
        stage: Which; -1 for pinned spouts.
        partition: The worker; -1 for the driver.
        updates: Task key -> journal -> what the commit is to hold.
        with_transaction: More `updates`, if the batch commits its transaction; else dropped.
        acked: Origin -> ranges of sequence numbers whose trees were acked.
        failed: (origin, sequence number, reason) of trees that ended otherwise.
        born: (wall clock second of the emit, number, origin) of acked trees: for the complete
            latency.
        errors: Errors of components.
        restored: Keys of tasks that were restored from the checkpoint.
        restore_seconds: How long making these tasks took, with `open` and `prepare`.
        exhausted: Spout task -> whether it says that there will never be another tuple. None: it
            does not know its end.
        did_something: Whether a spout said that it did something, though it emitted nothing.
        has_raised: Whether the `next_tuple` of a spout raised, so that nobody knows what more there
            is. Not StopIteration: iterators say so that they have ended.
        has_more: Whether a spout's turn ended before it had nothing more to emit.
        resting: Task with messages or results -> what has failed and comes again after a pause.
        owed: Origin -> what was to be delivered and was not, because the batch is to be small.
        emitted: Tuples that spouts emitted.
        process: Which process this is.
        seconds: How long the stage ran.
        cpu_seconds: CPU seconds of this process meanwhile, without those for making tasks anew.
        run_delay: For how many seconds meanwhile it was ready to run, and had no processor.
        moved_bytes: Bytes of the rows that came from other stages, and went to others.
        failed_attempts: Attempts of transactions that a component failed.
        wants_batch: Whether a task here has something to do in the next batch, whatever spouts
            have: a commit to hear of, or rows to write that are committed now.
        has_early_rows: Whether a sink's task here knows of rows that were given before their time.
        samples: Task -> what it has counted and measured by metrics of the author's.
        lags: Spout task -> how far it is behind its source, of those that have said so.
        holds: Task -> why spouts are to emit nothing. Tasks of this stage and worker that are not
            in it let them emit.
        unread: Spout task -> the parts of its source that it has not read to their ends; None: it
            does not say. Only if its spout declares event times.
        to_read: Spout task -> the parts of its source that have something to read, if they are
            without an end.
        timers: Task -> its timers. Tasks of this stage and worker that are not in it have none.
        own_calls: Bolt task that is suspected -> its calls for no tuple that have ended.
        letters: (number of an order, task key) -> the dead letters that the task has
            taken: those that it sends again, or that are gone.
        results: Results of calls, which go to those that have emitted them.
        tapped: What there is for the taps that are open; None: none is.
        ahead: How far the worker has read ahead; None: it does not, or another stage says so.
        extra: For tests: every tuple that was emitted, if the topology asks for it.
    """

    stage: int
    partition: int
    updates: dict[str, dict[str, Update]] = field(default_factory=dict)
    with_transaction: dict[str, dict[str, Update]] = field(default_factory=dict)
    acked: dict[int, Ranges] = field(default_factory=dict)
    failed: list[tuple[int, int, str]] = field(default_factory=list)
    born: list[tuple[float, int, int]] = field(default_factory=list)
    errors: list[ErrorReport] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    restore_seconds: float = 0.0
    exhausted: dict[int, bool | None] = field(default_factory=dict)
    did_something: bool = False
    has_raised: bool = False
    has_more: bool = False
    resting: dict[int, Resting] = field(default_factory=dict)
    owed: dict[int, Deliveries] = field(default_factory=dict)
    emitted: int = 0
    process: Process = field(default_factory=Process)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    run_delay: float = 0.0
    moved_bytes: int = 0
    failed_attempts: list[FailedAttempt] = field(default_factory=list)
    wants_batch: bool = False
    has_early_rows: bool = False
    samples: dict[int, list[Sample]] = field(default_factory=dict)
    lags: dict[int, Lag] = field(default_factory=dict)
    holds: dict[int, str] = field(default_factory=dict)
    unread: dict[int, Sequence[str] | None] = field(default_factory=dict)
    to_read: dict[int, Sequence[str]] = field(default_factory=dict)
    timers: dict[int, PendingTimers] = field(default_factory=dict)
    own_calls: dict[int, list[str]] = field(default_factory=dict)
    letters: dict[tuple[int, str], tuple[LetterKey, ...]] = field(default_factory=dict)
    results: list[tuple[str, bytes]] = field(default_factory=list)
    tapped: Tapped | None = None
    ahead: AheadReport | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def end_transaction(self, *, is_committed: bool) -> None:
        """Keep what tasks have changed for the transaction if it is committed; else drop it."""
        changed, self.with_transaction = self.with_transaction, {}
        if is_committed:
            for key, journals in changed.items():
                self.updates.setdefault(key, {}).update(journals)

    def take(self, task: int, signals: Signals, component: str) -> None:
        """Take what the code of a component's task has told since it was asked last."""
        for step in signals.take_steps():
            count_step(self.counts, component, step)
        if samples := signals.take_samples():
            self.samples.setdefault(task, []).extend(samples)
        if (lag := signals.take_lag()) is not None:
            self.lags[task] = lag
        self.results += signals.take_results()
        if signals.hold.reason:
            self.holds[task] = signals.hold.reason


class VoidBatch(Exception):
    """Another part of this batch came to nothing, so this one does as well: it is run again.

    Attributes:
        row: The row that said so.
    """

    def __init__(self, row: bytes) -> None:
        super().__init__(row)
        self.row = row
