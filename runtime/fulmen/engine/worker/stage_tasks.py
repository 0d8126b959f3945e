"""A batch, as all tasks of one stage on one worker run it: what is cached in a worker's process."""

from __future__ import annotations

import gc
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from typing_extensions import override

from fulmen.api.transactions import TransactionAttempt
from fulmen.checkpoint import Store, Update, read_commit
from fulmen.checkpoint.rewriting import Update as Record
from fulmen.engine.acking.acker_task import AckerTask
from fulmen.engine.acking.messages import Messages
from fulmen.engine.emitting.collectors.spout_emits import EmitRoom
from fulmen.engine.emitting.combined_tuples import Combiners
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.parcels import groups
from fulmen.engine.protocol.callbacks import forks
from fulmen.engine.protocol.callbacks.processes import run_delay_seconds, this_process
from fulmen.engine.protocol.deliveries import Deliveries, undelivered
from fulmen.engine.protocol.figures.statistics import CHECKPOINT_BYTES, CHECKPOINT_SECONDS
from fulmen.engine.protocol.header import Header, tick_due
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary, VoidBatch
from fulmen.engine.taps.sampler import TapSampler
from fulmen.engine.tasks.author.errors import ComponentFailed
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.sink_task import SinkTask
from fulmen.engine.tasks.run_ackers import run_ackers
from fulmen.engine.tasks.saving import saved
from fulmen.engine.tasks.spouts.turn_time import TurnTime
from fulmen.engine.tasks.task import Task
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import Chunk, RangeLineage
from fulmen.engine.worker.executor_work import ExecutorThreads, Work, run_work
from fulmen.engine.worker.live_tasks import LiveTasks
from fulmen.engine.worker.stage_transactions import StageTransactions
from fulmen.engine.worker.unreadable_tuples import UnreadableTuples

UNCOLLECTED_OBJECTS = 2_000_000
"""New objects in a batch after which cycles are collected; otherwise it is done at its end."""
MOST_TIMER_ROUNDS = 100
"""So often in a batch timers are called that others have set, and which are due at once."""
WAITING_BYTES = 16 << 20
"""So many bytes of rows arrive before the tasks run, or `EngineLimits.waiting_tuples` tuples."""


