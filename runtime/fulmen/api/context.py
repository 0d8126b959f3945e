"""The context of a task: what it knows of its topology, and what it tells the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fulmen.api.declarer import ANY_STREAM, Stream
from fulmen.api.marks import CommitPhase
from fulmen.api.signals import BUCKETS, Counter, Gauge, Histogram, Lag, Signals, family_of
from fulmen.api.times.timers import Timers

T = TypeVar("T")
LONGEST_REASON = 500
"""Characters of why spouts emit nothing."""


@dataclass
class Batch:
    """The batch that is being run.

    Attributes:
        number: The commit that it is to become. A batch that is run again has the same number.
        attempt: Identifies this attempt of it, at random; empty before the first batch.
        watermark: Nothing that is still to come has an earlier event time, as far as the sources'
            `eventTime` tells, and what was due by it is done: milliseconds since 1970. None: it is
            not known. It never goes back.
        next_watermark: The watermark that timers of this batch, and tuples of the next, will have.
            Of a bolt that goes by the clock: when this batch began, which is the time of its
            tuples. Such times never go back, whichever machine they are of.
        commits: Of a batch bolt: the transaction that is being committed. For stores.
        looks_ahead: Whether it only says what event time would bring if nothing more came, at the
            end of a run that others may follow. What is emitted are early results, and what bolts
            keep is afterwards as it was before.
    """

    number: int = 0
    attempt: str = ""
    watermark: int | None = None
    next_watermark: int | None = None
    commits: CommitPhase | None = None
    looks_ahead: bool = False


@dataclass(frozen=True)
class TopologyContext:
    """Given to `open` and `prepare`; Storm's TopologyContext.

    Attributes:
        topology: Name of the topology.
        component: Name of this component.
        task_id: Id of this task, unique in the topology.
        task_index: Number of this task among those of its component, from 0.
        worker: Number of the worker that hosts the task, from 0; -1 in the driver.
        config: The topology's configuration (`spec.config`), without the component's own.
        component_tasks: The task ids of every component, ascending.
        streams: The output streams of every component.
        sources: The (component, stream) pairs that this component subscribes to.
        selected: What inputs with `select` give, by such a pair.
        max_spout_pending: How many trees a task of a spout may have pending, as the topology says;
            None: any number.
        is_traced: Whether what becomes of single messages is traced.
        options: The component's own `config` as its class's `config_model`; None: it has none.
        batch: The batch that is being run. Always the same object, whose attributes change.
        timers: The timers of this task of a bolt.
        state: Of emitters of transactional spouts with partitions: what the task keeps, a dict in
            the checkpoint, as `self.state` of others. What `emit_partition_batch_new` or an opaque
            `emit_partition_batch` change in it is kept with what they return, whatever becomes of
            the attempt.
        first_names: Component -> the name that it had first, of those that were renamed.
        signals: What this task has told by the methods below. For the engine.
    """

    topology: str
    component: str
    task_id: int
    task_index: int
    worker: int
    config: Mapping[str, Any] = field(default_factory=dict)
    component_tasks: Mapping[str, range] = field(default_factory=dict)
    streams: Mapping[str, Mapping[str, Stream]] = field(default_factory=dict)
    sources: tuple[tuple[str, str], ...] = ()
    selected: Mapping[tuple[str, str], Stream] = field(default_factory=dict)
    max_spout_pending: int | None = None
    is_traced: bool = False
    options: Any = None
    batch: Batch = field(default_factory=Batch)
    timers: Timers = field(default_factory=Timers, compare=False)
    state: MutableMapping[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    first_names: Mapping[str, str] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals, repr=False, compare=False)

    @property
    def known_as(self) -> str:
        """The name by which stores and brokers know this component: it stays after a rename."""
        return self.first_names.get(self.component, self.component)

    def named(self, known_as: str) -> str:
        """The name that a component has which stores and brokers know by that name."""
        now = {first: name for name, first in self.first_names.items()}
        return now.get(known_as, known_as)

    @property
    def label(self) -> str:
        """Topology, component and number of this task, as stores and brokers know it."""
        return f"{self.topology}/{self.known_as}/{self.task_index}"

    def tasks(self, component: str) -> list[int]:
        """The task ids of `component`, ascending; empty if there is no such component."""
        return list(self.component_tasks.get(component, ()))

    @property
    def inputs(self) -> Mapping[tuple[str, str], Stream]:
        """The streams that this component gets, by (component, stream). See `ANY_STREAM`."""
        if getattr(self.options, "any_stream", False):
            return dict.fromkeys(self.sources, ANY_STREAM)
        return {place: self.input(*place) for place in self.sources}

    def input(self, component: str, stream: str) -> Stream:
        """The stream that this component gets from an input, with what its `select` gives."""
        return self.selected.get((component, stream)) or self.streams[component][stream]

    def component_of(self, task_id: int) -> str:
        """The component that a task is an instance of.

        Raises:
            KeyError: No component has that task.
        """
        for name, tasks in self.component_tasks.items():
            if task_id in tasks:
                return name
        raise KeyError(task_id)

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """Share an object among all tasks and instances of this topology in this process.

        A connection pool, a model or a cache: made when it is first asked for, kept as long as the
        process, and never written to the checkpoint. Several threads may use it.

        Args:
            name: Which; one name for one kind of object.
            make: Makes it.
        """
        with _LOCK:
            key = (self.topology, name)
            if key not in _SHARED:
                _SHARED[key] = make()
            found: T = _SHARED[key]
            return found

    def counter(self, name: str, help: str, labels: Mapping[str, str] | None = None) -> Counter:
        """A metric that counts: `fulmen_user_<name>_total`, with the labels component and task.

        Call it in `open` or `prepare`, keep the counter in a field, and call its `inc`. What is
        counted is part of the batch: it is added once, when the batch is committed.

        Args:
            name: At most 60 small letters, digits and "_". One name has one meaning in a topology.
            help: What is counted, in one line.
            labels: More labels and their values. A component may have at most 100 series.

        Raises:
            MetricError: A name can't be used, has another meaning, or there are too many series.
        """
        return self.signals.metric(Counter, *family_of("counter", name, help, labels))

    def gauge(self, name: str, help: str, labels: Mapping[str, str] | None = None) -> Gauge:
        """A metric that rises and falls: `fulmen_user_<name>`. Call `set` of what is returned.

        What it was set to last in a batch is shown when the batch is committed. Takes and raises
        what `counter` does.
        """
        return self.signals.metric(Gauge, *family_of("gauge", name, help, labels))

    def histogram(
        self,
        name: str,
        help: str,
        buckets: Sequence[float] = BUCKETS,
        labels: Mapping[str, str] | None = None,
    ) -> Histogram:
        """A metric of many values: `fulmen_user_<name>`. Call `observe` of what is returned.

        As exact as `counter`. Takes and raises what that does.

        Args:
            name: As in `counter`; with the unit at its end, such as "request_seconds".
            help: What is measured, in one line.
            buckets: Upper bounds, at most 50, each greater than the one before.
            labels: As in `counter`.
        """
        return self.signals.metric(Histogram, *family_of("histogram", name, help, labels, buckets))

    def lag(self, *, messages: int | None = None, seconds: float | None = None) -> None:
        """Say how far this task of a spout is behind its source.

        It stays so until the next call. Call it when it is known anyway, or every few seconds.

        Args:
            messages: How many messages of the source this task has not emitted yet. None: not
                known.
            seconds: How old the oldest of these is; 0: there is none. None: not known.
        """
        most = max(0, int(messages)) if messages is not None else None
        age = max(0.0, float(seconds)) if seconds is not None else None
        self.signals.say_lag(Lag(most, age))

    def want_batch(self) -> None:
        """Have the next batch begin at once, however long the topology would rest before it.

        Of a pinned spout, for messages that somebody waits for. Any thread may call it. Elsewhere
        it does nothing.
        """
        if self.signals.wake is not None:
            self.signals.wake()

    def hold_spouts(self, reason: str) -> None:
        """Have all spouts emit nothing from the next batch on: the buffer of this bolt is full.

        Batches and ticks go on, and `end_batch` is called in each, so that the bolt can empty its
        buffer. No such batch counts as idle, and a topology is not drained before the spouts are
        released. Acks and failures are still told to spouts. The hold ends with `release_spouts`,
        or when this task is lost: its next instance holds the spouts itself if its buffer is full.

        Args:
            reason: Why, in one line, for people.
        """
        self.signals.hold.reason = reason[:LONGEST_REASON] or "a buffer is full"

    def release_spouts(self) -> None:
        """Let spouts emit again, as far as this task is concerned."""
        self.signals.hold.reason = ""


_SHARED: dict[tuple[str, str], Any] = {}
_LOCK = threading.RLock()
