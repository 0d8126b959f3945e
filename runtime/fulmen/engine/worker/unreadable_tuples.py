"""Tuples that a bolt can't be given: they can't be unpickled, or Python has no values for them.

Their trees fail, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fulmen.api.components.chunks import ChunkBolt
from fulmen.api.components.many import ManyBolt
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.tasks.author.errors import LONGEST_MESSAGE, ComponentFailed, shortened
from fulmen.engine.tasks.bolts.arrow_bolt_task import ArrowBoltTask
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.task import Task
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import Chunk, RangeLineage
from fulmen.engine.tuples.python_values import have_python_values, python_rows
from fulmen.engine.tuples.tuple_rows import TupleRows


class UnreadableTuples:
    """Tuples of one batch that one worker can't read."""

    def __init__(self, placed: PlacedTopology) -> None:
        self._placed = placed
        self._reports: dict[int, ErrorReport] = {}  # of each emitting task

    def without(
        self, parcel: wire.Parcel, receiver: Callable[[int], Task], outbox: Outbox
    ) -> wire.Parcel:
        """The tuples of a parcel that could be read. The trees of the others fail.

        Raises:
            ComponentFailed: There is one, and the topology has `onError: crash`.
        """
        why: dict[int, str] = {}
        subscription = self._placed.sent[parcel.subscription]
        for k, reasons in parcel.unreadable.items():
            for i, reason in reasons.items():
                why.setdefault(
                    i,
                    f"emit on stream {subscription.stream!r}: the value of field"
                    f" {subscription.fields[k]!r} can't be unpickled ({reason}), so bolt"
                    f" {subscription.target!r} did not get it. pickle.loads(pickle.dumps(value))"
                    " must give the value again; or emit plain values",
                )
        for i, message in sorted(why.items()):
            roots = () if parcel.lineage is None else parcel.lineage.of(i)[0]
            self._fail(subscription.source, int(parcel.sources[i]), message, roots, outbox)
            task = receiver(int(parcel.targets[i]))
            if task.attempts is not None:
                task.attempts.fail(parcel.rows[i][0], message)
        kept = np.array([i for i in range(len(parcel)) if i not in why], np.int64)
        return parcel.take(kept)

    def as_rows(self, task: BoltTask, chunk: Chunk, outbox: Outbox) -> Chunk:
        """The tuples of a chunk that Python has values for. The trees of the others fail.

        Args:
            task: Which is to receive them. An ArrowBolt does so without Python's values, and some
                bolts of Fulmen's own do if there is one for each.
            chunk: What waits for it.
            outbox: Takes the failures.

        Raises:
            ComponentFailed: There is one, and the topology has `onError: crash`.
        """
        arrow = chunk.rows.arrow
        if isinstance(task, ArrowBoltTask) or arrow is None:
            return chunk
        if isinstance(task.instance, ChunkBolt | ManyBolt) and have_python_values(arrow):
            return chunk
        rows, wrong = python_rows(arrow)
        if wrong and isinstance(chunk.lineage_columns, RangeLineage):
            chunk.lineage_columns = chunk.lineage_columns.drawn(outbox.random_ids)
        for i, why in sorted(wrong.items()):
            message = (
                f"emit on stream {chunk.stream!r}: {why}, so bolt {task.component!r} did not get"
                " it. Cast the column to another type, or receive it with an ArrowBolt"
            )
            self._fail(chunk.component, chunk.source_task(i), message, chunk.lineage(i)[0], outbox)
            if task.attempts is not None:
                task.attempts.fail(chunk.rows[i][0], message)
        kept = chunk.take([i for i in range(len(chunk)) if i not in wrong]) if wrong else chunk
        kept.rows = TupleRows([row for i, row in enumerate(rows) if i not in wrong])
        return kept

    def _fail(
        self, source: str, task: int, message: str, roots: Sequence[int], outbox: Outbox
    ) -> None:
        kind = "spout" if source in self._placed.sources else "bolt"
        if roots:
            outbox.messages.fail(roots, f"{kind} {source!r}: {message}")
        self._report(source, task, message)

    def _report(self, component: str, task: int, message: str) -> None:
        known = self._reports.get(task)
        if known is not None:
            self._reports[task] = replace(known, more=known.more + 1)
            return
        fatal = self._placed.topology.spec.on_error == "crash"
        message = shortened(message, LONGEST_MESSAGE)
        report = self._reports[task] = ErrorReport(component, task, message, fatal=fatal)
        if fatal:
            raise ComponentFailed(report)

    def tell(self, summary: Summary) -> None:
        """Put into a summary what the batch had of them, and begin the next one."""
        summary.errors += self._reports.values()
        self._reports = {}
