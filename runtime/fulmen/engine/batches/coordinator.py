"""Decides what the next batch is, and what a finished or failed one means. No I/O: see the driver.

Each part knows one rule: `BatchClock` how time passes, `Blame` what attempts do without after
failures, `BatchSize` how much spouts may emit, `StageSkipping` which stages a batch can leave out,
`Idle` and `Rests` when it begins, `Unfinished` what tasks still have, `EndOfInput` whether sources
may bring more, `LastTurn` what the last batches are, `Transactions` Storm's coordinator.

A batch is retried whole: as long as it fails, the next attempt has the same number, the same clock
and the same deliveries, and another tag. The invariants, which `check` asserts after every event in
tests:

- `last.number` is the last commit; whatever is attempted is to become `last.number` + 1.
- `last.base` is the tag of a state that equals that of this commit.
- Deliveries of an attempt are those of the last commit until a batch has taken them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fulmen.engine.batches.batch_clock import BatchClock
from fulmen.engine.batches.done import (
    Done,
    LastBatch,
    count,
    deliveries_after,
    did_something,
    ended_trees,
    only_ticked,
)
from fulmen.engine.batches.ends.end_of_input import EndOfInput
from fulmen.engine.batches.ends.last_turn import LastTurn
from fulmen.engine.batches.ends.unfinished import Unfinished
from fulmen.engine.batches.failures.blame import Blame, VoidAttempt
from fulmen.engine.batches.pace.idle import Idle
from fulmen.engine.batches.pace.rests import Rests
from fulmen.engine.batches.pace.stage_skipping import StageSkipping
from fulmen.engine.batches.size.batch_size import BatchSize
from fulmen.engine.batches.size.permits import is_full
from fulmen.engine.batches.summaries import (
    holds_after,
    restore_seconds,
    seconds_with_processors,
)
from fulmen.engine.batches.transactions import Outcome, Transactions
from fulmen.engine.batches.watermarks import BoltTimes, watermarks_after, watermarks_of
from fulmen.engine.protocol.deliveries import Deliveries, pack_deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.protocol.transaction_work import TransactionWork


class Coordinator:
    """The state of a running topology that is not in its tasks.

    Others read its attributes; only its methods change them.

    Attributes:
        current: The topology and its plan.
        last: What the last batch that counted has left.
        active: Whether spouts may emit from the next batch on. The driver sets it.
        attempt: What is tried now; None: nothing.
        transactions: Of a transactional topology.
        clock, blame, size, skipping, idle, unfinished, end_of_input, turns: The parts that decide.
    """

    def __init__(
        self,
        current: CurrentTopology,
        last: LastBatch,
        clock: BatchClock,
        new_tag: Callable[[], str],
        *,
        transactions: Transactions | None = None,
        active: bool = True,
        more_may_come: bool = False,
    ) -> None:
        """Begin a topology, or go on with another one: with what the last commit holds."""
        self.current, self.last, self.clock, self._new_tag = current, last, clock, new_tag
        self.transactions, self.active = transactions, active
        self.attempt: Header | None = None
        self.blame, self.size = Blame(), BatchSize()
        self.skipping, self.idle = StageSkipping(), Idle()
        self.unfinished, self.end_of_input = Unfinished(), EndOfInput(clock.seconds)
        self.turns = LastTurn(more_may_come=more_may_come)
        self._rests = Rests(self.idle, self.skipping)
        self._is_retry = False
        self.spout_pending = 0

    @property
    def placed(self) -> PlacedTopology:
        """The topology and its plan."""
        return self.current.placed

    # Attempts

    def begin(self, now: float, wall: float = 0.0) -> Header:
        """The header of the next attempt.

        Args:
            now: In seconds of any steady clock.
            wall: The time of day, in seconds.
        """
        placed, last, clock = self.placed, self.last, self.clock
        clock.begin(now, is_retry=self._is_retry, stands=self.turns.looks_ahead)
        most = placed.limits.header_bytes
        work = TransactionWork()
        if self.transactions is not None:
            work = self.transactions.begin(now, placed.run)
        is_behind = last.watermarks.are_behind(placed.by_clock)
        large = last.deliveries and len(pack_deliveries(last.deliveries)) > most
        header = Header(
            number=last.number + 1,
            tag=self._new_tag(),
            base=last.base,
            clock=clock.seconds,
            previous_clock=clock.before,
            default_permit=0 if last.holds or is_behind else self.size.permit,
            active=self.active,
            deliveries=None if large else last.deliveries,
            emit_seconds=self.size.seconds_to_emit(placed.topology.spec, placed.plan),
            is_retry=self._is_retry,
            bases=self.skipping.bases,
            transactions=work,
            watermarks=watermarks_of(last.watermarks, placed, wall),
            paged=tuple({**last.watermarks.told, **dict.fromkeys(sorted(placed.by_clock))}),
        )
        self.attempt = self.turns.begin(self.blame.begin(header, placed.spout_tasks, now))
        return self.attempt

    def begin_closing(self, now: float) -> Header:
        """The header of a last attempt in which all instances are closed. It is no batch."""
        header = replace(self.begin(now), closes=True)
        self.attempt = None
        return header

    def cuts(self, header: Header) -> tuple[int, ...]:
        """Divide the stages of the attempt at hand into jobs: the end of each. None: no job."""
        is_nothing_due = (
            not (self.wants_batch or header.letters)
            and not self._rests.is_timer_due(header, self.placed.plan)
            and not any(due <= header.clock for due in self._resting_results)
        )
        return self.skipping.cuts(
            self.placed,
            header,
            emits=self.size.typical_emits,
            pending=self.unfinished.trees,
            is_idle=self.idle.needs_spouts_only and is_nothing_due,
            is_spouts_alone=is_nothing_due and self.idle.is_short and not self.last.holds,
        )

    def finish(
        self,
        summaries: Sequence[Summary],
        seconds: float,
        owed: Mapping[int, Deliveries] | None = None,
        skipped: Sequence[int] = (),
        *,
        ackers_ran: bool = False,
        must_commit: bool = False,
    ) -> Done:
        """Finish a batch that ran to its end. It counts only when `committed` has been called.

        Args:
            summaries: Of all its stages and workers.
            seconds: How long it took.
            owed: What pinned spouts could not be told yet.
            skipped: Stages that did not run.
            ackers_ran: Whether trees were left for the ackers, in a job of their own.
            must_commit: Whether it is written even if it has done nothing.
        """
        header, last, placed = self.attempt, self.last, self.placed
        assert header is not None
        if ackers_ran:
            self.skipping.trees_outlived_batch(placed.limits.whole_batches)
        gives_up = placed.topology.spec.max_replays is not None
        ended = ended_trees(summaries, placed.task_of_origin, tells_causes=gives_up)
        deliveries = deliveries_after(ended, owed or {}, *(s.owed for s in summaries))
        # all that was to be told is still owed: the last commit holds it
        is_told = count(deliveries) - count(ended) < count(last.deliveries)
        has_happened = did_something(summaries)
        is_only_ticked = only_ticked(summaries) and not (ended or is_told)
        if header.looks_ahead:
            has_looked = not any(summary.failures for summary in summaries)
        else:
            has_looked = last.has_looked and (is_only_ticked or not has_happened)
        transactions = self._transactions_after(summaries, self.clock.steady(seconds))
        watermarks = last.watermarks
        if not header.looks_ahead:
            watermarks = watermarks_after(
                watermarks,
                placed,
                summaries,
                self.unfinished.exhausted,
                header.clock,
                BoltTimes(
                    {name: header.watermarks[name][0] for name in placed.by_clock},
                    self._rests.many_due(placed, summaries),
                ),
                more_may_come=self.turns.more_may_come,
            )
        has_changed = any(s.updates for s in summaries) or bool(header.transactions)
        has_changed |= has_looked > last.has_looked
        commits = bool(must_commit or has_changed or ended or is_told)
        after = LastBatch(
            header.number if commits else last.number,
            header.tag,
            deliveries,
            holds_after(last.holds, summaries, placed.plan),
            watermarks,
            has_looked,
            did_nothing=not (has_happened or ended or is_told),
        )
        return Done(
            header, summaries, seconds, skipped, after, commits, transactions, is_only_ticked
        )

    def _transactions_after(self, summaries: Sequence[Summary], now: float) -> Outcome | None:
        if self.transactions is None:
            return None
        failed = [one for summary in summaries for one in summary.failed_attempts]
        outcome = self.transactions.finish(failed, now)
        for summary in summaries:
            summary.end_transaction(is_committed=bool(outcome.committed or outcome.given_up))
        return outcome

    def committed(self, done: Done, commit_work: float = 0.0) -> None:
        """Note that the batch is in the checkpoint, or had nothing to write there.

        Args:
            done: The batch.
            commit_work: Seconds that writing it took because of what is in it.
        """
        placed, summaries = self.placed, done.summaries
        seconds = seconds_with_processors(summaries, done.seconds)
        self.last, self.attempt, self._is_retry = done.after, None, False
        if self.transactions is not None and done.transactions is not None:
            self.transactions.committed(done.transactions, self.clock.steady(done.seconds))
        self.clock.stand_still(restore_seconds(summaries))
        is_whole = is_full(self.size.permit, summaries, placed.topology.spec.max_spout_pending)
        self.skipping.committed(done, placed, seconds, is_full=is_whole)
        was_probe = self.blame.succeeded(done)
        self.unfinished.committed(placed.run, summaries)
        self.spout_pending = self.unfinished.messages(self.blame.left_out)
        is_idle = done.after.did_nothing and not self.last.holds and not was_probe
        had_no_job = len(done.skipped) == len(placed.plan.stages)
        self.idle.committed(is_idle, done.only_ticked, had_no_job=had_no_job)
        is_empty = is_idle and not self._is_waiting
        self.end_of_input.committed(done, placed.spout_tasks, is_empty=is_empty)
        self.turns.committed(done)
        has_open = bool(self.transactions and self.transactions.active)
        may_gather = self.active and not (is_whole or has_open)
        self._rests.committed(done, placed, wants_batch=self.wants_batch, may_gather=may_gather)
        if was_probe or had_no_job:  # it says nothing about batches that have tuples
            return
        if self.blame.trusts(max(self.size.permit, 2 * self.size.typical_emits)):
            self.size.adapt(done, seconds, commit_work, placed.topology.spec)

    def failed(self, void: VoidAttempt, now: float) -> None:
        """Note a failed attempt; `now` is when the same batch can be tried again."""
        header, self.attempt, self._is_retry = self.attempt, None, True
        self.idle.failed()
        if self.blame.failed(void, header, self.placed, self.transactions, now):
            likely = self.size.most_likely(max(1, len(self.placed.spout_tasks)))
            self.blame.crashes.failed(likely, void.reason, void.traceback)

    @property
    def hopeless(self) -> bool:
        """Whether the batch keeps failing although it has no tuple that could be left out."""
        return self.blame.crashes.rounds > len(self.placed.spout_tasks)

    def idle_seconds(self) -> float:
        """Seconds to wait before the next batch: next to none if something happened."""
        bolts, rests = self.placed.topology.spec.bolts, self.unfinished.rests
        passed, plan = self.last.watermarks.passed, self.placed.plan
        clocks = {name: passed[name] for name in self.placed.by_clock & passed.keys()}
        return self._rests.seconds(
            self.clock.seconds,
            is_held=self.last.is_held,
            ticks=(bolt.tick_seconds for bolt in bolts if bolt.tick_seconds),
            resting=rests(lambda _: True) if self.active else self._resting_results,
            by_clock={task: at for name, at in clocks.items() for task in plan.tasks(name)},
        )

    # What is left

    @property
    def pending(self) -> int:
        """The number of trees, or of transactions, that have not ended."""
        active = None if self.transactions is None else self.transactions.active
        return self.unfinished.trees if active is None else len(active)

    @property
    def wants_batch(self) -> bool:
        """Whether tasks have something to do in the next batch, whatever spouts have."""
        return self.unfinished.wants_batch(self.placed.run)

    @property
    def settled(self) -> bool:
        """Whether nothing is pending, and spout tasks (not those left out) were told of all ends.

        What rests after a failure is in the checkpoint, for another run; at the end there is none.
        """
        return (
            self.pending == 0
            and (self.transactions is None or self.transactions.is_settled)
            and not self._has_deliveries
            and self.spout_pending == 0
            and self.attempt is None
            and not self.wants_batch
            and not (self.turns.waits_for_results and self._resting_results)
        )

    @property
    def has_resting_results(self) -> bool:
        """Whether results of bolts have failed and come again."""
        return bool(self._resting_results)

    @property
    def _resting_results(self) -> list[float]:
        """When failed results of bolts come again, the first of each task."""
        spouts = self.placed.spout_tasks
        return self.unfinished.rests(lambda task: task not in spouts)

    @property
    def _has_deliveries(self) -> bool:
        """Whether there is something to be told to tasks that are not left out."""
        task_of, left_out = self.placed.task_of_origin, self.blame.left_out
        return any(task_of.get(origin) not in left_out for origin in self.last.deliveries)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way: all that can be pending is what bolts hold."""
        if self.attempt is not None or self._is_retry or self._has_deliveries or self.wants_batch:
            return False
        return self.settled or self.idle.batches > 0 or self.last.is_held

    # Ends

    @property
    def exhausted(self) -> bool:
        """Whether every spout task has said so, or every source of transactions.

        The emitters of a source may have said so as well, if nothing comes again.
        """
        if self.transactions is not None:
            left = set(self.placed.emitters).difference(self.transactions.exhausted_sources)
            tasks = [task for name in left for task in self.placed.plan.tasks(name)]
            return not left or (self.unfinished.are_exhausted(tasks) and not self._is_waiting)
        tasks = self._spouts_at_work
        return bool(tasks) and self.unfinished.are_exhausted(tasks)

    @property
    def _spouts_at_work(self) -> list[int]:
        return [task for task in self.placed.spout_tasks if task not in self.blame.left_out]

    @property
    def has_nothing_more(self) -> bool:
        """Whether spouts have said that nothing will come, or nothing has come for some batches.

        The second counts only if no spout knows its end: then it says so.
        Bolts may hold tuples all the same, if it is not settled. Something is to come while one
        of them holds the spouts; and it may be while batches leave out a tuple that is suspected,
        for a while after a source was away, and for some batches after a spout could not be asked.
        Spout tasks that are left out may have more: see `Blame.left_out`.
        """
        left_out = self.blame.left_out
        if self.last.holds or self.unfinished.rests(lambda task: task not in left_out):
            return False
        if self.transactions is not None:
            is_over = self.end_of_input.is_likely_of_transactions
        else:
            is_over = (
                self.end_of_input.is_likely(self.idle, self.clock.seconds)
                and self.blame.crashes.limit is None
                and not self.unfinished.awaits_end_of(self._spouts_at_work)
            )
        return self.is_quiet and (self.exhausted or is_over)

    @property
    def seconds_without_input(self) -> float:
        """Seconds of the batch clock since a spout emitted last."""
        return self.end_of_input.seconds_without_input(self.clock.seconds)

    @property
    def spouts_without_end(self) -> list[str]:
        """The spouts that have not said that nothing more will come."""
        if self.exhausted or self.transactions is not None:
            return []
        are_exhausted, tasks = self.unfinished.are_exhausted, self.placed.plan.tasks
        return [name for name in sorted(self.placed.spouts) if not are_exhausted(tasks(name))]

    @property
    def _is_waiting(self) -> bool:
        """Whether a transaction comes again after a pause, or the source is to be asked again."""
        return self.transactions is not None and (
            bool(self.transactions.ledger.failures) or self.transactions.source_is_away
        )

    def look_ahead(self) -> bool:
        """Have the next batch look ahead, if there is anything to see that was not seen before.

        Only when all is settled and drained, as nothing else that it does is kept.
        """
        return self.turns.look_ahead(
            has_looked=self.last.has_looked,
            awaits_event_time=self._rests.awaits_event_time,
            has_early=self.unfinished.has_early_rows(self.placed.run),
        )

    def drain_bolts(self, *, is_at_end: bool = False) -> None:
        """Give bolts their last turn in the next batch, if it is time for it.

        Args:
            is_at_end: Nothing will come: then event time comes to its end as well, unless more may
                come in another run.
        """
        self.turns.is_at_end |= is_at_end
        if self.is_quiet and not self.turns.drained:
            self.turns.end(self.placed.inputs, self._rests.many_at_end(self.placed.plan))
