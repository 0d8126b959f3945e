"""Where emitted tuples go. Tasks are chosen and edge ids drawn for a whole chunk at once.

Tuples for a task of this very stage stay Python objects in a list; all others become parcels for
another stage, packed into rows when there are enough of them. A stage is cut so that the former are
exactly those that can't leave the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fulmen.api.components import FailedException, ReportedFailedException
from fulmen.api.tuples import Tuple
from fulmen.engine.acking.messages import Messages
from fulmen.engine.emitting.anchoring import Anchoring, ManyAnchors, OneAnchor, RangeAnchors
from fulmen.engine.emitting.combined_tuples import CombinedTuples
from fulmen.engine.emitting.inbox import Inbox
from fulmen.engine.emitting.input_steps import RefusedTuple, Taken, Why, told
from fulmen.engine.emitting.parcels import Copies, Index, Parcels, compose, groups
from fulmen.engine.emitting.routes import Chosen, Routes
from fulmen.engine.emitting.timed_emits import TimedEmits
from fulmen.engine.grouping.choosers import Choice, Chooser
from fulmen.engine.protocol.figures.statistics import (
    AHEAD,
    EMITTED,
    LEFT_OUT,
    TRANSFERRED,
    UNTIMED,
    UNUSABLE,
    add_task,
    count_step,
)
from fulmen.engine.protocol.figures.trace_notes import TraceNotes
from fulmen.engine.protocol.placed_topology import PlacedTopology, Subscription
from fulmen.engine.protocol.summary import Measured
from fulmen.engine.taps.sampler import TapSampler
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import (
    Chunk,
    Ids,
    Lineage,
    Positions,
    RangeLineage,
)
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import GroupingError

_NO_TASKS = np.zeros(0, np.int32)


class Outbox:
    """All that leaves the tasks of one stage in one worker during one batch.

    Attributes:
        inbox: Takes what is for these very tasks.
        rows: (worker, row) for other workers or stages.
        messages: The messages to ackers.
        counts: Those of what is measured, as `times`, `busy`, `tasks`, `failures`, `event_times`
            and `traces`: names of their own, as they are looked up for each chunk.
        refused: Tuples that can't leave their worker.
        emits: (task, stream, rows), if the topology asks for it.
        wall: The time of day, in seconds of time.time(), where event times may be too far ahead.
        untimed: Task -> why the first one of its tuples has no usable event time.
        unread: Task -> the first message that can't be read and that no bolt gets: why, and where.
        combined: What combines tuples before they leave, by the number of the subscription.
        taps: Takes some of what is emitted, for people; None: nobody looks.
    """

    taps: TapSampler | None = None

    def __init__(
        self, placed: PlacedTopology, stage: int, rng: np.random.Generator, measured: Measured
    ) -> None:
        self.inbox = Inbox()
        self.rows: list[tuple[int, bytes]] = []
        self.messages = Messages()
        self.counts, self.times, self.busy = measured.counts, measured.times, measured.busy
        self.tasks, self.failures = measured.tasks, measured.failures
        self.event_times = measured.event_times
        if placed.sampling is not None:
            measured.traces = TraceNotes()
        self.traces = measured.traces
        self.refused: list[RefusedTuple] = []
        self.emits: list[tuple[int, str, Sequence[Sequence[Any]]]] = []
        self.wall = 0.0
        self.untimed: dict[int, str] = {}
        self.unread: dict[int, tuple[str, str]] = {}
        self.combined: Mapping[int, CombinedTuples] = {}
        self._placed = placed
        self._stage = stage
        self._rng = rng
        self._row_tuples = placed.limits.row_tuples
        self._parcels = Parcels(placed, self.rows, self._refuse)

    def random_ids(self, n: int) -> Ids:
        """Fresh edge ids. One that is 0, as if there were no edge, comes once in 2**64."""
        ids: Ids = self._rng.bit_generator.random_raw(n)
        return ids

    def send(
        self,
        task: int,
        routes: Routes,
        emitted: TupleRows,
        parents: Lineage | None,
        chosen: Chosen | None = None,
        *,
        parts: Sequence[str] | None = None,
    ) -> Ids:
        """Send emitted tuples, each anchored to one input at most.

        Args:
            task: The task that emitted them.
            routes: The routes of the stream that they were emitted on.
            emitted: Their values.
            parents: For each emit, the lineage of what it is anchored to; a spout's own roots count
                as such.
            chosen: Emits whose tasks were chosen already, or named by a direct emit.
            parts: The part of the source that each is of, if that is known and matters.

        Returns:
            For each emit, the XOR of the edge ids of its copies.
        """
        one = OneAnchor(parents, np.zeros(len(emitted), np.uint64))
        self._send(task, routes, emitted, one, chosen, parts)
        return one.xors

    def send_range(
        self,
        task: int,
        routes: Routes,
        emitted: TupleRows,
        parents: RangeLineage,
        chosen: Chosen | None = None,
        *,
        parts: Sequence[str] | None = None,
    ) -> None:
        """Send emitted tuples whose trees are not told apart. The arguments are those of `send`."""
        self._send(task, routes, emitted, RangeAnchors(parents), chosen, parts)

    def end_in_range(
        self, lineage: RangeLineage, acked: Positions | None, failed: Sequence[tuple[int, str]]
    ) -> None:
        """Ack and fail tuples whose trees are not told apart.

        Args:
            lineage: That of all tuples of a chunk.
            acked: Positions of those that were acked; None: all.
            failed: Positions and reasons of those that failed.
        """
        if failed:
            at = np.array([i for i, _ in failed], np.int64)
            self.messages.fail_each(lineage.roots_at(at).tolist(), (why for _, why in failed))
            lineage.add_edges(at, self.random_ids(len(at)))  # which nobody acks
        if len(self._placed.ackers) == 1:
            self.messages.acked_in_ranges += lineage.n if acked is None else len(acked)
        else:  # each acker counts those of its trees
            roots = lineage.roots_at(acked)
            self.messages.acks.append((roots, np.zeros(len(roots), np.uint64), None))

    def send_joined(
        self,
        task: int,
        routes: Routes,
        emitted: TupleRows,
        anchors: Sequence[Sequence[Tuple]],
        tell: Callable[[Tuple, int], None],
        chosen: Chosen | None = None,
    ) -> None:
        """Send emitted tuples that may have several anchors each. Arguments: see `ManyAnchors`."""
        self._send(task, routes, emitted, ManyAnchors(anchors, tell), chosen)

    def _send(
        self,
        task: int,
        routes: Routes,
        emitted: TupleRows,
        parents: Anchoring,
        chosen: Chosen | None,
        parts: Sequence[str] | None = None,
    ) -> None:
        if routes.times is None:
            self._send_to(task, routes, emitted, parents, chosen)
            return
        timed = TimedEmits(routes, emitted, routes.times.find(emitted, self.wall), parts)
        for some_routes, at, rows, some_chosen in timed.shares(chosen):
            with timed.numbered(at):
                some = parents if at is None else parents.take(at)
                self._send_to(task, some_routes, rows, some, some_chosen)
        for part, time in timed.newest.items():
            key = task, part
            self.event_times[key] = max(time, self.event_times.get(key, time))
        if timed.late:
            self.counts[routes.component, UNTIMED, AHEAD] += timed.ahead
            self.counts[routes.component, UNTIMED, UNUSABLE] += len(timed.late) - timed.ahead
            self.untimed.setdefault(task, next(iter(timed.late.values())))

    def _send_to(
        self,
        task: int,
        routes: Routes,
        emitted: TupleRows,
        parents: Anchoring,
        chosen: Chosen | None,
    ) -> None:
        if routes.are_unread and task not in self.unread:
            data, reason, position = emitted[0][-3:]
            if data is not None:  # or it is a loss, which is reported as an error
                self.unread[task] = reason, position
        choices = self._choices(task, routes, emitted, chosen)
        if self.taps is not None:
            self.taps.take(task, routes.component, routes.stream, emitted, parents)
        for subscription, taken, choice in choices:
            index, targets = choice.index, choice.tasks
            if taken.failed:
                self._fail(task, subscription, emitted, parents, taken.failed)
            if len(targets):
                at = compose(taken.at, index)
                if self._leaves(subscription):
                    lineage = self._told_apart(parents, at, len(targets))
                    self._send_away(subscription, Copies(task, taken.rows, index, targets, lineage))
                else:
                    here = parents.copies(at, len(targets), self.random_ids)
                    self._deliver(subscription, task, taken.rows, choice, here)

    def _told_apart(self, parents: Anchoring, at: Index | None, n: int) -> Lineage | None:
        """The lineage of copies that each have an edge: see `Anchoring.copies`."""
        lineage = parents.copies(at, n, self.random_ids)
        return lineage.drawn(self.random_ids) if isinstance(lineage, RangeLineage) else lineage

    def _fail(
        self,
        task: int,
        subscription: Subscription,
        emitted: TupleRows,
        parents: Anchoring,
        failed: Mapping[int, Why],
    ) -> None:
        """Fail the trees of emits for which the steps of a subscription give no row."""
        lineage = self._told_apart(parents, np.array([*failed], np.int64), len(failed))
        who = f"bolt {subscription.target!r}, input from {subscription.source!r}"
        for k, (emit, why) in enumerate(failed.items()):  # they arrive nowhere
            roots = () if lineage is None else lineage.of(k)[0]
            is_told = not isinstance(why, FailedException) or isinstance(
                why, ReportedFailedException
            )
            reason = f"{who}: {told(why)}" if is_told else told(why)
            self._refuse(task, roots, reason, emitted[emit], is_reported=is_told)

    def _choices(
        self, task: int, routes: Routes, emitted: TupleRows, chosen: Chosen | None
    ) -> list[tuple[Subscription, Taken, Choice]]:
        """What subscriptions take of the emits, and the tasks that it goes to."""
        choices = []
        transferred = 0
        for k, (subscription, chooser) in enumerate(
            zip(routes.subscriptions, routes.choosers, strict=True)
        ):
            if chooser is None and not chosen:
                continue  # a direct subscription receives only what is emitted to it by name
            taken = routes.taken(k, emitted)
            choice = Choice(None, _NO_TASKS)
            if len(taken.rows):
                if taken.rows.arrow is None and self._leaves(subscription):
                    taken.rows.encoded()  # first, as groupings are faster with columns
                taken, choice = self._grouped(routes, k, taken, chosen)
            if left := taken.left_out(len(emitted)):
                key = f"{subscription.source}:{subscription.stream}"
                self.counts[subscription.target, LEFT_OUT, key] += left
            for step in taken.steps:
                count_step(self.counts, subscription.target, step)
            transferred += len(choice.tasks)
            choices.append((subscription, taken, choice))
        for _, taken, choice in choices:
            several = len(choices) > 1 or len(choice.tasks) > len(taken.rows)
            if several or self._placed.shows_emits:
                taken.rows.share()
        self.counts[routes.component, EMITTED, routes.stream] += len(emitted)
        self.counts[routes.component, TRANSFERRED, routes.stream] += transferred
        add_task(self.tasks, task, emitted=len(emitted))
        if self._placed.shows_emits:
            self.emits.append((task, routes.stream, list(emitted)))
        return choices

    def _grouped(
        self, routes: Routes, k: int, taken: Taken, chosen: Chosen | None
    ) -> tuple[Taken, Choice]:
        """The tasks of rows.

        Raises:
            GroupingError: A row can't be grouped. But where functions make rows, its emit fails
                here: who emits would send the others again, and functions would run twice.
        """
        while True:
            try:
                return taken, self._choice(k, routes.choosers[k], taken.rows, taken.chosen(chosen))
            except GroupingError as e:
                if e.emission is None or not routes.runs_functions:
                    raise taken.numbered(e) from e
                taken = taken.refused(e)

    def _leaves(self, subscription: Subscription) -> bool:
        """Whether its tuples go to another stage."""
        return self._placed.plan.stage_of(subscription.target) != self._stage

    def _choice(
        self, k: int, chooser: Chooser | None, rows: TupleRows, chosen: Chosen | None
    ) -> Choice:
        """The tasks that rows go to: those that are known already, and those that are chosen."""
        if not chosen:
            return Choice(None, _NO_TASKS) if chooser is None else chooser.choose(rows)
        return self._with_chosen(k, chooser, rows, chosen)

    def _with_chosen(
        self, k: int, chooser: Chooser | None, emitted: TupleRows, chosen: Chosen
    ) -> Choice:
        pairs: list[tuple[int, int]] = []
        rest = [i for i in range(len(emitted)) if i not in chosen]
        if rest and chooser is not None:
            try:
                some = chooser.choose(emitted.take(np.array(rest, np.int64)))
            except GroupingError as e:
                emission = None if e.emission is None else rest[e.emission]
                raise GroupingError(e.reason, emission, e.field) from e
            index = range(len(rest)) if some.index is None else some.index.tolist()
            pairs += [(rest[i], task) for i, task in zip(index, some.tasks.tolist(), strict=True)]
        for emit, tasks_of in chosen.items():
            pairs += [(emit, task) for number, tasks in tasks_of if number == k for task in tasks]
        pairs.sort(key=lambda pair: pair[0])
        return Choice(
            np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int32)
        )

    def _deliver(
        self,
        subscription: Subscription,
        task: int,
        emitted: TupleRows,
        choice: Choice,
        lineage: Lineage | RangeLineage | None,
    ) -> None:
        """Give copies of emits to tasks of this stage."""
        of = subscription.source, subscription.stream, subscription.fields
        for target, at in groups(choice.tasks):
            index = compose(choice.index, at)
            rows = emitted if index is None else emitted.take(index)
            some = lineage if lineage is None or at is None else lineage.take(at)
            self.inbox.receive(target, Chunk(*of, task, some, rows))

    def _send_away(self, subscription: Subscription, copies: Copies) -> None:
        """Send copies of emits to other stages."""
        combined = self.combined.get(subscription.number)
        if combined is not None:
            is_arrow = copies.emitted.arrow is not None  # which is sent as it is
            rest = None if is_arrow else combined.add(copies)
            if is_arrow or combined.is_overtaken:
                self._send_combined(subscription.number, combined)
            copies = copies.take(rest)
        self._parcels.add(subscription.number, copies)

    def _refuse(
        self, task: int, roots: Sequence[int], reason: str, row: Sequence[Any], *,
        is_reported: bool = True,
    ) -> None:  # fmt: skip
        """Fail the trees of a tuple that can't leave its worker."""
        self.refused.append(RefusedTuple(task, reason, row, is_reported))
        self.failures.add(self._placed.plan.component_of(task), task, reason)
        self.messages.fail(roots, reason)

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes of parcels wait for more tuples."""
        return self._parcels.waiting_bytes

    def pack_all(self) -> None:
        """Make rows of all parcels that wait for more tuples."""
        for number, combined in self.combined.items():
            self._send_combined(number, combined)
        self._parcels.pack_all()

    def _send_combined(self, number: int, combined: CombinedTuples) -> None:
        """Make rows of what was combined, after what was sent before, and before what comes."""
        if (rows := combined.take()) is None:
            return
        self._parcels.pack_of(number)
        number += len(self._placed.subscriptions)
        self._parcels.add(number, rows)
        self._parcels.pack_of(number)

    def pack_messages(self) -> None:
        """Make rows of the messages to ackers of other stages or workers."""
        self.messages.tell_apart()
        ackers = self._placed.ackers
        if not self.messages or not ackers:  # acks of tuples from before acking was turned off
            return
        for task, whole in zip(ackers, self.messages.split(len(ackers)), strict=True):
            for part in whole.parts(self._row_tuples):
                row = wire.pack(wire.ACKS, (task, part.inits, part.acks, part.fails, part.resets))
                self.rows.append((self._placed.plan.worker_of(task), row))
        self.messages = Messages()

    def take_rows(self) -> list[tuple[int, bytes]]:
        """The rows that are ready to leave."""
        rows = self.rows[:]
        self.rows.clear()
        return rows
