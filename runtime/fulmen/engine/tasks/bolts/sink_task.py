"""A task of a sink: gathers a batch's rows, and writes them in one call.

At-least-once: at the end of the batch, so before its commit. Exactly-once: the rows are a journal
of the task, and become part of the commit. The next batch writes them, beside everything else that
it does, and its commit clears the journal. A batch that comes to nothing, or a task that is made
anew, finds the journal again and writes the same rows with the same mark: the store says whether it
has them. One commit at a time is unwritten. Each mark names the one before it, which the store must
have: so a store or a checkpoint that was set back is noticed before anything is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import accumulate
from typing import Any, ClassVar, NoReturn

from typing_extensions import override

from fulmen.api.components import FailedException, ReportedFailedException
from fulmen.api.declarer import ANY_STREAM
from fulmen.api.marks import Point, StoreMismatch
from fulmen.api.returned import refuse_unrun
from fulmen.api.sinks import ERRORS_STREAM, Mark, Rows, ServiceUnavailable, Sink
from fulmen.api.tuples import END_STREAM, TICK_COMPONENT
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.acking.root_ids import without_traced
from fulmen.engine.emitting.collectors import BasicCollector
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.early_rows import EarlyRows
from fulmen.engine.state.early_table import EarlyTable, has_keys_alone
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import EARLY, MARK, ROWS
from fulmen.engine.state.messages.sink_rows import (
    LONGEST_REASON,
    by_chunk,
    values_of,
    with_streams,
)
from fulmen.engine.state.messages.unwritten_rows import (
    Unwritten,
    new_id,
    packed_point,
    unpacked_point,
)
from fulmen.engine.state.values.unreadable import why_not
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable, may_pass
from fulmen.engine.tasks.author.forks import end_child
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.traced_tuples import traced_rows
from fulmen.engine.tuples.chunk import Chunk
from fulmen.errors import PASSED_ON, text_of, with_causes
from fulmen.topology.code.sinks import guarantee_of, no_guarantee, takes_any_stream


class SinkTask(BoltTask):
    """A task of a Sink."""

    instance: Sink
    writes_rows = True
    ends: ClassVar[Sequence[str]] = (END_STREAM,)

    @override
    def new_collector(self) -> Any:
        return BasicCollector(self.who, self.routes, self.ordered, self.report)

    @override
    def restore_engine(self, engine: Any, journals: Journals) -> None:
        super().restore_engine(engine, journals)
        self._sink: str = engine.get("sink", "")
        found = journals.get(ROWS)
        self._unwritten = Unwritten.unpack(found[-1]) if found else None
        self._is_kept = found is not None  # what is unwritten is in the checkpoint
        self._restore_point(journals.get(MARK))
        self._held: list[Chunk] = []
        self._written: list[tuple[Chunk, dict[int, str]]] = []
        self._packed = b""  # what is unwritten, until it is in the checkpoint
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[Rows] | None = None
        self._early = KeyedState.restore(journals, name=EARLY)

    def _restore_point(self, mark: Sequence[bytes] | None) -> None:
        """Know what the store has before what is unwritten. A mark of its own is the newer one."""
        self._has_mark = mark is not None
        self._point: Point | None = None
        if mark is not None:
            self._point = unpacked_point(mark[-1])
        elif self._unwritten is not None:
            self._point = self._unwritten.previous
        if self._unwritten is not None:
            self._unwritten = replace(self._unwritten, previous=self._point)

    @override
    def begin(self, journals: Journals) -> None:
        super().begin(journals)
        config = self.placed.component(self.component).config
        options, kept = self.context.options, type(self.instance).guarantees
        chosen = guarantee_of(
            type(self.instance), options, config, is_transactional=bool(self.placed.emitters)
        )
        if chosen not in kept:
            self._refuse_guarantee(chosen)
        self._is_exactly_once = chosen == "exactly-once"
        self._takes_any = takes_any_stream(options, config)

    def _refuse_guarantee(self, chosen: Any) -> NoReturn:
        text = no_guarantee(type(self.instance), chosen)
        raise ComponentFailed(self.report(text, fatal=True, what="config"))

    @override
    def engine_state(self) -> dict[str, Any]:
        return super().engine_state() | ({"sink": self._sink} if self._sink else {})

    # What earlier commits left

    @override
    def begin_batch(self, header: Header) -> None:
        super().begin_batch(header)
        if self._unwritten is not None:
            self.was_called = True
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, f"fulmen-{self.component}")
            self._writing = self._thread.submit(self._write_committed, self._unwritten)

    def _write_committed(self, unwritten: Unwritten) -> Rows:
        rows = Rows(unwritten.fields, unwritten.items)
        if not unwritten.items:  # all were refused
            return rows
        label = f"{self.context.topology}/{self.component}/{self.context.task_index}"
        mark = Mark(self._sink, *unwritten.point, label, unwritten.previous)
        try:
            refuse_unrun(self.instance.write(rows, mark))
        finally:
            end_child()  # of this thread alone: nothing would end it later
        return rows

    def _end_writing(self) -> None:
        """Wait until what was committed is written. What was refused can't fail any more."""
        if self._writing is None:
            return
        writing, self._writing = self._writing, None
        CALLS.begin(self.task, "write")  # it ends with the call that the batch's end is
        try:
            rows = writing.result()
        except StoreMismatch as e:
            raise ComponentFailed(self.report(e, fatal=True, what="write")) from e
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            raise self._away(e) from e
        assert self._unwritten is not None
        unwritten, self._unwritten = self._unwritten, None
        if unwritten.items:
            self._point = unwritten.point
        if rows.failed:
            first = next(iter(rows.failed.values()))
            are = "are" if ERRORS_STREAM in self.routes else "would be, if the class had it,"
            self.report(
                f"write: {len(rows.failed)} of {len(rows)} rows were refused after they were"
                f" committed. They {are} on the stream {ERRORS_STREAM!r}. The first: {first}"
            )
        if ERRORS_STREAM not in self.routes:  # the batch would fail again and again
            return
        self.collector.position = 0  # there is no tuple to anchor to
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
        """What follows an exception of `write` if the batch can't go on: it is tried again."""
        if self.placed.topology.spec.on_error == "crash":
            return ComponentFailed(self.report(error, fatal=True, what="write"))
        return Unavailable(self.report(error, what="write"))

    # This batch

    @override
    def run(self, chunk: Chunk) -> None:
        if chunk.component != TICK_COMPONENT:
            self.was_called = True
            self.calls += len(chunk)
            self.hold(chunk)
        elif chunk.stream in self.ends:
            super().run(chunk)

    def hold(self, chunk: Chunk) -> None:
        """Keep rows for the end of the batch."""
        self._held.append(chunk)

    @override
    def end_batch(self) -> Chunk | None:
        is_first = self.context.batch.looks_ahead and self._early  # some may be no more
        if not self._held and self._writing is None and not is_first:
            return None
        return Chunk(TICK_COMPONENT, END_STREAM, (), -1, None, [[]])

    @override
    def name_of(self, chunk: Chunk) -> str:
        return "write"  # of tuples, also at the end of a batch

    @override
    def drain(self) -> None:
        """There is no last turn: all rows are written at the end of their batch."""

    @override
    def execute(self, chunk: Chunk) -> None:
        """The end of a batch."""
        held, self._held = self._held, []
        for one in held:
            one.began = chunk.began
        try:
            self._end_writing()
            self._written = self._write_of(held)
        except ComponentFailed as e:
            self.crash = e

    def _write_of(self, held: list[Chunk]) -> list[tuple[Chunk, dict[int, str]]]:
        """Write what the store does not have yet as an early result. Gives what `_write` does."""
        is_early = self.context.batch.looks_ahead
        if not is_early and not (self._early and held):
            return self._write(held)
        if (table := self._early_table()) is not None:
            gone, rows = table.ahead(held) if is_early else table.in_time(held)
            written = self._write([*gone, *rows], deletes=sum(map(len, gone)))
            table.wrote(written[: len(gone)], written[len(gone) :], early=is_early)
            return written
        early = EarlyRows(self._early)
        if is_early:
            back, new, _ = early.ahead(held)
            written = self._write([*back, *new])
            early.gave(written[len(back) :])
            return written
        back, new, known = early.in_time(held, appends=self.instance.appends)
        return [*self._write([*back, *new]), *((chunk, {}) for chunk in known)]

    def _early_table(self) -> EarlyTable | None:
        """What the store has of early results, if it has keys and no other task writes them."""
        key = () if self._takes_any else tuple(self.instance.key_fields)
        ways = {
            (of.grouping.type, tuple(of.grouping.fields))
            for of in self.placed.subscriptions
            if of.target == self.component
        }
        tasks = len(self.context.tasks(self.component))
        if not has_keys_alone(key, ways, tasks):
            return None
        fields = sorted(sorted(stream.fields) for stream in self.context.inputs.values())
        return EarlyTable(self._early, key, (key, sorted(ways), tasks, fields))

    def _write(
        self, chunks: Sequence[Chunk], deletes: int = 0
    ) -> list[tuple[Chunk, dict[int, str]]]:
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
        sampling, found, first = self.placed.sampling, {}, 0
        if sampling is None:
            return {}
        for chunk in chunks:
            for i, root in traced_rows(chunk):
                parent, number = sampling.parents.get(root), self.context.batch.number
                context = sampling.context_in(root, self.component, number, parent)
                found[first + i] = context.traceparent
            first += len(chunk)
        return found

    def unwritten_of(self, rows: Rows, items: Sequence[Any]) -> Unwritten:
        """What is to be written of rows once they are committed."""
        batch = self.context.batch
        return Unwritten(batch.number, batch.attempt, rows.fields, self._point, items)

    def keep(self, rows: Rows, places: Sequence[int], items: Sequence[Any]) -> Sequence[Any]:
        """Make rows a part of the commit. Those fail that can't be pickled and read again."""
        unwritten = self.unwritten_of(rows, items)
        try:
            packed = unwritten.pack()
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's object)
            wrong = {i: why for i, item in enumerate(items) if (why := why_not(item)) is not None}
            for i, why in wrong.items():
                text = f"encode: what it made of the row can't be kept in the checkpoint: {why}"
                rows.failed[places[i]] = f"bolt {self.component!r}: {text}"
                self.report(text)
            kept = [x for i, x in enumerate(items) if i not in wrong]
            if not kept:
                return ()
            unwritten = self.unwritten_of(rows, kept)
            packed = unwritten.pack()
        self._packed = packed
        self._unwritten, self._sink = unwritten, self._sink or new_id(self.rng)
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
            crashes = self.placed.topology.spec.on_error == "crash"
            # only `write` uses a client, whose own exceptions are about a store
            is_away = may_pass(e) and (what == "write" or isinstance(e, OSError))
            if crashes or isinstance(e, ServiceUnavailable) or is_away:
                raise self._away(e) from e
            message = self.report(e, what=what).message
            rows.fail_all(f"bolt {self.component!r}: {message}")
        return ()

    @override
    def send(self, chunk: Chunk, outbox: Outbox, took: float | None = None) -> None:
        """Acks leave when the rows are written, or kept for the commit: at the batch's end."""
        if chunk.stream != END_STREAM:
            return
        seconds, written, self._written = self.seconds, self._written, []
        if written:  # then the time is theirs
            self.seconds = 0.0
        super().send(chunk, outbox, took)
        count = sum(len(one) for one, _ in written)
        for one, failed in written:
            self.seconds = seconds * len(one) / count
            one.pace = seconds / count
            self.failed = sorted(failed.items())
            super().send(one, outbox, seconds)

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        found = {**super().record(number), **self._early.updates(number)}
        if self._unwritten is not None and self._unwritten.number == number:
            found[ROWS] = self._packed, number
            self._packed, self._is_kept = b"", True
            if self._has_mark:  # these rows say what is before them
                found[MARK] = None, number
                self._has_mark = False
        elif self._unwritten is None and self._is_kept:
            found[ROWS] = None, number
            found[MARK] = packed_point(self._point), number
            self._is_kept, self._has_mark = False, True
        return found

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        summary.has_early_rows |= bool(self._early)

    @property
    @override
    def wants_batch(self) -> bool:
        return self._unwritten is not None or super().wants_batch

    @override
    def end(self) -> None:
        if self._writing is not None:
            wait([self._writing])
        if self._thread is not None:
            self._thread.shutdown()
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
