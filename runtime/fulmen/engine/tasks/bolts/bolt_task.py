"""A bolt task in one batch: it runs over its chunks, then what it emitted and acked is sent.

Running (the author's code) and sending (the engine's) are apart, so that the executors of a
`blocking` bolt can run as threads while all sending is done by one.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fulmen.api.components import FailedException, ReportedFailedException, overrides
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.api.tuples import DRAIN_STREAM, END_STREAM, FINISH_STREAM, TICK_COMPONENT, TICK_STREAM
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.collectors.emitter import not_a_list
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.protocol.figures.statistics import ACKED, EXECUTED, FAILED, add_chunk, add_task
from fulmen.engine.protocol.header import Header
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable
from fulmen.engine.tasks.bolts.traced_tuples import note_executed
from fulmen.engine.tasks.parts.dead_letters import DeadLetters
from fulmen.engine.tasks.parts.home_evidence import HOMES, HomeEvidence
from fulmen.engine.tasks.parts.kept_mark import BoltMark
from fulmen.engine.tasks.parts.named_calls import CALLBACKS, NamedCalls
from fulmen.engine.tasks.parts.results import Results
from fulmen.engine.tasks.parts.timers import AuthorTimers
from fulmen.engine.tasks.task import Task
from fulmen.engine.tuples.chunk import Chunk, Ids, RangeLineage
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import FulmenError, GroupingError, text_of, with_causes

NO_TUPLES = frozenset({*CALLBACKS, FINISH_STREAM})
"""Streams whose chunks are no tuples, and not counted."""


class BoltTask(Task):
    """The base of all kinds of bolts.

    Attributes:
        executor: The first task of its executor.
        seconds: How long the latest chunk took.
        callback: The author's method that is being called.
        results: What it emits by itself. None: it keeps no results.
        letters: Its dead letters.
        named_calls: Its calls that are for no tuple.
        timers: Those that the author sets. None: there can't be any.
        homes: Which task its keys belong to. None: it keeps none that could move.
        ends_attempts: Whether it is told where the input of an attempt ends.
        tells_apart: Whether it needs the edges of its tuples: it may keep one for another batch.
    """

    executor = 0
    seconds = 0.0
    callback = "execute"
    results: Results | None = None
    timers: AuthorTimers | None = None
    homes: HomeEvidence | None = None
    ends_attempts = False
    tells_apart = False

    @override
    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        self.letters = self.add(DeadLetters(self, journals))
        origin = self.placed.origins.get(self.placed.plan.key_of(self.task))
        if origin is not None:
            self.results = self.add(Results(self, origin, engine, journals, self.letters))
        self.named_calls = self.add(NamedCalls(self, self.results, self.letters))
        self._known_homes, self._known_sink = engine.get(HOMES), engine.get("sink", "")

    @override
    def begin(self, journals: Journals) -> None:
        self.context.timers.window_calls = self.named_calls
        self.timers = self.add(AuthorTimers(self, journals))
        super().begin(journals)
        self.timers.settle()
        if getattr(self.instance, "keeps_mark", False):
            mark = self.add(BoltMark(self, self._known_sink, journals))
            self.context.signals.kept_mark = mark.kept
        state, timers = self.author.state, self.timers.waiting
        self.homes = self.add(HomeEvidence(self, self.instance, state, timers, self._known_homes))

    @override
    def before_open(self) -> None:
        if self.timers is not None:
            self.timers.look()

    @override
    def begin_batch(self, header: Header) -> None:
        self.named_calls.begin_batch(header)
        super().begin_batch(header)
        self.letters.begin_batch(header)
        if self.timers is not None:
            self.timers.begin_batch(header)
        if self.was_told:
            self.named_calls.note_committed()

    @property
    @override
    def hears_commits(self) -> bool:
        return self.named_calls.hears_commits and super().hears_commits

    @override
    def make_collector(self) -> Any:
        self.collector = self.new_collector()
        self.failed: list[tuple[int, str]] = []
        self.crash: ComponentFailed | None = None
        return self.collector

    @abstractmethod
    def new_collector(self) -> Any:
        """The collector of this kind of bolt."""

    def run(self, chunk: Chunk) -> None:
        """Call `execute` for each tuple of a chunk. Raises nothing."""
        chunk.began = self.now()
        started = time.perf_counter()
        self.was_called = True
        self.calls += len(chunk)
        self.failed = []
        self.callback = CALLBACKS.get(chunk.stream, "execute")
        if self.homes is not None:  # a task of attempts has no state of keys
            self.homes.fetch(chunk)
        self.collector.open()
        calling = CALLS.begin(self.task, self.named_calls.name_of(chunk))
        self.execute(chunk)
        end_child()
        CALLS.end(calling)
        self.collector.close()
        if self.homes is not None:
            self.homes.saw(chunk)
        self.seconds = time.perf_counter() - started
        chunk.pace = self.seconds / max(1, len(chunk))

    @abstractmethod
    def execute(self, chunk: Chunk) -> None:
        """The loop over the tuples of a chunk."""

    def send(self, chunk: Chunk, outbox: Outbox, took: float | None = None) -> None:
        """Send what was emitted, acked and failed while `run` dealt with `chunk`.

        Args:
            chunk: The tuples.
            outbox: What takes all that.
            took: How long they had to wait for it. Default: as long as it took for them alone.

        Raises:
            ComponentFailed: `onError: crash`, and the bolt raised.
        """
        if self.crash is not None:
            raise self.crash
        name = f"{chunk.component}:{chunk.stream}"
        counts = outbox.counts
        xors: Ids = np.zeros(len(chunk), np.uint64)
        self.send_emits(chunk, xors, outbox)
        acked = self.acked(chunk)
        if chunk.stream not in NO_TUPLES:
            counts[self.component, EXECUTED, name] += len(chunk)
            n_acked = len(chunk) if acked is None else len(acked)
            counts[self.component, ACKED, name] += n_acked
            counts[self.component, FAILED, name] += len(self.failed)
            if self.failed:
                outbox.failures.add_all(self.component, self.task, [why for _, why in self.failed])
            add_chunk(outbox.times, self.component, name, chunk.pace, len(chunk), n_acked)
            add_task(
                outbox.tasks,
                self.task,
                executed=len(chunk),
                failed=len(self.failed),
                seconds=self.seconds,
            )
            if outbox.traces is not None:
                took = self.seconds if took is None else took
                note_executed(outbox.traces, self.component, chunk, took, self.failed)
        if self.named_calls.letters:
            self.named_calls.send_letters(outbox)
        outbox.busy[self.executor] += self.seconds
        self.send_acks(chunk, xors, acked, outbox)
        self.collector.release()

    def send_emits(self, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send what was emitted.

        Args:
            chunk: The tuples that the bolt had.
            xors: Takes the XOR of the ids of what was anchored to each of them.
            outbox: What takes the emits.
        """
        for buffer in self.collector.runs:
            if len(buffer):
                for i in reversed(buffer.wrong()):
                    self._refuse(not_a_list(self.who, buffer.values(i)), i, buffer, chunk)
                if self.results is not None and self.results.keeps(buffer.routes.stream, chunk):
                    self.send_own(self.results, buffer, chunk, xors, outbox)
                else:
                    self.send_or_fail(buffer, chunk, xors, outbox)

    def send_own(
        self,
        results: Results,
        buffer: Buffer,
        chunk: Chunk,  # noqa: ARG002 (for those below)
        xors: Ids,  # noqa: ARG002
        outbox: Outbox,
    ) -> None:
        """Send emits that no input is the reason of: each is a message of its own."""
        results.send_rows(buffer.routes.stream, buffer.tuple_rows(), outbox, buffer.chosen)

    def send_waiting(self, outbox: Outbox) -> None:
        """Send results of earlier chunks: before what is no result, and after the last chunk."""
        if self.results is not None:
            self.results.send_waiting(outbox)

    def send_or_fail(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send the emits on one stream. One without a task to go to fails its input instead."""
        self.send_waiting(outbox)
        while len(buffer):
            try:
                self.send_buffer(buffer, chunk, xors, outbox)
                break
            except GroupingError as e:
                self._refuse(e, e.emission, buffer, chunk)
        if self.ordered:
            outbox.pack_all()

    def _refuse(self, error: FulmenError, i: int | None, buffer: Buffer, chunk: Chunk) -> None:
        """Emit `i` can't be sent: report it, and fail what it is anchored to."""
        self.errors.report_or_crash(error, "emit", fatal=i is None)
        if i is not None:
            self.fail_origin(buffer.origins[i], chunk, str(error))
            buffer.remove(i)

    def fail_origin(self, origin: Any, chunk: Chunk, reason: str) -> None:  # noqa: ARG002 (for those below)
        """Fail what an emit is anchored to that came to nothing."""
        if origin not in [i for i, _ in self.failed]:
            self.failed.append((origin, reason))

    def send_buffer(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send the emits on one stream."""
        emitted, stream = buffer.tuple_rows(), buffer.routes.stream
        self.send_anchored(stream, emitted, buffer.origins, chunk, xors, outbox, buffer.chosen)

    def send_anchored(
        self,
        stream: str,
        emitted: TupleRows,
        positions: Sequence[int] | npt.NDArray[np.int64],
        chunk: Chunk,
        xors: Ids,
        outbox: Outbox,
        chosen: Any = None,
    ) -> None:
        """Send emits that are anchored to one tuple of the chunk each.

        Args:
            stream: Which they were emitted on.
            emitted: Their values.
            positions: Those of the tuples. A range: there is one emit for each tuple.
            chunk: The tuples.
            xors: Takes the XOR of the ids of what was anchored to each of them.
            outbox: What takes the emits.
            chosen: Emits whose tasks were chosen already.
        """
        lineage, routes = chunk.lineage_columns, self.routes[stream]
        if isinstance(lineage, RangeLineage):
            outbox.send_range(self.task, routes, emitted, lineage.below(positions), chosen)
            return
        if type(positions) is range:
            ids = outbox.send(self.task, routes, emitted, lineage, chosen)
            if lineage is not None:
                xors ^= ids
            return
        at = np.asarray(positions, np.int64)
        parents = None if lineage is None else lineage.take(at)
        ids = outbox.send(self.task, routes, emitted, parents, chosen)
        if parents is not None:
            np.bitwise_xor.at(xors, at, ids)

    def acked(self, chunk: Chunk) -> npt.NDArray[np.int64] | None:
        """Positions of the tuples that were acked; None: all."""
        if not self.failed:
            return None
        gone = np.zeros(len(chunk), np.bool_)
        gone[[i for i, _ in self.failed]] = True
        return np.flatnonzero(~gone)

    def send_acks(
        self, chunk: Chunk, xors: Ids, acked: npt.NDArray[np.int64] | None, outbox: Outbox
    ) -> None:
        """Tell the ackers each root of an acked tuple: its edge id XOR what was anchored to it."""
        lineage = chunk.lineage_columns
        if lineage is None:
            return
        if isinstance(lineage, RangeLineage):
            outbox.end_in_range(lineage, acked, self.failed)
            return
        if acked is not None:
            xors = xors[acked]
            if lineage.offsets is None:
                roots = lineage.roots[[i for i, _ in self.failed]].tolist()
                outbox.messages.fail_each(roots, (reason for _, reason in self.failed))
            else:
                for i, reason in self.failed:
                    outbox.messages.fail(lineage.of(i)[0], reason)
            lineage = lineage.take(acked)
        if len(lineage.roots):
            if lineage.offsets is not None:
                xors = np.repeat(xors, np.diff(lineage.offsets))
            outbox.messages.acks.append((lineage.roots, lineage.edges ^ xors, None))

    def note_failure(self, position: int, error: BaseException) -> None:
        """An exception of the author's code while it dealt with the tuple at `position`."""
        if (known := self.errors.known_failure(error, self.callback)) is not None:
            self.failed.append((position, known))
            return
        if isinstance(error, FailedException):
            reason = with_causes(error, text_of(error) or type(error).__name__)
            self.failed.append((position, reason))
            if isinstance(error, ReportedFailedException):
                self.report(error, what=self.callback)
            return
        crashes = self.errors.crashes or isinstance(error, StoreMismatch)
        if crashes or self.needs_service(error):
            report = self.report(error, fatal=crashes, what=self.callback)
            reason = f"bolt {self.component!r}: {report.message}"
            kind = ComponentFailed if crashes else Unavailable
            self.crash = self.crash or kind(report)
        else:
            reason = self.errors.failure(error, self.callback)
        self.failed.append((position, reason))

    def needs_service(self, error: BaseException) -> bool:
        """Whether `execute` has said that it can't go on: the batch waits instead of its tuples.

        A hook has committed work to do, such as files to write, which waits in other ways.
        """
        return isinstance(error, ServiceUnavailable) and self.callback == "execute"

    def tick(self, period: float) -> Chunk:
        """A tick tuple."""
        return Chunk(TICK_COMPONENT, TICK_STREAM, ("rate_secs",), -1, None, TupleRows([[period]]))

    def end_batch(self) -> Chunk | None:
        """The chunk for the end of the batch; None: the author makes no use of it."""
        if not self.calls and not self.context.signals.hold.reason:
            return None
        if not overrides(self.instance, "end_batch"):
            return None
        return Chunk(TICK_COMPONENT, END_STREAM, (), -1, None, TupleRows([[]]))

    def drain(self) -> Chunk | None:
        """The chunk for its last turn; None: the author makes no use of it."""
        if not overrides(self.instance, "drain"):
            return None
        return Chunk(TICK_COMPONENT, DRAIN_STREAM, (), -1, None, TupleRows([[]]))
