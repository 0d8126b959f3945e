"""A task of a transactional spout: it emits its part of transactions.

Of a source with partitions it keeps, in the checkpoint, where each transaction ends in each of its
partitions: of all that are not committed, and of the last one that is. That is Storm's
RotatingTransactionalState; here it is committed together with what was processed, before any
committer has written anything.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.components.returned import refuse_result, refuse_unrun
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
)
from fulmen.api.transactions import TransactionAttempt
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.emitting.collectors.emitter import not_a_list
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.protocol.transaction_work import Opened, TransactionWork
from fulmen.engine.state import journals as journals_of
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.values.renamed_classes import loads
from fulmen.engine.tasks.attempts import Attempts
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import Journaled
from fulmen.engine.tasks.transactional.batch_instance import BatchCollector
from fulmen.engine.tasks.transactional.spout_parts import part_of, wrong_part
from fulmen.errors import PASSED_ON, GroupingError, text_of
from fulmen.topology.code.loading import create

Ends = tuple[tuple[int, Any], ...]
"""The ends of transactions in one partition: (txid, metadata), ascending."""


_NO_PART = object()


def _emit_of(partition: int) -> str:
    return f"emit of partition {partition}"


class EmitterTask(Task):
    """One task of a transactional spout."""

    instance: TransactionalSource[Any, Any]
    attempts: Attempts
    opening, closing = "get_emitter", "close"

    @override
    def make_collector(self) -> Any:
        self.collector = BatchCollector(self)
        return self.collector

    @override
    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        self.ends = KeyedState.restore(journals, name=journals_of.PARTITIONS)
        what = "the metadata of its partitions"
        self.add(Journaled(self.guarded, what, self.ends.updates))

    @override
    def begin(self, journals: Journals) -> None:
        self.attempts = Attempts(self.component, self.task, self.errors)
        self.make_collector()
        self._cleaned = 0
        self._count: int | None = None
        spec, code_folder = self.placed.component(self.component), self.placed.code_folder
        self.instance = self.guarded("making the instance", lambda: create(spec, code_folder))
        state = KeyedState.restore(journals)
        self.add(Journaled(self.guarded, "its state", state.updates))
        self.context = replace(self.context, state=state)
        self.exhausted = False
        self.open(self._make_emitter)

    def _make_emitter(self) -> None:
        self.emitter: Any = self.instance.get_emitter(self.conf, self.context)
        wanted = part_of(self.instance, "Emitter")
        if not isinstance(self.emitter, wanted):
            raise wrong_part(self.emitter, wanted)

    @override
    def end(self) -> None:
        refuse_unrun(self.emitter.close())

    def emit(self, work: TransactionWork, outbox: Outbox) -> Iterator[int]:
        """Emit what is to be processed. Yields after each part how many tuples it had."""
        self._clean_up(work.committed)
        for opened in work.processes:
            if opened.attempt in self.attempts.failed:
                continue
            self.was_called = True
            for what, call in self._parts(opened, self._metadata(opened)):
                emitted = self._emit_part(opened, what, call, outbox)
                if emitted is None:
                    break
                yield emitted
            if ask := getattr(self.emitter, "is_exhausted", None):  # it has partitions
                self.exhausted = bool(self.guarded("is_exhausted", ask))

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        # one that is never at its end does not say that it will be
        summary.exhausted[self.task] = self.exhausted or None

    def _metadata(self, opened: Opened) -> Any:
        part = opened.metadata.get(self.component)
        if part is None:
            return _NO_PART
        try:
            return loads(part)
        except PASSED_ON:
            raise
        except BaseException as e:  # an author's class
            crash = self.attempts.raised(opened.attempt, e, "reading the metadata")
            if crash is not None:
                raise crash from e
            return _NO_PART

    def _parts(self, opened: Opened, metadata: Any) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the name and the call of the emitter for each partition."""
        attempt = opened.attempt
        if metadata is _NO_PART:
            return
        if isinstance(self.instance, OpaquePartitionedTransactionalSpout):
            for partition in self._partitions(metadata):
                yield _emit_of(partition), partial(self._emit_opaque, attempt, partition)
        elif isinstance(self.instance, PartitionedTransactionalSpout):
            for partition in self._partitions(metadata):
                yield _emit_of(partition), partial(self._emit_again_or_new, opened, partition)
        elif not opened.is_dropped:
            yield "emit", partial(self._emit_batch, attempt, metadata)

    def _emit_batch(self, attempt: TransactionAttempt, metadata: Any) -> None:
        refuse_result(self.emitter.emit_batch(attempt, metadata, self.collector))

    def _partitions(self, count: int) -> range:
        tasks, self._count = self.placed.plan.tasks(self.component), count
        return range(self.task - tasks.start, count, len(tasks))

    def _emit_again_or_new(self, opened: Opened, partition: int) -> None:
        attempt, ends = opened.attempt, self.ends.get(partition, ())
        known = dict(ends)
        if attempt.txid in known:
            if opened.is_dropped:  # perhaps since this partition can't emit it again
                return
            end = known[attempt.txid]
            emit_again = self.emitter.emit_partition_batch
            refuse_unrun(emit_again(attempt, self.collector, partition, end))
        elif not any(txid > attempt.txid for txid in known):  # else it had no part in this one
            emit_new = self.emitter.emit_partition_batch_new
            end = self._emit_behind(emit_new, attempt, partition, ends)
            self.ends[partition] = (*ends, (attempt.txid, end))

    def _emit_opaque(self, attempt: TransactionAttempt, partition: int) -> None:
        before: Ends = tuple(e for e in self.ends.get(partition, ()) if e[0] < attempt.txid)
        try:
            emit = self.emitter.emit_partition_batch
            end = self._emit_behind(emit, attempt, partition, before)
        except FailedException as e:
            self.collector.open()  # what it has emitted is forgotten
            self.report(f"partition {partition} is left out of {attempt}: {text_of(e)}")
            self._forget_since(partition, before)
            return
        except BaseException:
            self._forget_since(partition, before)  # it may have no part in a transaction given up
            raise
        self.ends[partition] = (*before, (attempt.txid, end))

    def _emit_behind(
        self, emit: Callable[..., Any], attempt: TransactionAttempt, partition: int, before: Ends
    ) -> Any:
        """Have a partition's next part emitted. Returns where it ends.

        Raises:
            TypeError: It does not say so, and would begin at the same place again for ever.
        """
        last = before[-1][1] if before else None
        given = pickle.loads(pickle.dumps(last, 5))  # what the author changes in it is not kept
        end = emit(attempt, self.collector, partition, given)
        refuse_unrun(end)
        emitted = sum(map(len, self.collector.runs))
        if end is None and (emitted or last is not None):
            raise TypeError(
                f"it emitted {emitted} tuples and returned None. Return where they end, also if"
                " there are none: the next part begins behind that, and behind None at the"
                " beginning again"
            )
        return end

    def _forget_since(self, partition: int, before: Ends) -> None:
        """Forget what failed attempts have noted of a partition."""
        if before != self.ends.get(partition, ()):
            self.ends[partition] = before

    def _clean_up(self, committed: int) -> None:
        """Forget where transactions ended that are committed, but for the last one.

        The emitter is told of what partitions know: numbers behind that may have been those of
        transactions that were taken back, since a store has others under them.
        """
        if committed == self._cleaned:
            return
        self._cleaned = until = committed
        for partition, ends in list(self.ends.items()):
            old = [txid for txid, _ in ends if txid <= committed]
            if len(old) > 1:
                self.ends[partition] = ends[len(old) - 1 :]
            if self._count is None or partition < self._count:  # others may not be there any more
                until = min(until, old[-1] if old else 0)
        if not hasattr(self.emitter, "cleanup_before"):
            return
        self.errors.called(
            "cleanup_before",
            lambda: self.emitter.cleanup_before(until),
            lambda e: self.errors.report_or_crash(e, "cleanup_before"),  # it is told of the next
        )

    def _emit_part(
        self, opened: Opened, what: str, call: Callable[[], None], outbox: Outbox
    ) -> int | None:
        """Let the emitter emit, and send it. Returns how many; None: the attempt has failed."""
        attempt = opened.attempt
        self.collector.attempt = attempt
        self.collector.open()
        calling = CALLS.begin(self.task, what)
        try:
            call()
        except PASSED_ON:
            raise
        except BaseException as e:
            CALLS.end(calling)
            if opened.is_dropped and not isinstance(e, ServiceUnavailable):
                # a part of a transaction that is given up can't even be passed over: it has none
                self.errors.report_or_crash(e, what)
                return 0
            crash = self.attempts.raised(attempt, e, what)
            if crash is not None:
                raise crash from e
            return None
        finally:
            end_child()
            self.collector.close()
        CALLS.end(calling)
        emitted = 0 if opened.is_dropped else self._send(attempt, outbox)
        self.collector.release()
        return emitted

    def _send(self, attempt: TransactionAttempt, outbox: Outbox) -> int:
        emitted = 0
        for buffer in self.collector.runs:
            for i in reversed(buffer.wrong()):
                self.errors.report_or_crash(not_a_list(self.who, buffer.values(i)), "emit")
                self.attempts.fail(attempt, "an emit that is no list")
                buffer.remove(i)
            self.attempts.without_strays(buffer, list(buffer.origins), self.who)
            if not len(buffer):
                continue
            try:
                outbox.send(self.task, buffer.routes, buffer.tuple_rows(), None, buffer.chosen)
            except GroupingError as e:
                self.errors.report_or_crash(e, "emit", fatal=e.emission is None)
                self.attempts.fail(attempt, str(e))
                return emitted
            emitted += len(buffer)
            if self.ordered:
                outbox.pack_all()
        return emitted
