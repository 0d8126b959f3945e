"""Pinned spouts: hosted by the driver, one thread for each task.

For sources that can't seek, or whose acks belong to a connection: their instances outlive failed
attempts, unlike those on workers, so what they emitted is kept until it is committed, and is sent
again with every attempt of its batch.

A task's turn (hear how trees ended, then emit) may take longer than a batch, because its
`next_tuple` may wait for a message. A batch takes the turns that have ended, and leaves the others
for a later one.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from fulmen.checkpoint import Store, Update, load_many, read_manifest, save, state_file_name
from fulmen.engine.instances import Slots
from fulmen.engine.instances import Update as Record
from fulmen.engine.outbox import Outbox
from fulmen.engine.protocol import INLINE_DELIVERIES, Deliveries, Header, Injected, Summary
from fulmen.engine.setup import Setup
from fulmen.engine.spouts import CRASHED, SpoutTask

PATIENCE_SECONDS = 0.01
"""How long a batch waits for turns that have just begun."""


@dataclass
class Turn:
    """What one task did in one turn.

    Attributes:
        rows: (worker, row) for the first stage.
        summary: Of this task alone.
        records: What the commit has to write of its state.
        outbox: Where its messages to ackers still are.
    """

    rows: list[tuple[int, bytes]]
    summary: Summary
    records: Mapping[str, Record]
    outbox: Outbox


@dataclass
class _Hosted:
    """A pinned task and its thread."""

    slot: int
    thread: ThreadPoolExecutor
    task: SpoutTask | None = None
    turn: Future[Turn] | None = None
    owed: Deliveries | None = None


@dataclass
class PinnedSpouts:
    """All pinned tasks of a topology."""

    setup: Setup
    store: Store
    number: int
    _hosted: dict[int, _Hosted] = field(default_factory=dict)
    _kept: dict[int, Turn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.setup.plan.pinned
        tasks = [task for name in names for task in self.setup.plan.tasks(name)]
        keys = {task: self.setup.plan.key_of(task) for task in tasks}
        found = load_many(self.store, read_manifest(self.store, self.number), keys.values())
        for task, key in keys.items():
            thread = ThreadPoolExecutor(1, f"fulmen-{key}")
            hosted = self._hosted[task] = _Hosted(self.setup.slots[key], thread)
            hosted.task = thread.submit(self._make, task, found[key]).result()

    def _make(self, task: int, slots: Slots) -> SpoutTask:
        return SpoutTask(self.setup, task, slots, self.number, np.random.default_rng())

    def take(self, header: Header) -> tuple[Header, list[Summary], dict[int, Deliveries]]:
        """What pinned tasks have for an attempt.

        Args:
            header: Of the attempt. A retry sends what the attempt before sent.

        Returns:
            The header with their rows, their summaries, and deliveries that they could not take
            yet.
        """
        if not header.is_retry:
            self._kept = {}
            self._begin_turns(header)
            self._collect_turns()
        for task in header.poisoned:
            if task in self._kept:
                self._give_up(self._kept[task])
        owed = {h.slot: h.owed for h in self._hosted.values() if h.owed is not None}
        rows: dict[int, list[bytes]] = {}
        for turn in self._kept.values():
            for worker, row in turn.rows:
                rows.setdefault(worker, []).append(row)
        summaries = [self._summary(task, turn, header) for task, turn in self._kept.items()]
        return header.with_injected(self._inject(rows, header)), summaries, owed

    def _begin_turns(self, header: Header) -> None:
        for task, hosted in self._hosted.items():
            delivery = (header.deliveries or {}).get(hosted.slot)
            if delivery is not None:
                hosted.owed = delivery if hosted.owed is None else hosted.owed.plus(delivery)
            if hosted.turn is None:
                delivery, hosted.owed = hosted.owed, None
                assert hosted.task is not None
                hosted.turn = hosted.thread.submit(
                    self._turn, hosted.task, delivery, header, header.permit(task)
                )

    def _collect_turns(self) -> None:
        futures = [h.turn for h in self._hosted.values() if h.turn is not None]
        wait(futures, timeout=PATIENCE_SECONDS)
        for task, hosted in self._hosted.items():
            if hosted.turn is not None and hosted.turn.done():
                self._kept[task] = hosted.turn.result()
                hosted.turn = None

    def _turn(
        self, task: SpoutTask, delivery: Deliveries | None, header: Header, permit: int
    ) -> Turn:
        """In the task's own thread."""
        outbox = Outbox(self.setup, -1, np.random.default_rng())
        summary = Summary(-1, -1)
        started = time.perf_counter()
        if delivery is not None:
            task.deliver(delivery, outbox)
        task.set_active(header.active, outbox)
        if header.active:
            deadline = time.monotonic() + header.emit_seconds
            summary.emitted = sum(task.emit(permit, deadline, outbox, poisoned=False))
        outbox.pack_all()
        messages = outbox.messages
        outbox.pack_messages()
        outbox.messages = messages
        summary.exhausted[task.task] = task.exhausted
        summary.spout_pending[task.task] = task.pending.count
        summary.counts = outbox.counts
        summary.errors, task.errors = task.errors, []
        summary.seconds = time.perf_counter() - started
        return Turn(outbox.take_rows(), summary, {}, outbox)

    def _summary(self, task: int, turn: Turn, header: Header) -> Summary:
        """The turn's summary, with the state of its task written for this very attempt."""
        hosted = self._hosted[task]
        assert hosted.task is not None
        if not turn.records:
            turn.records = hosted.task.updates(header.number)
        key = self.setup.plan.key_of(task)
        updates: dict[str, Update] = {
            slot: save(self.store, header.number, header.tag, key, slot, data, keep_from)
            for slot, (data, keep_from) in turn.records.items()
        }
        turn.summary.updates = {key: updates} if updates else {}
        return turn.summary

    def _give_up(self, turn: Turn) -> None:
        """Fail all that was emitted in this turn, since it crashes its workers."""
        outbox = turn.outbox
        for roots, values, _ in outbox.messages.inits:
            values[:] = 1
            outbox.messages.fails += [(root, CRASHED) for root in roots.tolist()]
        outbox.messages.acks = []
        outbox.pack_messages()
        turn.rows = outbox.take_rows()

    def _inject(self, rows: Mapping[int, list[bytes]], header: Header) -> Injected:
        if sum(len(row) for some in rows.values() for row in some) <= INLINE_DELIVERIES:
            return Injected(rows)
        name = state_file_name(header.number, header.tag, "driver", "injected")
        self.store.put(name, pickle.dumps(dict(rows), 5))
        return Injected({}, name)

    def close(self) -> None:
        """Close all instances, but for those whose `next_tuple` still waits for a message."""
        for hosted in self._hosted.values():
            if hosted.task is not None and (hosted.turn is None or hosted.turn.done()):
                hosted.thread.submit(hosted.task.close).result()
            hosted.thread.shutdown(wait=False, cancel_futures=True)
