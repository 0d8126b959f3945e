"""Pinned spouts: hosted by the driver, one thread for each task.

For sources that can't seek, or whose acks belong to a connection: their instances outlive failed
attempts, unlike those on workers, so what they emitted is kept until it is committed, and is sent
again with every attempt of its batch.

A task's turn (hear how trees ended, then emit) may take longer than a batch, because its
`next_tuple` may wait for a message. A batch takes the turns that have ended, and leaves the others
for a later one.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fulmen.checkpoint import Store, Update, load_many, read_manifest, save, state_file_name
from fulmen.checkpoint.rewriting import Journals
from fulmen.checkpoint.rewriting import Update as Records
from fulmen.engine.driver.pinned_turns import SpoutTurn
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.spout_emits import emit_bytes
from fulmen.engine.protocol.deliveries import NOTHING_ENDED, Deliveries
from fulmen.engine.protocol.header import Header, Injected
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.state import dropped_tuples
from fulmen.engine.state.keyed_state import KeyedState
from fulmen.engine.tasks import forks
from fulmen.engine.tasks.spout_task import SpoutTask
from fulmen.engine.tasks.task_base import Unavailable
from fulmen.plan.model import DRIVER

PATIENCE_SECONDS = 0.01
"""How long a batch waits for turns that have just begun."""


class Thread:
    """Runs one call after another. A call that waits for ever does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                future.set_result(call())
            except BaseException as e:  # noqa: BLE001 (whoever waits for the result gets it)
                future.set_exception(e)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have `call` called in the thread."""
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future


@dataclass
class _Hosted:
    """A pinned task and its thread.

    Attributes:
        origin: Its number in root ids.
        thread: Calls all of its methods.
        task: The task.
        turn: Has begun, and was not part of a batch yet.
        handed: How trees ended, as that turn was told.
        waiting: How trees ended, to be told to the next turn.
        dropping: What is kept of dropped tuples once the attempt at hand is committed.
    """

    origin: int
    thread: Thread
    task: SpoutTask
    turn: Future[SpoutTurn] | None = None
    handed: Deliveries = NOTHING_ENDED
    waiting: Deliveries = NOTHING_ENDED
    dropping: KeyedState | None = None

    def committed(self) -> None:
        """The last attempt was committed."""
        if self.dropping is not None:
            self.task.dropped, self.dropping = self.dropping, None

    def drop(self, turn: SpoutTurn, header: Header) -> Mapping[str, Records]:
        """Keep the message that an attempt drops: what the commit has to write, by journal."""
        kept = self.task.dropped.twin()  # the attempt may come to nothing
        for stream, values in turn.next_messages():
            cause, traceback = header.cause, header.traceback
            dropped_tuples.note(kept, stream, values, None, cause, traceback, self.task.now())
        self.dropping = kept
        return kept.updates(header.number)

    @property
    def owed(self) -> Deliveries:
        """What must stay in the checkpoint, because the state that it led to is not there yet."""
        return self.handed.plus(self.waiting)


class PinnedSpouts:
    """All pinned tasks of a topology.

    Args:
        placed: The topology; may be replaced by one with another plan.
        store: The checkpoint.
        number: The commit to start from.
    """

    def __init__(self, placed: PlacedTopology, store: Store, number: int) -> None:
        self.placed = placed
        self._store = store
        self._kept: dict[int, SpoutTurn] = {}
        tasks = [task for name in placed.plan.pinned for task in placed.plan.tasks(name)]
        keys = {task: placed.plan.key_of(task) for task in tasks}
        found = load_many(store, read_manifest(store, number), keys.values())
        self._hosted: dict[int, _Hosted] = {}
        try:
            for task, key in keys.items():
                thread = Thread(f"fulmen-{key}")
                made = thread.submit(partial(self._make, task, found[key], number)).result()
                self._hosted[task] = _Hosted(placed.origins[key], thread, made)
        except Unavailable:  # all are made anew later
            self.close()
            raise

    def _make(self, task: int, journals: Journals, number: int) -> SpoutTask:
        forks.begin()
        return SpoutTask(self.placed, task, journals, number, np.random.default_rng())

    def take(self, header: Header) -> tuple[Header, list[Summary], dict[int, Deliveries]]:
        """What pinned tasks have for an attempt.

        Args:
            header: Of the attempt. A retry sends what the attempt before sent.

        Returns:
            The header with their rows, their summaries, and deliveries that must not be forgotten
            yet.
        """
        if not header.is_retry:
            self._kept = {task: turn for task, turn in self._kept.items() if turn.committed()}
            for hosted in self._hosted.values():
                hosted.committed()
            self._begin_turns(header)
            self._collect_turns()
        owed = {hosted.origin: hosted.owed for hosted in self._hosted.values() if hosted.owed}
        rows: dict[int, list[bytes]] = {}
        summaries: list[Summary] = []
        for task, turn in self._kept.items():
            if task in header.poisoned:
                part, summary = turn.poisoned_attempt(self.placed, header.cause)
            else:
                permit = header.permits.get(task, 0) if header.permits else None
                part, summary = turn.attempt(self.placed, permit), turn.summary
            for worker, row in part:
                rows.setdefault(worker, []).append(row)
            summaries.append(self._completed(task, turn, summary, header))
        file = state_file_name(header.number, header.tag, "driver", "pinned")
        injected = Injected.made(rows, file, self._store.put)
        return header.with_injected(injected), summaries, owed

    def _begin_turns(self, header: Header) -> None:
        for task, hosted in self._hosted.items():
            told = (header.deliveries or {}).get(hosted.origin, NOTHING_ENDED)
            # what was owed has come back with the commit, before what is new
            hosted.waiting = hosted.waiting.plus(told.after(hosted.owed))
            if hosted.turn is None and task not in self._kept:
                hosted.handed, hosted.waiting = hosted.waiting, NOTHING_ENDED
                permit = header.permit(task)
                turn = partial(self._turn, hosted.task, hosted.handed, header, permit)
                hosted.turn = hosted.thread.submit(turn)

    def _collect_turns(self) -> None:
        wait([h.turn for h in self._hosted.values() if h.turn is not None], PATIENCE_SECONDS)
        for task, hosted in self._hosted.items():
            if hosted.turn is not None and hosted.turn.done():
                self._kept[task] = hosted.turn.result()
                hosted.turn, hosted.handed = None, NOTHING_ENDED

    def _turn(
        self, task: SpoutTask, deliveries: Deliveries, header: Header, permit: int
    ) -> SpoutTurn:
        """In the task's own thread."""
        forks.begin()
        placed = self.placed
        outbox = Outbox(placed, -1, np.random.default_rng())
        summary = Summary(-1, DRIVER, process=(DRIVER, os.getpid()))
        started = time.perf_counter()
        if header.active:
            task.set_active(outbox, active=True)
        if deliveries:
            task.deliver(deliveries, outbox)
        if not header.active:
            task.set_active(outbox, active=False)
        else:
            deadline = time.monotonic() + header.emit_seconds
            most_bytes = emit_bytes(placed) // len(self._hosted)
            emits = task.emit(permit, most_bytes, deadline, outbox, None)
            summary.emitted = sum(emits)
        outbox.pack_all()
        for _, reason in outbox.refused:
            task.report(reason)
        outbox.pack_messages()
        summary.exhausted[task.task] = task.exhausted
        summary.spout_pending[task.task] = task.pending.count
        summary.counts = outbox.counts
        summary.errors, task.errors = task.errors, []
        summary.seconds = time.perf_counter() - started
        rows = outbox.take_rows()
        summary.moved_bytes = sum(len(row) for _, row in rows)
        return SpoutTurn(placed, rows, summary)

    def _completed(self, task: int, turn: SpoutTurn, summary: Summary, header: Header) -> Summary:
        """A turn's summary, with the state of its task written for this very attempt."""
        hosted = self._hosted[task].task
        key = self.placed.plan.key_of(task)
        records: dict[str, Records] = {}
        if task in header.poisoned:
            records |= self._hosted[task].drop(turn, header)
        pending = {task: hosted.pending.count + turn.left}
        if turn.is_told:
            process, exhausted = summary.process, summary.exhausted
            summary = replace(
                Summary(-1, DRIVER, process=process, exhausted=exhausted),
                errors=summary.errors[len(turn.summary.errors) :],
                counts=summary.counts - turn.summary.counts,
            )
        else:
            if not turn.records:
                turn.records = hosted.updates(header.number)
            records = {**turn.records, **records}
        updates: dict[str, Update] = {
            journal: save(self._store, header.number, header.tag, key, journal, data, keep_from)
            for journal, (data, keep_from) in records.items()
        }
        return replace(summary, updates={key: updates} if updates else {}, spout_pending=pending)

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
