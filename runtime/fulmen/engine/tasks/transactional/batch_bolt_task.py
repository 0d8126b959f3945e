"""Tasks of a transactional topology's bolts.

A BatchBolt has an instance for each attempt of a transaction. In bolts that finish when it is
committed, instances wait here from the batch that processes the transaction to the one that commits
it. They are not durable: if they are lost, the transaction comes again in another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from sys import getrefcount
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.components.returned import refuse_result
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.marks import CommitPhase, StoreMismatch
from fulmen.api.signals import Signals
from fulmen.api.transactions import TransactionAttempt
from fulmen.api.tuples import FINISH_STREAM, HELD, Tuple
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.forks import FORKED, end_child
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.state.entries.keyed_state import KeyedState, take_state
from fulmen.engine.state.journals import FIELDS, TIMERS
from fulmen.engine.tasks.attempts import LOST, Attempts, attempts_of
from fulmen.engine.tasks.bolts.basic_bolt_task import BasicBoltTask
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.kept_tuples import OURS, held
from fulmen.engine.tasks.parts.home_evidence import HomeEvidence
from fulmen.engine.tasks.task_part import StateSize
from fulmen.engine.tasks.transactional.batch_instance import (
    BatchCollector,
    BatchInstance,
    InstanceCollectors,
)
from fulmen.engine.tasks.transactional.known_maps import MapsPart
from fulmen.engine.tasks.transactional.spout_parts import opaque_source
from fulmen.engine.tasks.uncommitted import Uncommitted
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.tuples.chunk import Chunk, Ids
from fulmen.errors import PASSED_ON, text_of, with_causes
from fulmen.topology.code.loading import create

NO_ATTEMPT = TransactionAttempt(0, 0)
"""Transactions begin with 1."""
Maps = Mapping[str, Callable[[TransactionAttempt], bool] | None]
"""The maps of one instance; see `Signals.maps`."""


class TransactionalBasicBoltTask(BasicBoltTask):
    """A task of a BasicBolt among batch bolts: it fails transactions instead of tuples."""

    attempts: Attempts
    uncommitted: Uncommitted

    @override
    def begin(self, journals: Journals) -> None:
        self.attempts = Attempts(self.component, self.task, self.errors)
        super().begin(journals)
        self.uncommitted = Uncommitted(self.placed)
        fields = self.author.fields
        record = self.guarded("pickling its fields", fields.record)
        self._begun = self.guarded("pickling its fields", fields.digests)
        self._first: dict[str, Update] = {}
        if record is not None and self.uncommitted.is_possible:
            self._first[FIELDS] = record, self.restored_at + 1

    @override
    def begin_attempts(self, work: TransactionWork) -> None:
        _begin(self.uncommitted, self.attempts, work)

    @override
    def updates(self, number: int) -> dict[str, Update]:
        records, first = super().updates(number), self._first
        self._first = {}
        self.guarded("keeping its state", lambda: self.uncommitted.hold(records))
        return first

    @override
    def record(self, number: int) -> dict[str, Update]:
        records = super().record(number)
        if FIELDS in records and not self.uncommitted.is_possible:
            del records[FIELDS]
            self.guarded("keeping its fields", self._refuse_changed_fields)
        return records

    def _refuse_changed_fields(self) -> None:
        """Refuse fields that are not what they were first. Those that are new are not yet."""
        for name, now in self.author.fields.digests().items():
            if self._begun.setdefault(name, now) not in (now, None):
                cure = f", or name {name!r} in `transient` if it is no part of any result"
                self.uncommitted.refuse(f"field {name!r}", cure)

    @override
    def note_failure(self, position: int, error: BaseException) -> None:
        attempt = self.chunk_attempts[position]
        self.failed.append((position, with_causes(error, text_of(error))))
        if isinstance(attempt, TransactionAttempt):
            crash = self.attempts.raised(attempt, error, self.callback)
            self.crash = self.crash or crash

    @override
    def note_many_failure(self, n: int, error: BaseException) -> str:
        reason = super().note_many_failure(n, error)
        for attempt in dict.fromkeys(self.chunk_attempts):
            if isinstance(attempt, TransactionAttempt):
                self.attempts.fail(attempt, reason)
        return reason

    @override
    def execute(self, chunk: Chunk) -> None:
        self.chunk_attempts = attempts_of(chunk)
        super().execute(chunk)

    @override
    def send_buffer(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        expected = [self.chunk_attempts[i] for i in buffer.origins]
        self.attempts.without_strays(buffer, expected, self.who)
        if len(buffer):
            super().send_buffer(buffer, chunk, xors, outbox)

    @override
    def fail_origin(self, origin: Any, chunk: Chunk, reason: str) -> None:
        self.attempts.fail(self.chunk_attempts[origin], reason)

    @override
    def drain(self) -> None:
        """Take no last turn: what it would emit is no part of a transaction."""
        return


class BatchBoltTask(BoltTask):
    """A task of a BatchBolt.

    Attributes:
        instances: Those that are at work, or wait to be finished.
    """

    ends_attempts = True
    attempts: Attempts
    uncommitted: Uncommitted

    @override
    def begin(self, journals: Journals) -> None:
        """Instances are made for attempts, when these come."""
        self.attempts = Attempts(self.component, self.task, self.errors)
        self.make_collector()
        self.instances: dict[TransactionAttempt, BatchInstance] = {}
        self._signals: list[Signals] = []
        self.uncommitted = Uncommitted(self.placed)
        self._state = self.guarded("restoring self.state", lambda: KeyedState.restore(journals))
        self.add(StateSize(self.task, self._state))
        self.homes = self._evidence()
        self._given_up: set[TransactionAttempt] = set()
        self._opaque = opaque_source(self.placed)

    def _evidence(self) -> HomeEvidence | None:
        """What shows where entries of its state belong; None: it can't have any."""
        if not self.uncommitted.is_possible:
            return None
        spec, code_folder = self.placed.component(self.component), self.placed.code_folder
        try:
            instance = create(spec, code_folder)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (author's code: each attempt says what is wrong)
            return None
        timers, known = TaskTimers(KeyedState(name=TIMERS)), self._known_homes
        return self.add(HomeEvidence(self, instance, self._state, timers, known, by_attempts=True))

    @override
    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        super().restore(engine, journals)
        self._maps = self.add(MapsPart(engine))

    @override
    def new_collector(self) -> Any:
        return InstanceCollectors()

    @override
    def begin_attempts(self, work: TransactionWork) -> None:
        _begin(self.uncommitted, self.attempts, work)
        waiting = set(work.waiting)
        for attempt in [a for a in self.instances if a not in waiting]:
            del self.instances[attempt]
        # what those have counted that are no more was taken, or was no part of a committed batch
        self._signals = [instance.signals for instance in self.instances.values()]
        self.processed = {opened.attempt for opened in work.processes}
        if self.processed and self.homes is not None:
            self.homes.begin_attempt()
        self._given_up = {opened.attempt for opened in work.processes if opened.is_dropped}
        self.context.batch.commits = self._commit_phase(work)

    def _commit_phase(self, work: TransactionWork) -> CommitPhase:
        """The commit phase: what stores may be written for, and what they are to have."""
        if work.phase is None or self.component not in self.placed.commit_phase:
            return CommitPhase()
        source, known = self.placed.emitters[0], frozenset(self._maps.names)
        inherited = self._maps.inherited
        return replace(
            work.phase, known=known, source=source, opaque=self._opaque, inherited=inherited
        )

    def finish_beside(self, attempt: TransactionAttempt) -> None:
        """Have the attempt's instance finished in a thread, if it is here and waits for that."""
        if (waiting := self.instances.get(attempt)) is not None:
            waiting.finish_beside()

    @override
    def execute(self, chunk: Chunk) -> None:
        if chunk.stream == FINISH_STREAM:
            self.callback = "finish_batch"
            self._end(*chunk.rows[0])
            return
        attempt: Any = None
        call: Any = None
        kept: list[Tuple] = []
        tup = Tuple((), chunk, 0)
        for position, values in enumerate(chunk.rows):
            if values[0] is not attempt:
                attempt = values[0]
                call = self._execute_of(attempt)
            if call is None:  # the attempt has failed
                continue
            if getrefcount(tup) > OURS:
                kept.append(tup)
                tup = Tuple(values, chunk, position)
            else:
                tup.values = values
                tup._i = position
            try:
                if (returned := call(tup)) is not None:
                    refuse_result(returned)
            except BaseException as e:  # noqa: BLE001 (author's code)
                self._raised(attempt, e)
                call = None
            if FORKED:
                end_child()
        kept.append(tup)
        for tup in kept:
            tup._origin, tup._i = held(chunk, tup._i, 0), ~HELD

    def _execute_of(self, attempt: TransactionAttempt) -> Callable[[Tuple], object] | None:
        instance = self._instance(attempt)
        if instance is None:
            return None
        self.collector.add(instance.collector, opens=True)
        return instance.bolt.execute

    def _instance(self, attempt: TransactionAttempt) -> BatchInstance | None:
        """The attempt's instance; a new one if it begins here. None: the attempt has failed."""
        if attempt in self.attempts.failed:
            return None
        if (instance := self.instances.get(attempt)) is not None:
            return instance
        if attempt not in self.processed:
            self.attempts.fail(attempt, LOST, is_loss=True)
            return None
        try:
            instance = self.instances[attempt] = self._prepared(attempt)
        except BaseException as e:  # noqa: BLE001 (author's code)
            self._raised(attempt, e, "prepare")
        finally:
            end_child()
        return instance

    def _prepared(self, attempt: TransactionAttempt) -> BatchInstance:
        collector = BatchCollector(self)
        collector.attempt = attempt
        bolt = create(self.placed.component(self.component), self.placed.code_folder)
        take_state(bolt, self._state)
        # its own: a thread of an attempt that came to nothing may go on beside the next one
        context = replace(self.context, signals=Signals(self.context.signals.hold))
        self._signals.append(context.signals)
        bolt.prepare(self.conf, context, collector, attempt)
        is_given_up = attempt in self._given_up
        return BatchInstance(bolt, attempt, collector, context.signals, is_given_up)

    def try_out(self) -> None:
        """Prepare an instance for an attempt that there never is, and drop it.

        Raises:
            Unavailable: What it needs is away.
            ComponentFailed: Something is wrong with it, or the topology has `onError: crash`.
        """
        self.open(lambda: self._prepared(NO_ATTEMPT))

    def _end(self, attempt: TransactionAttempt, finishes: bool) -> None:
        instance = self._instance(attempt)
        if instance is None or not finishes:
            return
        del self.instances[attempt]  # it is never finished twice
        try:
            self._finish(instance)
            self._note_maps(attempt, instance.signals.maps)
        except BaseException as e:  # noqa: BLE001 (author's code)
            self._raised(attempt, e)
        else:
            self.collector.add(instance.collector, opens=False)

    def _finish(self, instance: BatchInstance) -> None:
        """Have it finished. One that is given up need not succeed: its maps are told nothing."""
        try:
            instance.finish()
        except (*PASSED_ON, ServiceUnavailable, StoreMismatch):
            raise
        except BaseException as e:  # author's code
            if not instance.is_given_up:
                raise
            if not isinstance(e, FailedException):
                self.report(e, what="finish_batch")

    def _note_maps(self, attempt: TransactionAttempt, maps: Maps) -> None:
        """Remember which maps are this bolt's: they have each transaction from now on.

        Those that `finish_batch` has not written to are told that it has nothing for them.
        """
        if self.component not in self.placed.commit_phase:
            return
        own = {name for name, left in list(maps.items()) if left is None or left(attempt)}
        if self._maps.wrote(own):
            self.was_called = True

    def _raised(self, attempt: TransactionAttempt, error: BaseException, what: str = "") -> None:
        if isinstance(error, PASSED_ON):
            raise error
        if not isinstance(error, FailedException):
            self.failed.append((0, with_causes(error, text_of(error))))
        self.instances.pop(attempt, None)
        crash = self.attempts.raised(attempt, error, what or self.callback)
        self.crash = self.crash or crash

    @override
    def send_buffer(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        self.attempts.without_strays(buffer, list(buffer.origins), self.who)
        outbox.send(self.task, buffer.routes, buffer.tuple_rows(), None, buffer.chosen)

    @override
    def fail_origin(self, origin: Any, chunk: Chunk, reason: str) -> None:
        self.attempts.fail(origin, reason)

    @override
    def acked(self, chunk: Chunk) -> Any:
        return None if not self.failed else np.arange(max(0, len(chunk) - len(self.failed)))

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        for signals in self._signals:
            summary.take(self.task, signals, self.component)

    @override
    def record(self, number: int) -> dict[str, Update]:
        """Record the task's state, and nothing of instances, which are not durable."""
        state, attempt = self._state, self.uncommitted.attempt
        if attempt is not None and attempt in self.attempts.failed:
            self.uncommitted.lose()  # a thread that nobody waits for may go on to change it
            return {}
        records = self.guarded("pickling self.state", lambda: state.updates(number, self.calls))
        self.guarded("keeping its state", lambda: self.uncommitted.hold(records))
        return {}

    @override
    def drain(self) -> None:
        """Take no last turn: each batch has its end."""
        return

    @override
    def end(self) -> None:
        self.instances = {}


def _begin(uncommitted: Uncommitted, attempts: Attempts, work: TransactionWork) -> None:
    if uncommitted.begin(work) and work.commits is not None:
        attempts.fail(work.commits, LOST, is_loss=True)
