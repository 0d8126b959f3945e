"""The messages of a spout task: those that are pending, and those that have failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import Spout, overrides
from fulmen.api.declarer import DEAD_LETTERS
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.acking.root_ids import without_traced
from fulmen.engine.emitting.collectors.spout_emits import Emits
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.statistics import DROPPED, PENDING_MESSAGES
from fulmen.engine.protocol.figures.trace_notes import TraceNotes
from fulmen.engine.protocol.header import Poison
from fulmen.engine.protocol.summary import Resting, Summary
from fulmen.engine.state import journals as journals_of
from fulmen.engine.state.letters import shown_values
from fulmen.engine.state.letters.dead_letters import FailureCause, LetterKind, LostMessage
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.id_runs import tracked_of
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.pickling import noting
from fulmen.engine.tasks.parts.dead_letters import DeadLetters
from fulmen.engine.tasks.parts.message_trees import CRASH_REASON, MessageTrees
from fulmen.engine.tasks.parts.traced_roots import Came, TracedMessages
from fulmen.engine.tasks.task import Task
from fulmen.engine.time.event_times import WHOLE_TASK
from fulmen.engine.tuples.chunk import Ids
from fulmen.engine.tuples.tuple_rows import TupleRows

_IDS = "pickling its message ids"


class SpoutMessages(MessageTrees):
    """The messages of a spout task.

    Attributes:
        pending: Those whose trees have not ended, or whose end the spout was not told yet.
        ids: Those of their message ids that are one object in the spout's fields and here.
        clock: The batch clock.
    """

    def __init__(self, task: Task, engine: Mapping[str, Any], journals: Journals) -> None:
        placed = task.placed
        letters = task.add(DeadLetters(task, journals))
        super().__init__(task, placed.origins[placed.plan.key_of(task.task)], engine, letters)
        self.ids = MessageIds()
        self.pending = PendingMessages.restore(journals.get(journals_of.PENDING, ()), self.ids)
        self.failed = FailedMessages.restore(journals, self.ids)
        self.ids.restored(self.pending.msg_ids(), self.failed.msg_ids())
        self._traced = TracedMessages()
        self.clock = 0.0

    # The checkpoint

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        # before the author's fields, in which these ids are tokens
        if len(self.ids) > self.pending.count + self.failed.resting + len(self.failed.tried):
            self.ids.keep_only(self.failed.msg_ids())
        return {}

    @override
    def updates(self, number: int) -> Mapping[str, Update]:
        records = {}
        with noting(self.task.classes.shapes):  # the next commit has them
            pending = self.task.guarded(_IDS, lambda: self.pending.record(number))
        if pending is not None:
            records[journals_of.PENDING] = pending
        return records | self.task.guarded(_IDS, lambda: self.failed.updates(number))

    @override
    def tell(self, summary: Summary) -> None:
        summary.levels[PENDING_MESSAGES, self.task.task] = self.pending.count
        if self.failed.resting:
            summary.resting[self.task.task] = Resting(*self.failed.described())

    # How trees ended

    def ended(
        self, deliveries: Deliveries, *, rests: bool
    ) -> tuple[Sequence[Any], list[tuple[int, Any, str]]]:
        """End trees. Gives the message ids of the acked, and (number, id, reason) of others.

        Args:
            deliveries: How they ended.
            rests: Whether the spout hears of a failure after a pause.
        """
        deliveries = self.letters.ended(deliveries)
        reasons = dict(deliveries.failed)
        acked, ended = self.pending.end(deliveries.acked, sorted(reasons))
        failed = [(sequence, msg_id, reasons[sequence]) for sequence, msg_id in ended]
        if rests:  # now: as a rule none is left that was tried, and no acked one is looked for
            self.failed.add(failed, self.clock, rests=True)
        self.failed.acked(acked)
        return acked, failed

    # New ones

    @override
    def pending_numbers(self) -> Iterator[int]:
        return self.pending.numbers()

    @override
    def remember(self, ids: Sequence[Any]) -> None:
        state = self.task.author.state
        self.task.guarded("emit", lambda: self.ids.add(self.sequence, ids, state))
        self.pending.add(self.sequence, ids)
        self.sequence += len(ids)

    @override
    def parts_of(self, msg_ids: Sequence[Any] | None) -> list[str] | None:
        """The part of the source that each emit is of, as the spout says; None: it does not."""
        spout = self._spout
        if msg_ids is None:
            return None
        if overrides(spout, "parts_of"):
            return self.task.guarded("parts_of", lambda: _parts_of(spout, msg_ids))
        if not overrides(spout, "part_of"):
            return None
        part_of = spout.part_of
        return self.task.guarded(
            "part_of",
            lambda: [WHOLE_TASK if i is None else str(part_of(i)) for i in msg_ids],
        )

    @override
    def came_with(self, ids: Sequence[Any]) -> Mapping[int, Came]:
        given: Mapping[int, str] = {}
        if overrides(self._spout, "traceparents"):
            given = self.task.guarded(
                "traceparents", lambda: dict(self._spout.traceparents([*ids]))
            )
        return dict(self._traced.came_with(ids, self.failed, given))

    @property
    def _spout(self) -> Spout:
        assert isinstance(self.task.instance, Spout)
        return self.task.instance

    @override
    def begin_traces(
        self, notes: TraceNotes, ids: Sequence[Any], roots: Ids, stream: str, born: float
    ) -> None:
        known = len(notes.begun)
        super().begin_traces(notes, ids, roots, stream, born)
        sampling = self.placed.sampling
        assert sampling is not None
        first = without_traced(int(roots[0]))
        for begun in notes.begun[known:]:
            msg_id = ids[without_traced(begun.root) - first]
            self._traced.add(msg_id, sampling.context_of(begun.root, begun.parent))

    def drop(self, emits: Emits, poison: Poison, outbox: Outbox) -> None:
        """Fail the trees of tuples that killed their workers; keep them, and send nothing."""
        if not len(emits.rows):
            return
        tracked, roots, _, _ = self.roots(emits)
        task = self.task
        ids = emits.msg_ids or [None] * len(emits.rows)
        failure = 1, f"{CRASH_REASON}: {poison.cause}".rstrip(": ")
        [*_, last] = self.letters.keep(
            LetterKind.KILLS_WORKERS,
            [LostMessage(emits.stream, *one) for one in zip(emits.rows, ids, strict=True)],
            [failure] * len(ids),
            FailureCause("", poison.traceback),
        )
        task.report(shown_values.message(last.shown, poison.cause))
        if len(roots):
            self.fail_at_once(roots, CRASH_REASON, outbox)
        outbox.counts[task.component, DROPPED, ""] += len(ids)
        if task.routes[DEAD_LETTERS].subscriptions:
            shown = shown_values.shown
            letters = [
                [emits.stream, [*map(shown, row)], shown(msg_id), *failure]
                for row, msg_id in zip(emits.rows, ids, strict=True)
            ]
            outbox.send(task.task, task.routes[DEAD_LETTERS], TupleRows(letters), None)
        self.remember(tracked)


def _parts_of(spout: Spout, msg_ids: Sequence[Any]) -> list[str]:
    """The part of each message, of a spout that says it for many at once."""
    ids = tracked_of(msg_ids)
    if not len(ids):
        return [WHOLE_TASK] * len(msg_ids)
    said = spout.parts_of(ids)
    parts = [said] * len(ids) if isinstance(said, str) else [*map(str, said)]
    if len(parts) != len(ids):
        raise ValueError(f"it names {len(parts)} parts for {len(ids)} messages")
    if len(ids) == len(msg_ids):
        return parts
    left = iter(parts)
    return [WHOLE_TASK if msg_id is None else next(left) for msg_id in msg_ids]