class StageTasks(LiveTasks):
    """The tasks of stage `stage` on worker `partition` (-1: the driver) in a batch."""

    def __init__(
        self,
        placed: PlacedTopology,
        stage: int,
        partition: int,
        store: Store,
        clock: Callable[[], float],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(placed, stage, partition, store, clock, rng)
        self._made = Summary(stage, partition)
        self._transactions = StageTransactions(placed, stage)
        self._threads = ExecutorThreads()
        self._combiners = Combiners(placed, stage, self.components)
        self._unreadable = UnreadableTuples(placed)

    def make(self, header: Header) -> None:
        """Make the instances that a batch needs, ahead of it: what it says of them waits for it.

        Raises:
            ComponentFailed: An author's `open` or `prepare` raised.
        """
        forks.begin()
        self.prepare(header, self._made)
        self.tag = header.base_of(self.stage)

    @override
    def close(self) -> list[ErrorReport]:
        self._unreadable = UnreadableTuples(self.placed)
        return super().close()

    def commit_beside(self, attempt: TransactionAttempt) -> None:
        """Begin to commit an attempt: bolts that wait for something outside, in threads."""
        self._transactions.commit_beside(attempt, self._bolts)

    def run(
        self, header: Header, rows: Iterable[bytes], summary: Summary
    ) -> Iterator[tuple[int, bytes]]:
        """Run a batch: yields the rows for other stages and workers, and fills in the summary.

        Raises:
            ComponentFailed: An author's code raised where the topology can't go on.
            VoidBatch: Another part of this batch came to nothing.
        """
        if header.closes:
            summary.errors = self.close()
            yield from ((self.partition, row) for row in rows if row)
            return
        started = time.perf_counter()
        forks.begin()
        self.prepare(header, summary)
        made, self._made = self._made, Summary(self.stage, self.partition)
        summary.errors += made.errors
        summary.restored += made.restored
        summary.restore_seconds += made.restore_seconds
        cpu, delay = time.process_time(), run_delay_seconds()
        summary.process = this_process(self.partition)
        outbox = self._outbox(header, summary)
        messages: dict[int, Messages] = defaultdict(Messages)
        self._begin_batch(header, summary)
        deliveries = self._deliveries(header)
        for results in [bolt.results for bolt in self._bolts if bolt.results]:
            results.hear(deliveries, header, outbox)
        yield from self._take_rows(header, rows, outbox, messages, summary)
        for _ in self._run_spouts(header, deliveries, outbox, summary):
            yield from _counted(outbox, summary)
        for _ in self._transactions.emit(header, self._tasks.values(), outbox, summary):
            self._sweep(outbox)
            yield from _counted(outbox, summary)
        self._sweep(outbox, header)
        outbox.pack_all()
        self._report_refused(outbox)
        if self._ackers:
            self._run_ackers(header, outbox, messages, summary)
            for results in [bolt.results for bolt in self._bolts if bolt.results]:
                results.hear_at_once(summary.acked)
        outbox.pack_messages()
        yield from _counted(outbox, summary)
        yield from self._transactions.end(summary)
        self._write_down(header, summary)
        if outbox.taps is not None:
            summary.tapped = outbox.taps.end([spout.messages for spout in self._spouts])
        if outbox.emits:
            summary.extra["emits"] = outbox.emits
        summary.seconds = time.perf_counter() - started
        summary.cpu_seconds = time.process_time() - cpu
        summary.run_delay = run_delay_seconds() - delay
        self.tag, self._has_looked_ahead = header.tag, header.looks_ahead

    def _begin_batch(self, header: Header, summary: Summary) -> None:
        for task in self._tasks.values():
            task.begin_batch(header)
        if header.looks_ahead:  # what it changes is not told
            for task in self._looking_ahead():
                task.tell(summary)
        self._transactions.begin(header, self._tasks.values())

    def _outbox(self, header: Header, summary: Summary) -> Outbox:
        outbox = Outbox(self.placed, self.stage, self._rng, summary)
        outbox.wall = header.wall
        outbox.combined = self._combiners.begin(header.watermarks)
        outbox.taps = TapSampler.of(header.taps, self.placed)
        return outbox

    def _take_rows(
        self,
        header: Header,
        rows: Iterable[bytes],
        outbox: Outbox,
        messages: dict[int, Messages],
        summary: Summary,
    ) -> Iterator[tuple[int, bytes]]:
        """Take in what arrives, and run bolts whenever much is waiting."""
        is_first = self.stage == header.first
        injected = header.injected.of(self.partition, self.store.get) if is_first else ()
        waiting_tuples, arrived = self.placed.limits.waiting_tuples, 0
        for row in itertools.chain(rows, injected):
            if row:  # the empty one is what makes the first stage's partition
                yield from self._take_in(row, outbox, messages)
            arrived += len(row)
            summary.moved_bytes += len(row)
            if outbox.inbox.waiting >= waiting_tuples or arrived >= WAITING_BYTES:
                arrived = 0
                self._sweep(outbox)
                yield from _counted(outbox, summary)

    def _run_ackers(
        self, header: Header, outbox: Outbox, messages: dict[int, Messages], summary: Summary
    ) -> None:
        """Have the ackers here apply what arrived, and what this stage has to say itself."""
        own = outbox.messages.split(len(self.placed.ackers))
        for task, part in zip(self.placed.ackers, own, strict=True):
            if task in self._ackers:
                messages[task].add(part)
        outbox.messages = Messages()
        run_ackers(self.placed, self._ackers, messages, header.clock, summary, outbox)

    def _report_refused(self, outbox: Outbox) -> None:
        """Report each tuple that could not leave its worker as an error of the emitting task."""
        for task_id in {**outbox.untimed, **outbox.unread}:
            self._tasks[task_id].errors.warn_of(outbox)
        for task_id, reason, values, is_reported in outbox.refused:
            task = self._tasks[task_id]
            if task.attempts is not None:
                task.attempts.fail(values[0], reason)
            if not is_reported:
                continue
            report = task.report(reason, fatal=task.errors.crashes)
            if report.fatal:
                raise ComponentFailed(report)

    def _take_in(
        self, row: bytes, outbox: Outbox, messages: dict[int, Messages]
    ) -> Iterator[tuple[int, bytes]]:
        """Sort an incoming row: for a task here, or passed on untouched."""
        kind = row[:1]
        if kind == wire.VOID:
            raise VoidBatch(row)
        if kind == wire.TUPLES:
            parcel = wire.unpack_tuples(row)
            if parcel.parents and self.placed.sampling is not None:
                self.placed.sampling.parents.add(parcel.parents)
            subscription = self.placed.sent[parcel.subscription]
            if subscription.target in self._executors:
                if parcel.unreadable:
                    parcel = self._unreadable.without(parcel, self._tasks.__getitem__, outbox)
                fields = subscription.fields_of(parcel.rows)
                for target, at in groups(parcel.targets) if len(parcel) else ():
                    part = parcel if at is None else parcel.take(at)
                    outbox.inbox.receive(
                        target,
                        Chunk(
                            subscription.source,
                            subscription.stream,
                            fields,
                            part.sources,
                            part.lineage,
                            part.rows,
                        ),
                    )
                return
        elif kind == wire.ACKS and self._ackers:
            task, *parts = wire.unpack(row)
            messages[task].add(Messages(*parts))
            return
        elif kind == wire.FAILED and not self._transactions.hear(row):
            return
        yield self.partition, row

    def _deliveries(self, header: Header) -> Mapping[int, Deliveries]:
        """Find how trees ended that began at tasks here, or at others."""
        if header.deliveries is not None:
            return header.deliveries
        has_results = any(bolt.results and bolt.results.kept for bolt in self._bolts)
        if not (self._spouts or header.left_out or has_results):
            return {}
        # too many for a header: they are in the commit that the batch builds on
        return undelivered(read_commit(self.store, header.number - 1).transient)

    def _run_spouts(
        self,
        header: Header,
        deliveries: Mapping[int, Deliveries],
        outbox: Outbox,
        summary: Summary,
    ) -> Iterator[None]:
        """Tell spouts how trees ended, then let each task emit in its share of the time.

        What one leaves of its time the next ones have. Telling takes nobody's time: on a processor
        that others use, too, it would often take all of it, and a batch had one tuple.

        Yields after each slice of emits, when bolts behind the spout have run.
        """
        turn = TurnTime(time.monotonic, run_delay_seconds)
        spouts = self._spouts
        sinks = [bolt for bolt in self._bolts if isinstance(bolt, SinkTask)]

        def kept() -> int:
            leaving = summary.moved_bytes + outbox.waiting_bytes
            return leaving + sum(sink.held_bytes for sink in sinks)

        summary.owed |= self._owed_to_left_out(header, deliveries)
        for i, task in enumerate(spouts):
            permit, origin = header.permit(task.task), task.messages.origin
            poison, suspected = header.poison(task.task), header.is_suspect
            most = permit if suspected else None
            heard = task.hear(header, deliveries.get(origin), outbox, most, poison)
            if heard.later is not None:
                summary.owed[origin] = heard.later
            if suspected:  # what ack and fail emit counts as well
                permit -= min(permit, heard.ended)
            if header.active:
                permit = task.tell_due(permit, outbox, poison)
                share = header.emit_seconds / len(spouts)
                turn.begin(share, share * i)
                room = EmitRoom(self.placed, len(spouts), kept)
                for emitted in task.emit(permit, room, turn, outbox, poison):
                    summary.emitted += emitted
                    self._sweep(outbox)
                    yield

    def _owed_to_left_out(
        self, header: Header, deliveries: Mapping[int, Deliveries]
    ) -> dict[int, Deliveries]:
        """Deliveries for spout tasks of this worker that the batch does without."""
        plan, origins = self.placed.plan, self.placed.origins
        out = [
            origins[plan.key_of(task)]
            for task in header.left_out
            if plan.worker_of(task) == self.partition and plan.component_of(task) in self.components
        ]
        return {origin: deliveries[origin] for origin in out if origin in deliveries}

    def _sweep(self, outbox: Outbox, last: Header | None = None) -> None:
        """Run all that waits in inboxes, component by component in the stage's order.

        Args:
            outbox: Holds the inboxes, and takes what is emitted.
            last: The batch's header in its last sweep: then come ticks, and bolts' last turns.
        """
        for component in self.components:
            executors = self._executors.get(component)
            if not executors:
                continue
            spec = self.placed.component(component)
            waits = len(executors) > 1 and (
                getattr(spec, "blocking", False) or isinstance(executors[0][0], SinkTask)
            )
            if waits:
                self._threads.run([self._chunks(tasks, outbox) for tasks in executors], outbox)
            else:
                for tasks in executors:
                    for task in tasks:
                        run_work(self._chunks([task], outbox), outbox)
            for make in self._at_the_end(component, spec.tick_seconds, last):
                queues = [
                    [(t, c) for t in tasks for c in t.named_calls.apart(make(t), outbox)]
                    for tasks in executors
                ]
                if waits:
                    self._threads.run(queues, outbox)
                else:
                    for queue in queues:
                        run_work(queue, outbox)
        outbox.inbox.waiting = 0
        if gc.get_count()[0] > UNCOLLECTED_OBJECTS:
            gc.collect(0)

    def _at_the_end(
        self, component: str, period: float | None, last: Header | None
    ) -> Iterator[Callable[[BoltTask], Chunk | None]]:
        """Yield the calls after all tuples: a tick, timers, a last turn and so on."""
        if last is None:
            return
        if period and tick_due(period, last):
            yield lambda task: task.tick(period)
        yield from self._transactions.endings(component, last)
        tasks = [task for executor in self._executors[component] for task in executor]
        for _ in range(MOST_TIMER_ROUNDS):
            if not any(task.timers and task.timers.are_due(last) for task in tasks):
                break
            yield lambda task: task.timers.due(last) if task.timers else None
        if last.drains:
            yield lambda task: task.drain()
        if not self.placed.emitters or any(task.writes_rows for task in tasks):
            yield lambda task: task.end_batch()

    def _chunks(self, tasks: Sequence[BoltTask], outbox: Outbox) -> Work:
        waiting = [(t, chunk) for t in tasks for chunk in outbox.inbox.take(t.task)]
        for task, chunk in waiting:
            if task.tells_apart and isinstance(chunk.lineage_columns, RangeLineage):
                chunk.lineage_columns = chunk.lineage_columns.drawn(outbox.random_ids)
        as_rows = self._unreadable.as_rows
        return [(t, rows) for t, chunk in waiting if len(rows := as_rows(t, chunk, outbox))]

    def _looking_ahead(self) -> Sequence[Task]:
        """The tasks that are afterwards as they were before, in a batch that looks ahead."""
        return [task for task in self._bolts if not task.writes_rows]

    def _write_down(self, header: Header, summary: Summary) -> None:
        """Save what changed of each task."""
        started = time.perf_counter()
        forgotten = {*self._looking_ahead()} if header.looks_ahead else set()
        for one in forgotten:
            one.tell_errors(summary)
            one.context.signals.take_samples()
            one.context.signals.take_steps()
        authors = {n: task for n, task in self._tasks.items() if task not in forgotten}
        tasks: dict[int, Task | AckerTask] = {**authors, **self._ackers}
        for task_id, task in tasks.items():
            key = self.placed.plan.key_of(task_id)
            if updates := task.updates(header.number):
                summary.updates[key] = self._saved(key, updates, header, summary)
            if isinstance(task, Task):
                if task.uncommitted is not None and (of_it := task.uncommitted.take()):
                    summary.with_transaction[key] = self._saved(key, of_it, header, summary)
                summary.wants_batch |= task.wants_batch
                task.tell(summary)
        self._unreadable.tell(summary)
        seconds = time.perf_counter() - started
        summary.counts["", CHECKPOINT_SECONDS, "state"] += seconds  # type: ignore[assignment]

    def _saved(
        self, key: str, records: Mapping[str, Record], header: Header, summary: Summary
    ) -> dict[str, Update]:
        updates = saved(self.store, header, key, records)
        if in_files := sum(len(records[j][0] or b"") for j, one in updates.items() if one.file):
            summary.counts["", CHECKPOINT_BYTES, "state"] += in_files
        return updates


def _counted(outbox: Outbox, summary: Summary) -> Iterator[tuple[int, bytes]]:
    """The rows that are ready to leave; their bytes are counted."""
    rows = outbox.take_rows()
    summary.moved_bytes += sum(len(row) for _, row in rows)
    return iter(rows)
