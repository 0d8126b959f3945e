"""A task of a sink: gathers a batch's rows, and writes them in one call.

At-least-once: at the end of the batch, so before its commit. Exactly-once: they become part of the
commit, and are written behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components import FailedException, ReportedFailedException
from fulmen.api.components.returned import refuse_unrun
from fulmen.api.components.sinks import ERRORS_STREAM, Mark, Rows, ServiceUnavailable, Sink
from fulmen.api.declarer import ANY_STREAM
from fulmen.api.marks import Point, StoreMismatch
from fulmen.api.tuples import END_STREAM, TICK_COMPONENT
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.acking.root_ids import without_traced
from fulmen.engine.emitting.collectors.bolt_collectors import BasicCollector
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.protocol.header import Header
from fulmen.engine.state.messages.sink_rows import LONGEST_REASON, by_chunk, values_of, with_streams
from fulmen.engine.state.messages.unwritten_rows import Unwritten
from fulmen.engine.state.values.unreadable import why_not
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable, may_pass
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.traced_tuples import traced_rows
from fulmen.engine.tasks.parts.committed_rows import CommittedRows
from fulmen.engine.tasks.parts.early_results import EarlyResults, Written
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, text_of, with_causes
from fulmen.topology.code.sinks import guarantee_of, no_guarantee, takes_any_stream


class SinkTask(BoltTask):
    """A task of a Sink.

    Attributes:
        committed: The rows of the latest commit, of an exactly-once sink.
        early: Early results that it has written.
        held: The rows of the batch so far.
        held_bytes: About how many bytes they take.
    """

    instance: Sink
    all_calls = "write"  # also for the end of a batch
    writes_rows = True
    ends: ClassVar[Sequence[str]] = (END_STREAM,)

    @override
    def new_collector(self) -> Any:
        return BasicCollector(self)

    @override
    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        super().restore(engine, journals)
        self.committed = self.add(CommittedRows(self, engine, journals))
        self.early = self.add(EarlyResults(self, journals))
        self.held: list[Chunk] = []
        self.held_bytes = 0
        self._written: Written = []

    @override
    def begin(self, journals: Journals) -> None:
        super().begin(journals)
        kind, options = type(self.instance), self.context.options
        config = self.placed.component(self.component).config
        chosen = guarantee_of(kind, options, config, is_transactional=bool(self.placed.emitters))
        if chosen not in kind.guarantees:
            text = no_guarantee(kind, chosen)
            raise ComponentFailed(self.report(text, fatal=True, what="config"))
        self._is_exactly_once = chosen == "exactly-once"
        self._takes_any = takes_any_stream(options, config)

    # What earlier commits left

    @override
    def begin_batch(self, header: Header) -> None:
        super().begin_batch(header)
        self.committed.begin_writing(self._write_committed)

    def _write_committed(self, rows: Rows, mark: Mark) -> None:
        try:
            refuse_unrun(self.instance.write(rows, mark))
        finally:
            end_child()  # of this thread alone: nothing would end it later

    def _end_writing(self) -> None:
        """Wait until what was committed is written. What was refused can't fail any more."""
        if not self.committed.is_writing:
            return
        CALLS.begin(self.task, "write")  # it ends with the call that the batch's end is
        try:
            unwritten, rows = self.committed.written()
        except StoreMismatch as e:
            raise ComponentFailed(self.report(e, fatal=True, what="write")) from e
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            raise self._away(e) from e
        if rows.failed:
            first = next(iter(rows.failed.values()))
            are = "are" if ERRORS_STREAM in self.routes else "would be, if the class had it,"
            self.report(
                f"write: {len(rows.failed)} of {len(rows)} rows were refused after they were"
                f" committed. They {are} on the stream {ERRORS_STREAM!r}. The first: {first}"
            )
        if ERRORS_STREAM not in self.routes:  # the batch would fail again and again
            return
        refused = [(self.instance.describe(rows[i]), why) for i, why in sorted(rows.failed.items())]
        self.emit_refused([*unwritten.refused, *refused], unwritten.transaction)

    def emit_refused(
        self,
        refused: Sequence[tuple[Any, str]],
        transaction: Point | None,  # noqa: ARG002 (for those below)
    ) -> None:
        """Emit rows that can't fail any more on the stream `errors`.

        Args:
            refused: The rows, and why.
            transaction: The one that they are of.
        """
        for row, reason in refused:
            self.collector.emit([row, reason[:LONGEST_REASON]], ERRORS_STREAM)

    def _away(self, error: BaseException) -> ComponentFailed:
        """The error for an exception of `write` if the batch can't go on: it is tried again."""
        if self.errors.crashes:
            return ComponentFailed(self.report(error, fatal=True, what="write"))
        return Unavailable(self.report(error, what="write"))

    # This batch

    @override
    def run(self, chunk: Chunk) -> None:
        if chunk.component == TICK_COMPONENT:
            if chunk.stream in self.ends:
                super().run(chunk)
        elif self._takes_parts():
            self.held.append(chunk)
            super().run(chunk)
        else:
            self.was_called = True
            self.calls += len(chunk)
            self.held_bytes += chunk.rows.about_bytes
            self.hold(chunk)

    def _takes_parts(self) -> bool:
        """Whether rows are written as they come: none is held by now that goes before them."""
        if not self.instance.takes_parts or self._is_exactly_once or self.placed.emitters:
            return False
        is_early = self.context.batch.looks_ahead or bool(self.early)
        return not (is_early or self.held or self.committed.is_writing)

    def hold(self, chunk: Chunk) -> None:
        """Keep rows for the end of the batch."""
        self.held.append(chunk)

    @override
    def end_batch(self) -> Chunk | None:
        is_first = self.context.batch.looks_ahead and self.early  # some may be no more
        if not self.held and not self.committed.is_writing and not is_first:
            return None
        return Chunk(TICK_COMPONENT, END_STREAM, (), -1, None, TupleRows([[]]))

    @override
    def drain(self) -> None:
        """Take no last turn: all rows are written at the end of their batch."""

    @override
    def execute(self, chunk: Chunk) -> None:
        """The end of a batch, or rows that are written as they come."""
        held, self.held, self.held_bytes = self.held, [], 0
        for one in held:
            one.began = chunk.began
        try:
            self._end_writing()
            key_fields = () if self._takes_any else tuple(self.instance.key_fields)
            self._written = self.early.write(held, self.write, key_fields, self.instance.appends)
        except ComponentFailed as e:
            self.crash = e

    def write(self, chunks: Sequence[Chunk], deletes: int) -> Written:
        """Write the rows of a batch, or keep them for the commit. Returns which failed, and why.

        Args:
            chunks: The rows.
            deletes: Of how many, the first ones, what they have written is deleted.
        """
        if not chunks:
            return []
        fields = ANY_STREAM.fields if self._takes_any else chunks[0].fields
        values = with_streams(chunks) if self._takes_any else values_of(chunks)
        rows = Rows(fields, values, traceparents=self._traceparents(chunks))
        items = self._encode(rows, deletes)
        left = [i for i in range(len(rows)) if i not in rows.failed] if rows.failed else None
        kept = items if left is None else [items[i] for i in left]
        if len(kept) and self._is_exactly_once:
            self._called("encode", rows, lambda: self.keep(rows, left or range(len(rows)), kept))
        elif len(kept):
            refused = self._write_now(Rows(rows.fields, kept, _roots_of(chunks, left)))
            for position, reason in refused.items():
                rows.failed[position if left is None else left[position]] = reason
        return list(by_chunk(chunks, rows.failed))

    def _traceparents(self, chunks: Sequence[Chunk]) -> Mapping[int, str]:
        sampling, traceparents, first = self.placed.sampling, {}, 0
        if sampling is None:
            return {}
        for chunk in chunks:
            for i, root in traced_rows(chunk):
                parent, number = sampling.parents.get(root), self.context.batch.number
                context = sampling.context_in(root, self.component, number, parent)
                traceparents[first + i] = context.traceparent
            first += len(chunk)
        return traceparents

    def unwritten_of(self, rows: Rows, items: Sequence[Any]) -> Unwritten:
        """The record of rows that are to be written once they are committed."""
        batch = self.context.batch
        return Unwritten(batch.number, batch.attempt, rows.fields, self.committed.point, items)

    def keep(self, rows: Rows, places: Sequence[int], items: Sequence[Any]) -> Sequence[Any]:
        """Make rows a part of the commit. Those fail that can't be pickled and read again."""
        try:
            self.committed.keep(self.unwritten_of(rows, items))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's object)
            wrong = {i: why for i, item in enumerate(items) if (why := why_not(item)) is not None}
            for i, why in wrong.items():
                text = f"encode: what it made of the row can't be kept in the checkpoint: {why}"
                rows.failed[places[i]] = f"bolt {self.component!r}: {text}"
                self.report(text)
            kept = [x for i, x in enumerate(items) if i not in wrong]
            if kept:
                self.committed.keep(self.unwritten_of(rows, kept))
        return ()

    def _encode(self, rows: Rows, deletes: int) -> Sequence[Any]:
        def encode() -> Sequence[Any]:
            items = _as_many(self.instance.encode(rows), rows)
            if not deletes:
                return items
            deletion, failed = self.instance.deletion, rows.failed
            gone = [
                item if i in failed else deletion(item) for i, item in enumerate(items[:deletes])
            ]
            return [*gone, *items[deletes:]]

        return self._called("encode", rows, encode)

    def _write_now(self, rows: Rows) -> Mapping[int, str]:
        def write() -> Sequence[Any]:
            refuse_unrun(self.instance.write(rows, None))
            return ()

        self._called("write", rows, write)
        return rows.failed

    def _called(self, what: str, rows: Rows, call: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Call the author's method for all rows; they fail if it raises.

        Raises:
            Unavailable: The store is away.
            ComponentFailed: `onError: crash`, and it raised.
        """
        CALLS.begin(self.task, what)  # it ends with the call that the batch's end is
        try:
            return call()
        except FailedException as e:
            if isinstance(e, ReportedFailedException):
                self.report(e, what=what)
            rows.fail_all(with_causes(e, text_of(e) or type(e).__name__))
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            # only `write` uses a client, whose own exceptions are about a store
            is_away = may_pass(e) and (what == "write" or isinstance(e, OSError))
            if self.errors.crashes or isinstance(e, ServiceUnavailable) or is_away:
                raise self._away(e) from e
            message = self.report(e, what=what).message
            rows.fail_all(f"bolt {self.component!r}: {message}")
        return ()

    @override
    def send(self, chunk: Chunk, outbox: Outbox, took: float | None = None) -> None:
        """Acks leave when the rows are written, or kept for the commit."""
        seconds, written, self._written = self.seconds, self._written, []
        if chunk.stream == END_STREAM or self.crash is not None:
            if written:  # then the time is theirs
                self.seconds = 0.0
            super().send(chunk, outbox, took)
        count = sum(len(one) for one, _ in written)
        for one, failed in written:
            self.seconds = seconds * len(one) / count
            one.pace = seconds / count
            self.failed = sorted(failed.items())
            super().send(one, outbox, seconds)

    @property
    @override
    def wants_batch(self) -> bool:
        return self.committed.unwritten is not None or super().wants_batch

    @override
    def end(self) -> None:
        self.committed.end()
        super().end()


def _roots_of(
    chunks: Sequence[Chunk], places: Sequence[int] | None
) -> Callable[[int], tuple[int, ...]]:
    """Gives the roots of a tuple, by its number among those at `places`."""
    firsts = [0, *accumulate(len(chunk) for chunk in chunks)]

    def roots(i: int) -> tuple[int, ...]:
        i = i if places is None else places[i]
        at = bisect_right(firsts, i) - 1
        return tuple(map(without_traced, chunks[at].lineage(i - firsts[at])[0]))

    return roots


def _as_many(items: Sequence[Any], rows: Rows) -> Sequence[Any]:
    if len(items) != len(rows):
        raise ValueError(f"encode returned {len(items)} items for {len(rows)} rows")
    return items
