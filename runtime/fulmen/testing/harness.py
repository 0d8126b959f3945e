"""One bolt alone: tuples in, emits and acks out. No topology, no batches."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from fulmen.api import (
    ArrowBolt,
    BasicBolt,
    FailedException,
    ManyBolt,
    Stream,
    TopologyContext,
    Tuple,
    output_streams,
)
from fulmen.api.components import overrides
from fulmen.api.components.returned import refuse_result
from fulmen.api.signals import Lag
from fulmen.api.tuples import (
    DRAIN_STREAM,
    END_STREAM,
    HELD,
    TICK_COMPONENT,
    TICK_STREAM,
    TIMER_STREAM,
    Held,
)
from fulmen.engine.emitting.collectors.arrow_collectors import ArrowCollector
from fulmen.engine.emitting.collectors.bolt_collectors import BasicCollector, BoltCollector
from fulmen.engine.emitting.collectors.emitter import not_a_list
from fulmen.engine.emitting.routes import Routes
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.tasks.author.event_loop import completed
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.engine.tasks.bolts.many_tuples import ChunkCollector, ChunkTuples, positions_of
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.totals.author_metrics import AuthorMetrics
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import DeclarationError
from fulmen.topology.code.transient import mistaken_transient
from fulmen.topology.configuration.options import configured_alone

SOURCE_TASK, TASK = 1, 2


@dataclass(frozen=True)
class Emitted:
    """One emit.

    Attributes:
        values: What was emitted.
        stream: On which stream.
        anchors: The inputs that it is anchored to.
        task: The task that a direct emit named.
    """

    values: Sequence[Any]
    stream: str = "default"
    anchors: tuple[Tuple, ...] = ()
    task: int | None = None


class _NobodyListens(Routes):
    """The routes of a stream without subscribers."""

    def __init__(self, component: str, stream: str, declared: Stream) -> None:
        self.component = component
        self.stream = stream
        self.fields = declared.fields
        self.direct = declared.direct
        self.subscriptions = []
        self.choosers = []

    def direct_to(self, task: int) -> list[tuple[int, list[int]]]:
        return [(0, [task])]


class BoltHarness:
    """Calls one bolt and keeps what it does.

    An exception that the bolt raises is raised here, but for FailedException, which fails the
    tuple as it does in a topology.

    Attributes:
        bolt: The instance that is being called; another one after `restart`.
        emitted: What it emitted so far.
        acked: The tuples that it acked, or that were acked for it.
        failed: The tuples that it failed, with reasons.
        errors: What it reported, and warnings about its fields.
        resets: The tuples whose timeout it reset.
        lag: What it said last of its lag; None: nothing.
    """

    def __init__(
        self,
        bolt: Any,
        *,
        fields: Sequence[str] = ("value",),
        component: str = "source",
        stream: str = "default",
        conf: Mapping[str, Any] | None = None,
        name: str = "bolt",
    ) -> None:
        """Make an instance and prepare it.

        Args:
            bolt: A Bolt, BasicBolt or ArrowBolt: the class, or an object to be copied.
            fields: Of the tuples that it is to receive.
            component: Where they come from.
            stream: And on which stream.
            conf: What `prepare` receives. It is the component's own `config` as well, so it must be
                what the class's `config_model` wants.
            name: The bolt's own name.

        Raises:
            ValidationFailed: `conf` has mistakes, or names a variable that is not set.
        """
        self._prototype = bolt
        self._fields = tuple(fields)
        self._source = (component, stream)
        self.name = name
        self.who = f"bolt {name!r}, task {TASK}"
        cls = bolt if isinstance(bolt, type) else type(bolt)
        self._configuration = configured_alone(cls, conf or {}, f"bolt {name!r}")
        self.emitted: list[Emitted] = []
        self.acked: list[Tuple] = []
        self.failed: list[tuple[Tuple, str]] = []
        self.errors: list[str] = []
        self.resets: list[Tuple] = []
        self.lag: Lag | None = None
        self._metrics = AuthorMetrics()
        self._journals: dict[str, list[bytes]] = {}
        self._commits = 0
        self._timers_state = KeyedState()  # which outlives the instance
        self._watermark: int | None = None
        self._clock = 0.0
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._author.close()

    @property
    def state(self) -> dict[Any, Any]:
        """The bolt's `self.state`."""
        return dict(self._author.state)

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics by name, as in `Result.metrics`; those of instances before count as well."""
        self._take_signals()
        return self._metrics.of_component(self.name)

    @property
    def held(self) -> str:
        """Why it holds the spouts; "": it does not."""
        return self._signals.hold.reason

    def _take_signals(self) -> None:
        self.lag = self._signals.take_lag() or self.lag
        for wrong in self._metrics.add(self.name, 0, self._signals.take_samples()):
            self.errors.append(wrong)

    def execute(self, values: Sequence[Any] | Tuple) -> Tuple:
        """Have the bolt deal with one tuple.

        Args:
            values: One per field; or a tuple that was made before, such as one that has failed.

        Returns:
            The tuple, to look for in `acked` and in anchors.
        """
        tup = values if isinstance(values, Tuple) else self._tuple(values)
        if isinstance(self.bolt, ArrowBolt):
            columns = [pa.array([value]) for value in tup.values]
            self._execute_arrow(pa.RecordBatch.from_arrays(columns, list(tup.fields)), [tup])
        else:
            self._execute_row(tup)
        return tup

    def execute_batch(self, batch: pa.RecordBatch) -> list[Tuple]:
        """Have an ArrowBolt deal with several rows at once. Returns a tuple for each."""
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        tuples = [self._tuple(list(row)) for row in rows]
        self._execute_arrow(batch, tuples)
        return tuples

    def tick(self, seconds: float = 1.0) -> None:
        """Send a tick."""
        if isinstance(self.bolt, ArrowBolt):
            self._execute_arrow(None, [], self.bolt.tick)
            return
        origin = Held(TICK_COMPONENT, TICK_STREAM, ("rate_secs",), -1)
        self._execute_row(Tuple([seconds], origin, HELD))

    def advance(self, watermark: int | None = None, seconds: float = 0.0) -> None:
        """Let time pass. Timers that are due are called.

        Args:
            watermark: What event time comes to, in milliseconds since 1970. None: it stands.
            seconds: Of the batch clock, which begins at 0. For a bolt that goes by the clock, so
                does the time of day, with 1970.
        """
        batch, timers = self._context.batch, self._timers
        self._clock += seconds
        self._context.timers.clock = self._clock
        if self._goes_by_clock:
            watermark = round(self._clock * 1000)
        if watermark is not None and watermark >= (batch.watermark or watermark):
            batch.watermark = batch.next_watermark = self._watermark = watermark
        while due := timers.take_due(batch.watermark, self._clock):
            for key, at in due:
                self._turn("on_timer", TIMER_STREAM, key, at)

    def end_batch(self) -> None:
        """End the batch of what was executed."""
        self._turn("end_batch", END_STREAM)

    def drain(self) -> None:
        """Give the bolt its last turn, as when its topology is drained."""
        self._turn("drain", DRAIN_STREAM)

    def _turn(self, method: str, stream: str, *values: Any) -> None:
        turn = partial(getattr(self.bolt, method), *values)
        if isinstance(self.bolt, ArrowBolt):
            self._execute_arrow(None, [], turn)
            return
        origin = Held(TICK_COMPONENT, stream, (), -1)
        self._execute_row(Tuple([], origin, HELD), turn)

    def commit(self) -> None:
        """Have what the bolt keeps committed: a restart goes on from there."""
        self._commits += 1
        self._author.write_down(self._journals, self._commits)
        self.errors += self._author.take_warnings()

    def restart(self) -> None:
        """Lose the process: what goes on is a new instance with the old one's durable state."""
        self._take_signals()
        self.commit()
        self._start()

    def report(self, error: BaseException | str) -> None:
        """Take note of an error that the bolt reported."""
        self.errors.append(str(error))

    def _start(self) -> None:
        self._author = AuthorInstance(self._made, self._journals)
        self.bolt: Any = self._author.instance
        streams = output_streams(self.bolt, self._configuration.options)
        self.routes = {n: _NobodyListens(self.name, n, s) for n, s in streams.items()}
        self.ordered = frozenset(streams)  # `emitted` has the emits of all of them in one order
        self._collector = self._new_collector()
        context = self._context = self._made_context(streams)
        self._signals = context.signals
        options = self._configuration.options
        self._goes_by_clock = self.bolt.goes_by_clock(options)
        context.batch.watermark, context.timers.clock = self._watermark, self._clock
        context.batch.next_watermark = round(self._clock * 1000) if self._goes_by_clock else None
        self._timers = TaskTimers(self._timers_state)
        if overrides(self.bolt, "on_timer"):
            context.timers.keeper = self._timers
        injected = {
            "collector": self._collector,
            "context": context,
            "conf": dict(self._configuration.conf),
        }
        is_copy = not isinstance(self._prototype, type)
        self._author.open(injected, lambda call: call(), is_copy=is_copy)

    def _made(self) -> Any:
        made = self._prototype
        bolt = made() if isinstance(made, type) else copy.deepcopy(made)
        for message, cure in mistaken_transient(bolt):
            raise DeclarationError(f"{self.who}: {message}. {cure}")
        return bolt

    def _made_context(self, streams: Mapping[str, Stream]) -> TopologyContext:
        component, stream = self._source
        return TopologyContext(
            topology="test",
            component=self.name,
            task_id=TASK,
            task_index=0,
            worker=0,
            component_tasks={component: range(SOURCE_TASK, TASK), self.name: range(TASK, TASK + 1)},
            streams={component: {stream: Stream(self._fields)}, self.name: streams},
            sources=(self._source,),
            options=self._configuration.options,
        )

    def _new_collector(self) -> Any:
        if isinstance(self.bolt, ArrowBolt):
            return ArrowCollector(self)
        kind = BasicCollector if isinstance(self.bolt, BasicBolt) else BoltCollector
        return kind(self)

    def _tuple(self, values: Sequence[Any]) -> Tuple:
        if isinstance(values, str | bytes) or len(values) != len(self._fields):
            raise ValueError(f"{values!r} is not a list of values for the fields {self._fields}")
        return Tuple(values, Held(*self._source, self._fields, SOURCE_TASK), HELD)

    def _execute_row(self, tup: Tuple, turn: Callable[..., Any] | None = None) -> None:
        collector, is_basic = self._collector, isinstance(self.bolt, BasicBolt)
        collector.open()
        try:
            if turn is not None:
                _call(turn, *([collector] if is_basic else []))
            elif is_basic:
                self._execute_basic(tup)
                self.acked.append(tup)
            else:
                _call(self.bolt.execute, tup)
        except FailedException as e:
            if turn is None:
                self.failed.append((tup, str(e) or type(e).__name__))
        finally:
            collector.close()
            self._take_emits(() if turn is not None else (tup,))
        self._author.look_at_state()
        if isinstance(collector, BoltCollector):
            self.acked += [t for t, reason in collector.late if reason is None]
            self.failed += [(t, reason) for t, reason in collector.late if reason is not None]
            self.resets += collector.reset

    def _execute_basic(self, tup: Tuple) -> None:
        collector, bolt = self._collector, self.bolt
        if not isinstance(bolt, ManyBolt) or tup.is_tick():
            _call(bolt.execute, tup, collector)
            return
        failed: list[BaseException] = []
        chunk = Chunk(
            tup.component, tup.stream, tup.fields, tup.task, None, TupleRows([tup.values])
        )
        many = ChunkCollector(collector, 1, lambda _, error: failed.append(error))
        left = bolt.execute_many(ChunkTuples(chunk), many)
        many.close()
        if positions_of(left, 1):
            _call(bolt.execute, tup, collector)
        for error in failed:
            raise error

    def _take_emits(self, inputs: tuple[Tuple, ...]) -> None:
        for buffer in self._collector.runs:
            for i, values in enumerate(buffer.tuple_rows()):
                if not isinstance(values, list | tuple):
                    raise not_a_list(self.who, values)
                anchors = inputs if isinstance(self.bolt, BasicBolt) else buffer.origins[i]
                chosen = buffer.chosen.get(i) if buffer.routes.direct else None
                task = chosen[0][1][0] if chosen else None
                self.emitted.append(Emitted(values, buffer.routes.stream, tuple(anchors), task))

    def _execute_arrow(
        self,
        batch: pa.RecordBatch | None,
        tuples: list[Tuple],
        turn: Callable[[Any], None] | None = None,
    ) -> None:
        collector = self._collector
        collector.source = self._source if batch is not None else (TICK_COMPONENT, TICK_STREAM)
        collector.rows = len(tuples)
        collector.open()
        try:
            if turn is not None:
                _call(turn, collector)
            else:
                _call(self.bolt.execute, batch, collector)
        except FailedException as e:
            collector.failures = dict.fromkeys(range(len(tuples)), str(e) or type(e).__name__)
        finally:
            collector.close()
        self._author.look_at_state()
        for stream, emitted, at in collector.emits:
            rows = zip(*(column.to_pylist() for column in emitted.columns), strict=True)
            for row, i in zip(rows, at.tolist(), strict=True):
                self.emitted.append(Emitted(row, stream, (tuples[i],) if tuples else ()))
        self.failed += [(tuples[i], reason) for i, reason in sorted(collector.failures.items())]
        self.acked += [t for i, t in enumerate(tuples) if i not in collector.failures]


def _call(method: Callable[..., object], *arguments: object) -> None:
    """Call an author's method, to its end if it is async."""
    returned = method(*arguments)
    if inspect.iscoroutinefunction(method):
        returned = completed(returned, os.getpid())
    refuse_result(returned)
