"""A spout task in one batch: first how its trees ended, then its turn to emit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.api.components import Spout, overrides
from fulmen.api.components.arrow import ArrowSpout
from fulmen.api.components.returned import answer_of, refuse_unrun
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.emitting.collectors.arrow_collectors import ArrowEmits, listed
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.collectors.emitter import not_a_list
from fulmen.engine.emitting.collectors.spout_collector import SpoutCollector
from fulmen.engine.emitting.collectors.spout_emits import EmitRoom, Emits
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import FORKED, end_child
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.header import Header, Poison
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.messages.failed_messages import MOST_RESTING
from fulmen.engine.tasks.parts.spout_messages import SpoutMessages
from fulmen.engine.tasks.spouts.empty_calls import EmptyCalls
from fulmen.engine.tasks.spouts.turn_time import TurnTime
from fulmen.engine.tasks.task import Task
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON
from fulmen.topology.code.callbacks import takes_reason

SLICE_BYTES = 4 << 20
"""So much is emitted before the stage's bolts run, or `EngineLimits.spout_slice` tuples."""
_CHECK_SECONDS = 0.005
_FIRST_BURST = 256
"""So many tuples at most, before the clock is read in a slice for the first time: a source that
was fast may have become slow."""


class Heard(NamedTuple):
    """The ended trees that a spout was told of.

    Attributes:
        ended: How many there are.
        later: Those of them that are still to be told; None: none.
    """

    ended: int
    later: Deliveries | None


