"""Pinned spouts: hosted by the driver, one thread for each task.

For sources that can't seek, or whose acks belong to a connection: their instances outlive failed
attempts, unlike those on workers, so what they emitted is kept until it is committed, and is sent
again with every attempt of its batch.

A task's turn (hear how trees ended, then emit) may take longer than a batch, because its
`next_tuple` may wait for a message. A batch takes the turns that have ended, and leaves the others
for a later one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

import numpy as np

from fulmen.checkpoint import Store, load_many, read_manifest, state_file_name
from fulmen.checkpoint.rewriting import Journals
from fulmen.checkpoint.rewriting import Update as Records
from fulmen.engine.emitting.collectors.spout_emits import EmitRoom
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.hosted.hosted_task import HostedTask, TaskThread
from fulmen.engine.hosted.spout_turn import SpoutTurn
from fulmen.engine.protocol.callbacks import forks
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.processes import run_delay_seconds, this_process
from fulmen.engine.protocol.deliveries import NOTHING_ENDED, Deliveries
from fulmen.engine.protocol.figures.statistics import PENDING_MESSAGES, LevelKey
from fulmen.engine.protocol.header import Header, Injected
from fulmen.engine.protocol.placed_topology import CurrentTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.taps.sampler import TapSampler
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable
from fulmen.engine.tasks.saving import saved
from fulmen.engine.tasks.spouts.spout_task import SpoutTask
from fulmen.engine.tasks.spouts.turn_time import TurnTime
from fulmen.plan.model import DRIVER

PATIENCE_SECONDS = 0.01
"""How long a batch waits for turns that have just begun."""
LOOK_SECONDS = 0.5


class PinnedSpouts:
    """All pinned tasks of a topology.

    Args:
        current: The topology, whose plan may change.
        store: The checkpoint.
        number: The commit to start from.
        generator: Makes random generators: one for each task, as each has a thread.
        waiting: Called while an instance is made; it may raise.
        wake: Called, on any thread, when a spout wants the next batch at once.
    """

    def __init__(
        self,
        current: CurrentTopology,
        store: Store,
        number: int,
        generator: Callable[[], np.random.Generator],
        waiting: Callable[[], None] = lambda: None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._current = current
        self._wake = wake
        placed = current.placed
        self._store = store
        self._waiting = waiting
        self._rng = generator()  # for the driver's thread
        self._kept: dict[int, SpoutTurn] = {}
        self._has_heard = False  # of any attempt
        tasks = [task for name in placed.plan.pinned for task in placed.plan.tasks(name)]
        keys = {task: placed.plan.key_of(task) for task in tasks}
        loaded = load_many(store, read_manifest(store, number), keys.values())
        self._hosted: dict[int, HostedTask] = {}
        try:
            for task, key in keys.items():
                thread = TaskThread(f"fulmen-{key}")
                rng = generator()
                making = thread.submit(partial(self._make, task, loaded[key], number, rng))
                made = self._made(task, making)
                made.context.signals.wake = self._wake
                self._hosted[task] = HostedTask(placed.origins[key], thread, made, rng)
        except Unavailable:  # all are made anew later
            self.close()
            raise

    def _made(self, task: int, making: Future[SpoutTask]) -> SpoutTask:
        """The task, when it is made. Its `open` may take as long as making those on workers."""
        placed = self._current.placed
        limit = placed.limits.making_share * placed.topology.spec.batch_timeout_seconds
        deadline = time.monotonic() + limit
        while not making.done():
            wait([making], LOOK_SECONDS)
            self._waiting()
            if not making.done() and time.monotonic() >= deadline:
                under_way = (call.callback for call in CALLS.under_way() if call.task == task)
                message = f"{next(under_way, 'open')}: it did not end within {limit:g} s"
                component = placed.plan.component_of(task)
                raise ComponentFailed(ErrorReport(component, task, message, fatal=True))
        return making.result()

    def _make(
        self, task: int, journals: Journals, number: int, rng: np.random.Generator
    ) -> SpoutTask:
        forks.begin()
        return SpoutTask(self._current.placed, task, journals, number, rng)

    def take(self, header: Header) -> tuple[Header, list[Summary], dict[int, Deliveries]]:
        """Take the rows of pinned tasks for an attempt.

        Args:
            header: Of the attempt. A retry sends what the attempt before sent.

        Returns:
            The header with their rows, their summaries, and deliveries that must not be forgotten
            yet.
        """
        if header.is_retry:
            if not self._has_heard:  # they were made for a retry, as a service was away at first
                self._hear(header)
        else:
            self._kept = {task: turn for task, turn in self._kept.items() if turn.committed()}
            for hosted in self._hosted.values():
                hosted.committed()
            self._hear(header)
            self._begin_turns(header)
            self._collect_turns()
        owed = {hosted.origin: hosted.owed for hosted in self._hosted.values() if hosted.owed}
        rows: dict[int, list[bytes]] = {}
        summaries: list[Summary] = []
        for task, turn in self._kept.items():
            if task in header.poisoned:
                part, summary = turn.poisoned_attempt(self._current.placed, header.cause, self._rng)
            else:
                permit = header.permits.get(task, 0) if header.permits else None
                part, summary = turn.attempt(self._current.placed, permit), turn.summary
            for worker, row in part:
                rows.setdefault(worker, []).append(row)
            summaries.append(self._completed(task, turn, summary, header))
        file = state_file_name(header.number, header.tag, "driver", "pinned")
        header_bytes = self._current.placed.limits.header_bytes
        injected = Injected.made(rows, header_bytes, file, self._store.put)
        return header.with_injected(injected), summaries, owed

    def _hear(self, header: Header) -> None:
        """Take over how trees ended, to be told to the next turns."""
        self._has_heard = True
        for hosted in self._hosted.values():
            told = (header.deliveries or {}).get(hosted.origin, NOTHING_ENDED)
            # what was owed has come back with the commit, before what is new
            hosted.waiting = hosted.waiting.plus(told.after(hosted.owed))

    def _begin_turns(self, header: Header) -> None:
        for task, hosted in self._hosted.items():
            if hosted.turn is None and task not in self._kept:
                hosted.handed, hosted.waiting = hosted.waiting, NOTHING_ENDED
                permit = header.permit(task)
                turn = partial(self._turn, hosted, hosted.handed, header, permit)
                hosted.turn = hosted.thread.submit(turn)

    def _collect_turns(self) -> None:
        wait([h.turn for h in self._hosted.values() if h.turn is not None], PATIENCE_SECONDS)
        for task, hosted in self._hosted.items():
            if hosted.turn is not None and hosted.turn.done():
                self._kept[task] = hosted.turn.result()
                hosted.turn, hosted.handed = None, NOTHING_ENDED

    def _turn(
        self, hosted: HostedTask, deliveries: Deliveries, header: Header, permit: int
    ) -> SpoutTurn:
        """Run one turn, in the task's own thread."""
        forks.begin()
        task, placed = hosted.task, self._current.placed
        summary = Summary(-1, DRIVER, process=this_process(DRIVER))
        outbox = Outbox(placed, -1, hosted.rng, summary)
        outbox.wall = header.wall
        outbox.taps = TapSampler.of(header.taps, placed)
        started = time.perf_counter()
        task.begin_batch(header)
        task.hear(header, deliveries or None, outbox)
        if header.active:
            permit = task.tell_due(permit, outbox)
            turn = TurnTime(time.monotonic, run_delay_seconds)
            turn.begin(header.emit_seconds)
            room = EmitRoom(placed, len(self._hosted))
            emits = task.emit(permit, room, turn, outbox, None)
            summary.emitted = sum(emits)
        outbox.pack_all()
        for refused in outbox.refused:
            if refused.is_reported:
                task.report(refused.reason)
        outbox.pack_messages()
        if outbox.taps is not None:
            summary.tapped = outbox.taps.end([task.messages])
        task.errors.warn_of(outbox)
        task.tell(summary)
        summary.seconds = time.perf_counter() - started
        rows = outbox.take_rows()
        summary.moved_bytes = sum(len(row) for _, row in rows)
        return SpoutTurn(placed, rows, summary)

    def _completed(self, task: int, turn: SpoutTurn, summary: Summary, header: Header) -> Summary:
        """A turn's summary, with the state of its task written for this very attempt."""
        hosted = self._hosted[task].task
        key = self._current.placed.plan.key_of(task)
        records: dict[str, Records] = {}
        if task in header.poisoned:
            records |= self._hosted[task].drop(turn, header)
        left = hosted.messages.pending.count + turn.left
        levels: dict[LevelKey, int] = {(PENDING_MESSAGES, task): left}
        if turn.is_told:
            process, exhausted, resting = summary.process, summary.exhausted, summary.resting
            summary = replace(
                Summary(-1, DRIVER, process=process, exhausted=exhausted, resting=resting),
                errors=summary.errors[len(turn.summary.errors) :],
                counts=summary.counts - turn.summary.counts,
            )
        else:
            if not turn.records:
                turn.records = hosted.updates(header.number)
            records = {**turn.records, **records}
        updates = saved(self._store, header, key, records)
        updated = {key: updates} if updates else {}
        wants = hosted.wants_batch
        return replace(summary, updates=updated, levels=levels, wants_batch=wants)

    def give(self, summaries: Sequence[Summary]) -> None:
        """Give the spouts the results of calls that a commit has."""
        results = [result for summary in summaries for result in summary.results]
        for hosted in self._hosted.values() if results else ():
            hosted.task.context.signals.give_returned(results)

    def close(self) -> list[ErrorReport]:
        """Close all instances; later those whose `next_tuple` still waits for a message.

        Returns:
            What went wrong.
        """
        errors: list[ErrorReport] = []
        for hosted in self._hosted.values():
            closed = hosted.thread.submit(hosted.task.close)
            if hosted.turn is None or hosted.turn.done():
                errors += closed.result()
        return errors
