"""Decides what the next batch is, and what a finished or failed one means. No I/O: see the driver.

A batch is retried whole: as long as it fails, the next attempt has the same number, the same clock
and the same deliveries, and another tag. The invariants, which `check` asserts after every event in
tests:

- `number` is the last commit; whatever is attempted is to become `number` + 1.
- `base` is the tag of a state that equals that of commit `number`: of the commit itself, or of a
  later batch that had nothing to commit.
- Deliveries of an attempt are those of the last commit until a batch has taken them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fulmen.engine.batches.done import (
    Done,
    count,
    did_something,
    ended_trees,
    only_ticked,
)
from fulmen.engine.batches.end_of_input import EndOfInput
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.failures.left_out import MAKING, LeftOut, Unmade
from fulmen.engine.batches.failures.own_calls import OwnCalls
from fulmen.engine.batches.failures.service_probe import ServiceProbe
from fulmen.engine.batches.idle import Idle
from fulmen.engine.batches.rests import Rests, gather_seconds
from fulmen.engine.batches.size.batch_size import BatchSize
from fulmen.engine.batches.size.permits import is_full
from fulmen.engine.batches.stage_skipping import StageSkipping
from fulmen.engine.batches.summaries import (
    PartsThat,
    holds_after,
    restore_seconds,
    seconds_with_processors,
)
from fulmen.engine.batches.transactions import Transactions
from fulmen.engine.batches.unfinished import Unfinished
from fulmen.engine.batches.watermarks import watermarks_after, watermarks_of
from fulmen.engine.protocol.callbacks.call_names import OF_NO_TUPLE, method_of
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.deliveries import Deliveries, pack_deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.time.watermarks import Watermarks

TIMEOUT_SHARE = 0.25
"""However seldom workers have a processor, a batch should take at most that part of a timeout."""
MOST_LOOKS = 3
"""So often a run looks ahead if early results fail. Then they come at the end of the next one."""


@dataclass
class Coordinator:
    """The state of a running topology that is not in its tasks.

    Others read its attributes; only its methods change them.

    Attributes:
        current: The topology and its plan.
        number: The last commit.
        base: The tag that tasks' state must carry.
        clock: Batch clock, in seconds.
        new_tag: Gives a fresh random tag for each attempt.
        deliveries: To be told to spout tasks in the next batch.
        active: Whether spouts may emit.
        size: Of the next batch.
        probe: Whether the next attempt only asks for a service that was away.
        drains: Whether bolts get their last turn in the next batch.
        drained: Whether they have had it since they last executed anything.
        transactions: Of a transactional topology.
        exhausted_sources: Its sources whose coordinators have said that nothing will come.
        source_is_away: Whether one of its sources could not say whether there is something.
        holds: Task -> why spouts are to emit nothing, of bolts that say so.
        watermarks: How far event time has come.
        is_at_end: Whether sources have said that nothing will come, or are taken to.
        more_may_come: Whether that is so of this run alone: then event time does not end with it.
        looks_ahead: Whether the next batch says what event time would bring if nothing more came.
        has_looked: Whether that is said, of all that has come so far. It is part of the commit.
        left_out: Spout tasks that batches do without.
        unmade: Other tasks whose instances could not be made.
        own_calls: Of bolts, for no tuple, that made batches fail.
    """

    current: CurrentTopology
    number: int
    base: str
    clock: float
    new_tag: Callable[[], str]
    now: float
    deliveries: Mapping[int, Deliveries] = field(default_factory=dict)
    active: bool = True
    size: BatchSize = field(default_factory=BatchSize)
    crashes: Crashes = field(default_factory=Crashes)
    skipping: StageSkipping = field(default_factory=StageSkipping)
    pending: int = 0
    spout_pending: int = 0
    exhausted: bool = False
    idle: Idle = field(default_factory=Idle)
    probe: ServiceProbe = field(default_factory=ServiceProbe)
    drains: bool = False
    drained: bool = False
    attempt: Header | None = None
    transactions: Transactions | None = None
    exhausted_sources: Collection[str] = ()
    source_is_away: bool = False
    holds: Mapping[int, str] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=Watermarks)
    is_at_end: bool = False
    more_may_come: bool = False
    looks_ahead: bool = False
    has_looked: bool = False
    left_out: LeftOut = field(default_factory=LeftOut)
    unmade: Unmade = field(default_factory=Unmade)
    own_calls: OwnCalls = field(default_factory=OwnCalls)

    def __post_init__(self) -> None:
        self._previous_clock = self.clock
        self._mark = self.now
        self._is_retry = False
        self._unfinished = Unfinished()
        self._run = self.placed.run
        self._wants_batch = PartsThat("wants_batch")
        self._has_early_rows = PartsThat("has_early_rows")
        self._rests = Rests()
        self._did_nothing = False
        self._end_of_input = EndOfInput(self.clock)
        self._looks = 0

    @property
    def placed(self) -> PlacedTopology:
        """The topology and its plan."""
        return self.current.placed

    def set_active(self, *, active: bool) -> None:
        """Have spouts emit from the next batch on, or emit no more."""
        self.active = active

    def sources_said(self, *, exhausted: Collection[str], is_away: bool) -> None:
        """What the sources of transactions say about those to come."""
        self.exhausted_sources, self.source_is_away = exhausted, is_away

    # Attempts

    def begin(self, now: float) -> Header:
        """The header of the next attempt. `now` is in seconds of any steady clock."""
        if self.looks_ahead:
            self._previous_clock = self.clock  # nothing becomes due by it, as that would be lost
        elif not self._is_retry:  # else the clock is as it was: recovering takes no time
            self._previous_clock = self.clock
            self.clock += max(0.0, now - self._mark)  # workers measure with a clock of their own
        self._mark = now
        left_out = self.left_out.tasks(now, tries=self.active)
        able = [task for task in self._spout_tasks() if task not in left_out]
        permits, poisoned = self.crashes.permits(able)
        if self.probe.is_next or (self.holds and permits is not None):
            permits, poisoned = dict.fromkeys(self._spout_tasks(), 0), ()
        most = self.placed.limits.header_bytes
        large = self.deliveries and len(pack_deliveries(self.deliveries)) > most
        self.attempt = Header(
            number=self.number + 1,
            tag=self.new_tag(),
            base=self.base,
            clock=self.clock,
            previous_clock=self._previous_clock,
            default_permit=self.size.permit if permits is None and not self.holds else 0,
            active=self.active,
            permits=permits or {},
            deliveries=None if large else self.deliveries,
            poisoned=poisoned,
            cause=self.crashes.cause if poisoned else "",
            traceback=self.crashes.traceback if poisoned else "",
            emit_seconds=self.size.seconds_to_emit(self.target_seconds),
            is_retry=self._is_retry,
            bases=self.skipping.bases,
            drains=self.drains or (self.looks_ahead and self.more_may_come),
            transactions=self._transaction_work(now),
            watermarks=watermarks_of(self.watermarks, self.placed),
            ends_time=self.drains and self.is_at_end and not self.more_may_come,
            looks_ahead=self.looks_ahead,
            left_out=left_out,
            one_by_one=self.own_calls.one_by_one,
            without=self.own_calls.without(now),
        )
        return self.attempt

    def _transaction_work(self, now: float) -> TransactionWork:
        if self.transactions is None:
            return TransactionWork()
        if self._run != self.placed.run:  # planned anew: what waited in workers is gone
            self._run = self.placed.run
            self.transactions.reset()
        return self.transactions.begin(now)

    def begin_closing(self, now: float) -> Header:
        """The header of a last attempt in which all instances are closed. It is no batch."""
        header = replace(self.begin(now), closes=True)
        self.attempt = None
        return header

    def stand_still(self, seconds: float) -> None:
        """So many of the seconds since the attempt began are not the topology's time.

        Less than one does no harm, and ticks would be late by it.
        """
        if seconds >= 1:
            self._mark += seconds

    def cuts(self, header: Header) -> tuple[int, ...]:
        """Where the stages of the attempt at hand are divided into jobs: the end of each."""
        return self.skipping.cuts(
            self.placed,
            header,
            emits=self.size.typical_emits,
            pending=self._unfinished.trees,
            is_idle=self.idle.needs_spouts_only
            and not self.wants_batch
            and not self._rests.is_timer_due(header, self.placed.plan)
            and not any(due <= header.clock for due in self._resting_results),
        )

    def finish(
        self,
        summaries: Sequence[Summary],
        seconds: float,
        owed: Mapping[int, Deliveries] | None = None,
        skipped: Sequence[int] = (),
        *,
        ackers_ran: bool = False,
    ) -> Done:
        """A batch ran to its end. It counts only when `committed` has been called.

        Args:
            summaries: Of all its stages and workers.
            seconds: How long it took.
            owed: What pinned spouts could not be told yet.
            skipped: Stages that did not run.
            ackers_ran: Whether trees were left for the ackers, in a job of their own.
        """
        assert self.attempt is not None
        if ackers_ran:
            self.skipping.trees_outlived_batch(self.placed.limits.whole_batches)
        ended = ended_trees(summaries, self.placed.task_of_origin)
        deliveries = dict(ended)
        for of_some in ({} if owed is None else owed, *(s.owed for s in summaries)):
            for origin, old in of_some.items():
                deliveries[origin] = old.plus(deliveries[origin]) if origin in deliveries else old
        # all that was to be told is still owed: the last commit holds it
        is_told = count(deliveries) - count(ended) < count(self.deliveries)
        looks_ahead, has_happened = self.attempt.looks_ahead, did_something(summaries)
        is_only_ticked = only_ticked(summaries) and not (ended or is_told)
        if looks_ahead:
            has_looked = not any(summary.failures for summary in summaries)
        else:
            has_looked = self.has_looked and (is_only_ticked or not has_happened)
        transactions = None
        if self.transactions is not None:
            failed = [one for summary in summaries for one in summary.failed_attempts]
            transactions = self.transactions.finish(failed, self._mark + seconds)
            for summary in summaries:
                is_committed = bool(transactions.committed or transactions.given_up)
                summary.end_transaction(is_committed=is_committed)
        has_transactions = bool(self.attempt.transactions)
        return Done(
            self.attempt,
            summaries,
            seconds,
            deliveries,
            skipped,
            commits=bool(ended or is_told or has_transactions or any(s.updates for s in summaries))
            or has_looked > self.has_looked,
            idle=not (has_happened or ended or is_told),
            transactions=transactions,
            holds=holds_after(self.holds, summaries, self.placed.plan),
            watermarks=self._watermarks_after(summaries),
            only_ticked=is_only_ticked,
            has_looked=has_looked,
        )

    def _watermarks_after(self, summaries: Sequence[Summary]) -> Watermarks:
        assert self.attempt is not None
        if self.attempt.looks_ahead:
            return self.watermarks
        exhausted = self._unfinished.exhausted
        return watermarks_after(
            self.watermarks,
            self.placed,
            summaries,
            exhausted,
            self.clock,
            more_may_come=self.more_may_come,
        )

    def committed(self, done: Done, commit_work: float = 0.0) -> None:
        """The batch is in the checkpoint, or had nothing to write there.

        Args:
            done: The batch.
            commit_work: Seconds that writing it took because of what is in it.
        """
        if done.commits:
            self.number = done.header.number
        limit = self.placed.topology.spec.max_spout_pending
        seconds = seconds_with_processors(done.summaries, done.seconds)
        self.skipping.committed(
            self.placed.run,
            done.header,
            done.skipped,
            seconds,
            self.target_seconds,
            is_full=is_full(self.size.permit, done.summaries, limit),
        )
        self.base = done.header.tag
        self.left_out.succeeded(done.header.left_out)
        self.unmade.succeeded()
        self.own_calls.succeeded(done.summaries)
        self.deliveries, self.watermarks = done.deliveries, done.watermarks
        self.attempt = None
        self._is_retry = False
        self.stand_still(restore_seconds(done.summaries))
        self._unfinished.committed(done.summaries)
        self._wants_batch.committed(self.placed.run, done.summaries)
        self._has_early_rows.committed(self.placed.run, done.summaries)
        self.pending = self._unfinished.trees
        if self.transactions is not None and done.transactions is not None:
            self.transactions.committed(done.transactions, self._mark + done.seconds)
            self.pending = len(self.transactions.active)
        self.spout_pending = self._unfinished.messages(self.left_out)
        self.exhausted = self._is_exhausted()
        self.holds = done.holds
        was_probe = self.probe.committed()
        is_idle = done.idle and not self.holds and not was_probe
        self.idle.committed(is_idle, done.only_ticked)
        self._did_nothing = done.idle
        is_empty = is_idle and not self._is_waiting
        spouts = self._spout_tasks()
        self._end_of_input.committed(self.clock, done.summaries, spouts, is_empty=is_empty)
        self.drained = done.header.drains or (self.drained and not did_something(done.summaries))
        self.drained &= not self.holds
        self.drains = self.looks_ahead = False
        self.has_looked = done.has_looked
        self._looks += done.header.looks_ahead
        self._rests.committed(
            self.placed.run,
            done.summaries,
            watermarks_of(self.watermarks, self.placed),
            self.placed.plan,
            wants_batch=self.wants_batch,
            gathers=self._seconds_to_gather(done),
        )
        if not was_probe:  # it says nothing about batches that have tuples
            self._adapt(done, seconds, commit_work)

    def _is_exhausted(self) -> bool:
        """Whether every spout task has said so, or every source of transactions.

        The emitters of a source may have said so as well, if nothing comes again.
        """
        if self.transactions is not None:
            left = set(self.placed.emitters).difference(self.exhausted_sources)
            tasks = [task for name in left for task in self.placed.plan.tasks(name)]
            return not left or (self._unfinished.are_exhausted(tasks) and not self._is_waiting)
        tasks = [task for task in self._spout_tasks() if task not in self.left_out]
        return bool(tasks) and self._unfinished.are_exhausted(tasks)

    def failed(
        self,
        now: float,
        reason: str = "",
        is_outage: bool = False,
        traceback: str = "",
        *,
        is_service_away: bool = False,
        calls: Sequence[Call] = (),
        hung_seconds: float = 0.0,
    ) -> None:
        """The attempt came to nothing.

        Args:
            now: When the same batch can be tried again.
            reason: Why, in one line.
            is_outage: No tuple can be to blame: the store is away, or the cluster took a worker.
            traceback: Of what failed in a worker, if there is one.
            is_service_away: A component can't reach what it connects to.
            calls: Those of authors' that it came to nothing in, as far as that is known.
            hung_seconds: It was given so long, and these calls did not end. 0: their process did.
        """
        poisoned = () if self.attempt is None else self.attempt.poisoned
        self._is_retry = True
        self.probe.failed(is_service_away=is_service_away and self.transactions is None)
        self.attempt = None
        self.idle.failed()
        spouts = set(self._spout_tasks())
        unmade = [c for c in calls if c.task not in spouts and c.callback in MAKING]
        for call in unmade:
            self.unmade.blame(call.task, call.callback, now, hangs=hung_seconds > 0)
        is_outage = is_outage or bool(unmade)
        had = self.transactions is not None and self.transactions.came_to_nothing(
            reason, is_outage=is_outage
        )
        is_spouts = not (had or is_outage) and self._is_spouts_own(
            calls, hung_seconds, poisoned, now
        )
        if had or is_outage or is_spouts or self._is_bolts_own(calls, hung_seconds, now):
            return
        likely = self.size.most_likely(max(1, len(self._spout_tasks())))
        self.crashes.failed(likely, reason, traceback)

    def _is_spouts_own(
        self, calls: Sequence[Call], hung_seconds: float, poisoned: Sequence[int], now: float
    ) -> bool:
        """Whether spouts' own calls made the attempt fail: then they are blamed, and no tuple."""
        plan = self.placed.plan
        spouts = [t for t in self._spout_tasks() if plan.component_of(t) not in plan.pinned]
        own = [call for call in calls if call.task in spouts]
        for call in own:
            hangs = hung_seconds > 0
            seconds = hung_seconds
            self.left_out.blame(call.task, call.callback, now, hangs=hangs, lost_seconds=seconds)
        # the batch without its tuple succeeded, and nobody was sent that tuple
        proven = [] if calls else [task for task in poisoned if task in spouts]
        for task in proven:
            self.left_out.blame(task, "", now, is_proven=True)
            self.crashes = Crashes()
        return bool(own or proven)

    def _is_bolts_own(self, calls: Sequence[Call], hung_seconds: float, now: float) -> bool:
        """Whether the attempt failed in calls of bolts that are for no tuple: these are blamed."""
        spouts = self._spout_tasks()
        own = [c for c in calls if c.task not in spouts and method_of(c.callback) in OF_NO_TUPLE]
        for call in own:
            self.own_calls.blame(
                call.task, call.callback, now, hangs=hung_seconds > 0, lost_seconds=hung_seconds
            )
        return bool(own)

    @property
    def hopeless(self) -> bool:
        """Whether the batch keeps failing although it has no tuple that could be left out."""
        return self.crashes.rounds > len(self._spout_tasks())

    @property
    def target_seconds(self) -> float:
        """How long a batch should take under load."""
        return self.placed.topology.spec.batch_target_millis / 1000

    def _spout_tasks(self) -> list[int]:
        return [t for name in sorted(self.placed.spouts) for t in self.placed.plan.tasks(name)]

    def _adapt(self, done: Done, seconds: float, commit_work: float) -> None:
        """Have permits follow the batch time; trust batches again step by step after a failure."""
        is_suspect = self.crashes.limit is not None
        if self.crashes.succeeded(max(self.size.permit, 2 * self.size.typical_emits)):
            self.crashes = Crashes()
        if not is_suspect:
            target = self.target_seconds
            if seconds < done.seconds:  # for the rest there was no processor
                spec = self.placed.topology.spec
                longest = TIMEOUT_SHARE * min(
                    spec.batch_timeout_seconds, spec.message_timeout_seconds
                )
                target = min(target, longest * seconds / done.seconds)
            self.size.adapt(done.summaries, seconds, commit_work, target)

    # Rests

    def _seconds_to_gather(self, done: Done) -> float:
        is_pressed = any(summary.has_more for summary in done.summaries) or self.skipping.is_full
        is_pressed = is_pressed or bool(self.transactions and self.transactions.active)
        millis = self.placed.topology.spec.batch_interval_millis
        return gather_seconds(millis, done.seconds, is_active=self.active, is_pressed=is_pressed)

    @property
    def wants_batch(self) -> bool:
        """Whether tasks have something to do in the next batch, whatever spouts have."""
        return self._wants_batch.any(self.placed.run)

    def idle_seconds(self) -> float:
        """How long to wait before the next batch: next to no time if something happened."""
        bolts, rests = self.placed.topology.spec.bolts, self._unfinished.rests
        return self._rests.seconds(
            self.idle,
            self.skipping.rest_seconds,
            self.clock,
            is_held=bool(self.holds and self._did_nothing),
            ticks=(bolt.tick_seconds for bolt in bolts if bolt.tick_seconds),
            resting=rests(lambda _: True) if self.active else self._resting_results,
        )

    # Ends

    @property
    def settled(self) -> bool:
        """Nothing is pending, and spout tasks that are not left out were told of all messages.

        What rests after a failure is in the checkpoint, for another run; at the end there is none.
        """
        return (
            self.pending == 0
            and (self.transactions is None or self.transactions.is_settled)
            and not self._has_deliveries
            and self.spout_pending == 0
            and self.attempt is None
            and not self.wants_batch
            and not (self.is_at_end and self._resting_results)
        )

    @property
    def _resting_results(self) -> list[float]:
        """When results of bolts come again that have failed, the first of each task."""
        plan, spouts = self.placed.plan, self.placed.spouts
        return self._unfinished.rests(lambda task: plan.component_of(task) not in spouts)

    @property
    def _has_deliveries(self) -> bool:
        """Whether there is something to be told to tasks that are not left out."""
        task_of = self.placed.task_of_origin
        return any(task_of.get(origin) not in self.left_out for origin in self.deliveries)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way: all that can be pending is what bolts hold."""
        if self.attempt is not None or self._is_retry or self._has_deliveries or self.wants_batch:
            return False
        return self.settled or self.idle.batches > 0 or bool(self.holds and self._did_nothing)

    @property
    def has_nothing_more(self) -> bool:
        """Whether spouts have said that nothing will come, or nothing has come for some batches.

        The second counts only if no spout knows its end: then it says so.
        Bolts may hold tuples all the same, if it is not settled. Something is to come while one
        of them holds the spouts; and it may be while batches leave out a tuple that is suspected,
        for a while after a source was away, and for some batches after a spout could not be asked.
        Spout tasks that are left out may have more: see `left_out`.
        """
        if self.holds or self._unfinished.rests(lambda task: task not in self.left_out):
            return False
        if self.transactions is not None:
            is_over = self._end_of_input.is_likely_of_transactions
        else:
            is_over = self._end_of_input.is_likely(self.idle, self.clock)
            is_over &= self.crashes.limit is None and not self._waits_for_an_end
        return self.is_quiet and (self.exhausted or is_over)

    @property
    def seconds_without_input(self) -> float:
        """For how long no spout has emitted anything, by the batch clock."""
        return self._end_of_input.seconds_without_input(self.clock)

    @property
    def spouts_without_end(self) -> list[str]:
        """The spouts that have not said that nothing more will come."""
        if self.exhausted or self.transactions is not None:
            return []
        return [
            name
            for name in sorted(self.placed.spouts)
            if not self._unfinished.are_exhausted(self.placed.plan.tasks(name))
        ]

    @property
    def _waits_for_an_end(self) -> bool:
        """Whether a spout that knows its end has not come to it."""
        tasks = [task for task in self._spout_tasks() if task not in self.left_out]
        return self._unfinished.awaits_end_of(tasks)

    @property
    def _is_waiting(self) -> bool:
        """Whether a transaction comes again after a pause, or the source is to be asked again."""
        return self.transactions is not None and (
            bool(self.transactions.ledger.failures) or self.source_is_away
        )

    def look_ahead(self) -> bool:
        """Have the next batch look ahead, if there is anything to see that was not seen before.

        Only when all is settled and drained, as nothing else that it does is kept.
        """
        self.looks_ahead = (
            self.is_at_end
            and not self.has_looked
            and self._looks < MOST_LOOKS
            and (
                (self.more_may_come and self._rests.awaits_event_time)
                or self._has_early_rows.any(self.placed.run)  # some may be no more
            )
        )
        return self.looks_ahead

    def drain_bolts(self, *, is_at_end: bool = False) -> None:
        """Give bolts their last turn in the next batch, if it is time for it.

        Args:
            is_at_end: Nothing will come: then event time comes to its end as well, unless
                `more_may_come` in another run.
        """
        self.is_at_end |= is_at_end
        if self.is_quiet and not self.drained:
            self.drains = True
