"""Messages of a task: trees begin at them, and some end too early.

Spouts have messages, and so have bolts whose results are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.declarer import DEAD_LETTERS
from fulmen.engine.acking.root_ids import first_root, root_ids
from fulmen.engine.emitting.collectors.spout_emits import Emits
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.routes import Routes
from fulmen.engine.protocol.deliveries import NOTHING_ENDED, Deliveries
from fulmen.engine.protocol.figures.statistics import DEAD_LETTERED, DROPPED, REPLAYED
from fulmen.engine.protocol.figures.trace_notes import TraceNotes
from fulmen.engine.protocol.header import Poison
from fulmen.engine.state.letters import shown_values
from fulmen.engine.state.letters.dead_letters import FailureCause, LetterKind, LostMessage
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.id_runs import tracked_of
from fulmen.engine.tasks.parts.dead_letters import DeadLetters, WantedLetter
from fulmen.engine.tasks.parts.traced_roots import Came, marked, note_begun
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.tuples.chunk import EMPTY_IDS, Ids, Lineage, RootRange
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import FulmenError, GroupingError

CRASH_REASON = "crashed worker"
WAS_GONE = "its component was not in the topology"


class MessageTrees(TaskPart):
    """The messages of a task.

    Attributes:
        origin: The number of the task in root ids.
        sequence: The sequence number of its next message.
        failed: Those that have failed.
        letters: Those that are dead letters.
    """

    failed: FailedMessages
    _came: Mapping[int, Came] = MappingProxyType({})

    def __init__(
        self, task: Task, origin: int, engine: Mapping[str, Any], letters: DeadLetters
    ) -> None:
        """Take over what the checkpoint says. A component that comes back has another origin."""
        self.task, self.placed, self.letters = task, task.placed, letters
        self.origin, self.sequence = origin, engine.get("sequence", 0)
        self._is_orphaned = engine.get("origin", origin) != origin

    @override
    def engine_state(self) -> Mapping[str, Any]:
        return {"sequence": self.sequence, "origin": self.origin}

    @abstractmethod
    def remember(self, ids: Sequence[Any]) -> None:
        """Keep pending messages, with consecutive sequence numbers from `sequence`; count them."""

    @abstractmethod
    def pending_numbers(self) -> Iterator[int]:
        """The sequence numbers of messages that are pending."""

    def with_orphans(self, deliveries: Deliveries | None) -> Deliveries | None:
        """Add messages that were pending when the component left the topology: they fail."""
        if not self._is_orphaned:
            return deliveries
        self._is_orphaned = False
        failed = tuple((number, WAS_GONE) for number in self.pending_numbers())
        orphans = replace(NOTHING_ENDED, failed=failed)
        return orphans if deliveries is None else orphans.plus(deliveries)

    def parts_of(self, msg_ids: Sequence[Any] | None) -> list[str] | None:  # noqa: ARG002 (for spouts)
        """The part of the source that each emit is of; None: it is not known."""
        return None

    def divert(self, emits: Emits, outbox: Outbox) -> Emits:
        """Send messages that failed `maxReplays` times to the dead letters; gives the others."""
        if emits.stream == DEAD_LETTERS or emits.msg_ids is None:
            return emits
        limit, component = self.placed.topology.spec.max_replays, self.task.component
        dead: dict[int, list[Any]] = {}
        for i in self.failed.among(emits.msg_ids):
            msg_id = emits.msg_ids[i]
            tried = self.failed.tried[msg_id]
            if limit is None or tried[0] < limit:
                outbox.counts[component, REPLAYED, ""] += 1
            else:
                values = list(emits.rows[i])
                if tried[0] > limit:  # as a dead letter, too: maybe it can't be sent as it is
                    values = [shown_values.sendable(value) for value in values]
                dead[i] = [emits.stream, values, msg_id, *tried]
        if not dead:
            return emits
        outbox.counts[component, DEAD_LETTERED, ""] += len(dead)
        self._keep_letters(emits, list(dead))
        ids = [emits.msg_ids[i] for i in dead]
        self.send(Emits(DEAD_LETTERS, TupleRows(list(dead.values())), ids), outbox)
        return emits.take([i for i in range(len(emits.msg_ids)) if i not in dead])

    def _keep_letters(self, emits: Emits, at: Sequence[int]) -> None:
        """Keep messages of these emits that are given up."""
        assert emits.msg_ids is not None
        is_direct = self.task.routes[emits.stream].direct
        messages = []
        for i in at:
            is_chosen = is_direct and emits.chosen.get(i)
            target = self.placed.known_key_of(emits.chosen[i][0][1][0]) if is_chosen else ""
            values = list(emits.rows[i])
            messages.append(LostMessage(emits.stream, values, emits.msg_ids[i], target))
        failures = [self.failed.tried[lost.msg_id] for lost in messages]
        self.letters.keep(LetterKind.GIVEN_UP, messages, failures)

    def send_letters(self, permit: int, outbox: Outbox, poison: Poison | None = None) -> int:
        """Send dead letters again that somebody has asked for, each with a tree of its own.

        Args:
            permit: How many tuples the task may emit in this batch.
            outbox: What takes them.
            poison: They are dropped instead of sent, for this reason; None: they are sent.

        Returns:
            How many tuples it may emit now.
        """
        for wanted in self.letters.wanted(permit):
            permit -= 1
            self.task.was_called = True
            stream = wanted.letter.stream
            routes = self.task.routes.get(stream)
            if poison is not None:
                self._drop_again(wanted, poison, outbox)
            elif routes is None:
                self.letters.keep_again(wanted.key, f"there is no stream {stream!r} any more")
            elif len(wanted.values) != len(routes.fields):
                fields = len(routes.fields)
                text = f"it has {len(wanted.values)} values, and stream {stream!r} {fields} fields"
                self.letters.keep_again(wanted.key, text)
            else:
                self._send_letter(wanted, routes, outbox)
        if self.task.ordered:
            outbox.pack_all()
        return permit

    def _send_letter(self, wanted: WantedLetter, routes: Routes, outbox: Outbox) -> None:
        task, tracked, chosen = self.task, self.placed.acking, {}
        if routes.direct:
            target = self.placed.tasks_by_known_key.get(wanted.letter.target, -1)
            chosen = {0: routes.direct_to(target)}
        roots = root_ids(self.origin, self.sequence, 1)
        lineage = Lineage(roots, roots) if tracked else None
        rows = TupleRows([wanted.values])
        try:
            parts = None if routes.times is None else self.parts_of([wanted.msg_id])
            xors = outbox.send(task.task, routes, rows, lineage, chosen, parts=parts)
        except GroupingError as error:
            self.letters.keep_again(wanted.key, str(error))
            return
        self.letters.sent(wanted.key, self.sequence if tracked else None)
        if tracked:
            outbox.messages.inits.append((roots, xors, np.full(1, task.now())))
            self.sequence += 1

    def _drop_again(self, wanted: WantedLetter, poison: Poison, outbox: Outbox) -> None:
        reason = f"{CRASH_REASON}: {poison.cause}".rstrip(": ")
        self.letters.keep_again(wanted.key, reason, FailureCause("", poison.traceback))
        self.task.report(shown_values.message(wanted.letter.shown, poison.cause))
        outbox.counts[self.task.component, DROPPED, ""] += 1

    def send(self, emits: Emits, outbox: Outbox) -> None:
        """Send emits on one stream: those with a message id are the roots of trees."""
        while len(emits.rows):
            routes = self.task.routes[emits.stream]
            try:
                parts = None if routes.times is None else self.parts_of(emits.msg_ids)
                if self._is_one_range(emits.msg_ids):
                    ids = self._send_range(emits, routes, parts, outbox)
                else:
                    ids = self._send_apart(emits, routes, parts, outbox)
            except GroupingError as e:
                emits = self.refuse(e, e.emission, emits, outbox)
                continue
            if self.placed.acking:
                self.letters.emitted(emits.stream, ids, self.sequence)
            self.remember(ids)
            return

    def _is_one_range(self, msg_ids: Sequence[Any] | None) -> bool:
        """Whether all emits are tracked, and none of their trees may have to be told apart."""
        if not self.placed.acking or msg_ids is None or self.placed.sampling is not None:
            return False
        return len(self.tracked(msg_ids)) == len(msg_ids)

    def _send_range(
        self, emits: Emits, routes: Routes, parts: Sequence[str] | None, outbox: Outbox
    ) -> Sequence[Any]:
        """Send emits whose trees are not told apart. Gives their message ids."""
        assert emits.msg_ids is not None
        n = len(emits.msg_ids)
        roots = RootRange(first_root(self.origin, self.sequence), n)
        outbox.send_range(self.task.task, routes, emits.rows, roots, emits.chosen, parts=parts)
        roots.born = self.task.now()
        outbox.messages.ranges.append(roots)
        return emits.msg_ids

    def _send_apart(
        self, emits: Emits, routes: Routes, parts: Sequence[str] | None, outbox: Outbox
    ) -> Sequence[Any]:
        """Send emits, some of which begin a tree. Gives their message ids."""
        task, notes = self.task, outbox.traces
        ids, roots, parents, mask = self.roots(emits, notes)
        xors = outbox.send(task.task, routes, emits.rows, parents, emits.chosen, parts=parts)
        if len(roots):
            born = task.now()
            outbox.messages.inits.append((roots, xors[mask], np.full(len(roots), born)))
            if notes is not None:
                self.begin_traces(notes, ids, roots, emits.stream, born)
        return ids

    def tracked(self, msg_ids: Sequence[Any]) -> Sequence[Any]:
        """The message ids of these that are some."""
        return tracked_of(msg_ids)

    def came_with(self, ids: Sequence[Any]) -> Mapping[int, Came]:  # noqa: ARG002 (for spouts)
        """The context that messages came with, by place in `ids`; only if trees are traced."""
        return {}

    def begin_traces(
        self,
        notes: TraceNotes,
        ids: Sequence[Any],  # noqa: ARG002 (for spouts)
        roots: Ids,
        stream: str,
        born: float,
    ) -> None:
        """Note the trees that have begun and are traced."""
        known, sampling = len(notes.begun), self.placed.sampling
        note_begun(notes, roots, (self.task.component, self.task.task, stream), born, self._came)
        new = notes.begun[known:]
        if sampling is not None:
            sampling.parents.add({b.root: b.parent for b in new if b.parent is not None})

    def roots(
        self, emits: Emits, notes: TraceNotes | None = None
    ) -> tuple[Sequence[Any], Ids, Lineage | None, Any]:
        """The message ids, their roots, the lineage of the emits, and which of them are tracked.

        Args:
            emits: What is emitted.
            notes: Where it is noted which of the trees are traced. None: none of them is.
        """
        msg_ids = emits.msg_ids
        if not self.placed.acking or msg_ids is None:
            return [], EMPTY_IDS, None, slice(None)
        ids = self.tracked(msg_ids)
        roots = root_ids(self.origin, self.sequence, len(ids))
        if notes is not None and self.placed.sampling is not None and len(ids):
            self._came = self.came_with(ids)
            roots = marked(roots, self._came, self.placed.sampling, notes.room)
        if len(ids) == len(msg_ids):
            return ids, roots, Lineage(roots, roots), slice(None)
        mask = np.array([msg_id is not None for msg_id in msg_ids])
        if not ids:
            return ids, roots, None, mask
        offsets = np.concatenate(([0], np.cumsum(mask)))
        return ids, roots, Lineage(roots, roots, offsets), mask

    def refuse(self, error: FulmenError, i: int | None, emits: Emits, outbox: Outbox) -> Emits:
        """Emit `i` can't be sent: report it, and fail its tree. Gives the others."""
        self.task.errors.report_or_crash(error, "emit", fatal=i is None)
        if i is None:
            return emits
        msg_id = emits.msg_ids[i] if emits.msg_ids is not None else None
        if self.placed.acking and msg_id is not None:
            outbox.failures.add(self.task.component, self.task.task, str(error))
            self.fail_at_once(root_ids(self.origin, self.sequence, 1), str(error), outbox)
            self.remember([msg_id])
        return emits.take([k for k in range(len(emits.rows)) if k != i])

    def fail_at_once(self, roots: Ids, reason: str, outbox: Outbox) -> None:
        """Begin trees that fail in this batch."""
        ones = np.ones(len(roots), np.uint64)
        outbox.messages.inits.append((roots, ones, np.full(len(roots), self.task.now())))
        outbox.messages.fail(roots.tolist(), reason)