class SpoutTask(Task):
    """One task of a spout.

    Attributes:
        messages: What it has emitted. With `backoff` the spout hears of failures after a pause.
        exhausted: Whether the spout says that there will never be another tuple; None: it does not
            say, and will not.
        unread: What its spout says of `unread_parts`; empty: it was not asked, or its parts have no
            end.
        to_read: The same of parts without an end.
    """

    instance: Spout
    messages: SpoutMessages
    opening, closing = "open", "close"

    @override
    def make_collector(self) -> Any:
        self.collector = SpoutCollector(self)
        acks_at_once = None if self.placed.acking else self.tell_acked
        self.arrow = ArrowEmits(self, self.collector.check_open, acks_at_once)
        return self.arrow if isinstance(self.instance, ArrowSpout) else self.collector

    @override
    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        self.messages = self.add(SpoutMessages(self, engine, journals))
        self.ids = self.messages.ids
        self._has_raised = False
        self._emitted, self._is_dry = 0, True  # in its last turn; whether nothing was left
        self._burst = 1  # tuples until the clock is read again
        self._empty = EmptyCalls()
        self._fail: object = None
        self._with_reason = False  # whether that takes it
        self.is_active = False
        self.exhausted: bool | None = False
        self.unread: dict[int, Sequence[str] | None] = {}
        self.to_read: dict[int, Sequence[str]] = {}

    @override
    def before_open(self) -> None:
        self.messages.ids.settle()
        if not isinstance(self.instance, ArrowSpout) and not self.placed.acking:
            self.collector.acks_at_once = lambda msg_id: self.tell_acked([msg_id])

    @override
    def begin_batch(self, header: Header) -> None:
        self.messages.clock = header.clock
        super().begin_batch(header)
        self.messages.letters.begin_batch(header)

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        summary.exhausted[self.task] = self.exhausted
        summary.unread.update(self.unread)
        summary.to_read.update(self.to_read)
        summary.did_something |= self._empty.did_something
        summary.has_raised |= self._has_raised
        self._has_raised = False
        summary.has_more |= not self._is_dry

    # How trees ended

    def hear(
        self,
        header: Header,
        deliveries: Deliveries | None,
        outbox: Outbox,
        at_most: int | None = None,
        poison: Poison | None = None,
    ) -> Heard:
        """Begin a turn: call activate or deactivate, and ack and fail for trees that have ended.

        Args:
            header: Of the batch.
            deliveries: How trees ended; None: none did.
            outbox: What takes the emits of these calls.
            at_most: Tell of so many only, since one of the messages is suspected of crashing
                workers when it is emitted again.
            poison: What is emitted is dropped instead of sent, for this reason; None: it is sent.
        """
        if header.active:  # first: it may connect there to what ack and fail need
            self._set_active(outbox, poison, active=True)
        deliveries, later = self.messages.with_orphans(deliveries), None
        count = len(deliveries) if deliveries else 0
        if deliveries is not None:
            if at_most is not None and count > at_most:
                deliveries, later = deliveries.split(at_most)
            self._deliver(deliveries, outbox, poison)
        if not header.active:
            self._set_active(outbox, poison, active=False)
        return Heard(count, later)

    def _deliver(self, deliveries: Deliveries, outbox: Outbox, poison: Poison | None) -> None:
        self.was_called = True
        self.collector.open()
        messages, rests = self.messages, bool(self.instance.backoff)
        acked, failed = messages.ended(deliveries, rests=rests)
        if acked:
            self.tell_acked(acked)
            messages.ids.ended(acked)
        messages.ids.ended([msg_id for _, msg_id, _ in failed], is_failed=True)
        for one in () if rests else failed:
            messages.failed.add([one], messages.clock, rests=False)
            self._tell_failed(list(messages.failed.take(0.0, len(failed))))
        self._flush(outbox, poison)

    def tell_acked(self, msg_ids: Sequence[Any]) -> None:
        """Call the spout's `ack_batch`, or `ack` for each."""
        if overrides(self.instance, "ack_batch"):
            spout = self.instance
            self.guarded("ack_batch", lambda: spout.ack_batch([*msg_ids]))
            return
        if not overrides(self.instance, "ack"):
            return
        ack = self.instance.ack

        def tell() -> None:
            for msg_id in msg_ids:
                if (returned := ack(msg_id)) is not None:
                    refuse_unrun(returned)
                if FORKED:
                    end_child()

        self.guarded("ack", tell)

    def tell_due(self, permit: int, outbox: Outbox, poison: Poison | None = None) -> int:
        """Send dead letters that are wanted, and call fail for messages whose pause is over.

        New messages go before those that failed.

        Args:
            permit: How many tuples the task may emit in this batch.
            outbox: What takes the emits of `fail`.
            poison: As in `hear`.

        Returns:
            How many tuples it may emit now: with too many of these, no new ones.
        """
        permit = self.messages.send_letters(permit, outbox, poison)
        failed = self.messages.failed
        is_full = failed.resting >= MOST_RESTING
        most = min(permit, max(1, int(self._emitted * failed.share)))
        if self._is_dry:
            most = permit
        due = list(failed.take(self.messages.clock, most))
        if due:
            self.was_called = True
            self.collector.open()
            self._tell_failed(due)
            self._flush(outbox, poison)
        return len(due) if is_full else permit

    def _tell_failed(self, messages: Sequence[tuple[Any, str]]) -> None:
        def tell() -> None:
            fail: Callable[..., object] = self.instance.fail
            written = getattr(fail, "__func__", fail)
            if written is not self._fail:  # to find out takes as long as many calls
                self._fail, self._with_reason = written, takes_reason(fail)
            with_reason = self._with_reason
            for msg_id, reason in messages:
                if with_reason:
                    refuse_unrun(fail(msg_id, reason))
                else:
                    refuse_unrun(fail(msg_id))
                if FORKED:
                    end_child()

        self.guarded("fail", tell)

    def _set_active(self, outbox: Outbox, poison: Poison | None, *, active: bool) -> None:
        """Call activate or deactivate if this changes anything."""
        if active != self.is_active:
            self.was_called = True
            self.collector.open()
            if active:
                self.guarded("activate", self.instance.activate)
            else:
                self.guarded("deactivate", self.instance.deactivate)
            self.is_active = active
            self._flush(outbox, poison)

    # Its turn to emit

    def emit(
        self, permit: int, room: EmitRoom, turn: TurnTime, outbox: Outbox, poison: Poison | None
    ) -> Iterator[int]:
        """Call next_tuple until the permit is used up, the time is over, or nothing was emitted.

        Args:
            permit: How many tuples at most (a next_tuple that emits several may go beyond).
            room: About how many bytes at most; one tuple may have more.
            turn: For how long at most.
            outbox: What takes the emits.
            poison: As in `hear`.

        Yields:
            How many tuples were emitted, slice by slice, so that the bolts behind the spout can run
            in between.
        """
        self.was_called = True
        limit = self.placed.topology.spec.max_spout_pending
        total, more = 0, True
        self._is_dry = False
        self._empty.begin(turn)
        while more and total < permit and (most_bytes := room.left) > 0:
            tuples = permit - total
            if limit is not None:
                tuples = min(tuples, limit - self.messages.pending.count)
            if tuples <= 0:
                break
            self.collector.open()
            calling = CALLS.begin(self.task, "next_tuple")
            emitted, more, size = self._calls(
                min(tuples, self.placed.limits.spout_slice), min(most_bytes, SLICE_BYTES), turn
            )
            CALLS.end(calling)
            total += emitted
            room.emitted(size)
            self._flush(outbox, poison)
            yield emitted
        self._emitted = total
        ended = self.guarded("is_exhausted", self._ask_whether_it_ended)
        self.exhausted = None if ended is None else bool(ended)
        if self.component in self.placed.event_times:
            self.guarded("unread_parts", self._ask_what_is_unread)

    def _ask_whether_it_ended(self) -> bool | None:
        # what is true and no bool may be something that nobody has run: the caller refuses that
        return self.instance.is_exhausted() or (False if self.instance.knows_its_end else None)

    def _ask_what_is_unread(self) -> None:
        names = self.instance.unread_parts()
        parts = None if names is None else [*map(str, names)]
        if self.instance.parts_end:
            self.unread[self.task] = parts
        else:
            self.to_read[self.task] = parts or ()

    def _calls(self, room: int, most_bytes: int, turn: TurnTime) -> tuple[int, bool, int]:
        """Call next_tuple for `room` tuples: (tuples emitted, whether to go on, their bytes).

        The clock is read every few milliseconds, not after each tuple, and so are sizes.
        """
        next_tuple, count = self.instance.next_tuple, self._counter()
        emitted, burst, measure = 0, self._burst, self._measure()
        empty = self._empty
        started = turn.clock()
        while emitted < room:
            self.collector.limit = min(room, emitted + burst)
            try:
                while emitted < self.collector.limit:
                    if (returned := next_tuple()) is not None:
                        returned = answer_of(returned)
                    if FORKED:
                        end_child()
                    now = count()
                    if now == emitted and not empty.go_on(returned, emitted, started):
                        self._is_dry = True
                        return emitted, False, measure()
                    emitted = now
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                end_child()
                self.errors.report_or_crash(e, "next_tuple")
                self._is_dry = True
                self._has_raised = not isinstance(e, StopIteration)
                return count(), False, measure()
            clock = turn.clock()
            if turn.is_over(clock):
                return emitted, False, measure()
            if (size := measure()) >= most_bytes:
                return emitted, True, size
            burst = burst * 2 if clock - started < _CHECK_SECONDS else max(1, burst // 2)
            self._burst = min(burst, _FIRST_BURST)
            started = clock
            CALLS.again(clock)
        return emitted, True, measure()

    def _measure(self) -> Callable[[], int]:
        """Says about how many bytes were emitted since the collector was opened."""
        if isinstance(self.instance, ArrowSpout):
            return lambda: sum(batch.nbytes for _, batch, _ in self.arrow.emits)
        known: dict[Buffer, int] = {}  # of each that may have grown, its tuples in the total
        total = first = 0

        def measure() -> int:
            nonlocal total, first, known
            runs, growing = self.collector.runs, self.collector.growing
            for buffer in {*known, *runs[first:]}:
                n = len(buffer)
                if n > (measured := known.get(buffer, 0)):
                    total += buffer.about_bytes(measured)
                    known[buffer] = n
            known = {buffer: known.get(buffer, 0) for buffer in growing}
            first = len(runs)
            return total

        return measure

    def _counter(self) -> Callable[[], int]:
        """Says how many tuples were emitted since the collector was opened; called for each."""
        if isinstance(self.instance, ArrowSpout):
            return lambda: sum(batch.num_rows for _, batch, _ in self.arrow.emits)
        if len(self.collector.runs) == 2 and not self.ordered:  # a single stream, and dead letters
            return self.collector.runs[0].rows.__len__
        return self.collector.emitted

    def _flush(self, outbox: Outbox, poison: Poison | None) -> None:
        """Send what was emitted since the collector was opened."""
        runs = self.collector.runs
        self.collector.close()
        emits = [
            Emits(stream, TupleRows.of_arrow(batch), None if msg_ids is None else listed(msg_ids))
            for stream, batch, msg_ids in self.arrow.emits
        ]
        self.arrow.emits = []
        for buffer in runs:
            if len(buffer):
                wrong = buffer.wrong()
                rows = buffer.tuple_rows()
                some = Emits(buffer.routes.stream, rows, buffer.origins, buffer.chosen)
                for i in reversed(wrong):
                    error = not_a_list(self.who, buffer.values(i))
                    some = self.messages.refuse(error, i, some, outbox)
                emits.append(some)
        for some in emits:
            left = self.messages.divert(some, outbox)
            if poison is None:
                self.messages.send(left, outbox)
            else:
                self.messages.drop(left, poison, outbox)
            if self.ordered:
                outbox.pack_all()
        self.collector.release()
