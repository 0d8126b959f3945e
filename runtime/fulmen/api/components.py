"""Spouts and bolts: the classes that authors derive from.

One instance is made for each task, in the worker process that hosts it. All fields of an instance
that can be pickled are durable: they are written to the checkpoint with every batch that changes
them, and are back after any process or pod was lost. What can't be pickled (connections, models,
locks) is made in `open` or `prepare`, which is called whenever the instance is made anew. A field
that `open` or `prepare` sets to what it set it to the first time (`self.counts = {}`) keeps its
restored value; one that it sets to something else (from a changed config) takes that. So does a
field of an object given to `TopologyBuilder`, if the object now has another value there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fulmen.api.collector import BasicOutputCollector, MessageId, OutputCollector
from fulmen.api.combiner import Combiner
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import OutputFieldsDeclarer, Stream, declare
from fulmen.api.kept import Kept
from fulmen.api.tuples import Tuple

if TYPE_CHECKING:  # neither the operator nor most topologies need it
    from pydantic import BaseModel

Outputs = Sequence[str] | Mapping[str, Sequence[str] | Stream] | Stream


class FailedException(Exception):
    """Raised in `execute` of any bolt to fail the input, without a report. The name is Storm's.

    The spout gets the exception's text as the reason, at most 500 characters of it, or the name of
    the class if there is no text. In an ArrowBolt, all rows of the batch fail. If a Bolt has acked
    or failed the input already, that stays so. Nothing that was emitted for the input is undone:
    its tree has failed, and the spout decides about a replay.
    """


class ReportedFailedException(FailedException):
    """Like FailedException, but the failure is also reported as an error of the component."""


def overrides(instance: Component, method: str) -> bool:
    """Whether an instance has a method of its own instead of Fulmen's, which does nothing.

    It is in the instance's class, or set on the instance itself.
    """
    of_class, of_instance = _may_override(type(instance), method)
    return of_class or (of_instance and callable(vars(instance).get(method)))


@lru_cache(maxsize=1024)
def _may_override(cls: type, method: str) -> tuple[bool, bool]:
    """Whether a class overrides a method of Fulmen's, and whether its instances may."""
    owners = [base for base in cls.__mro__ if method in vars(base)]
    own = [base for base in owners if base.__module__.startswith("fulmen.api.")]
    return bool(own) and owners[0] not in own, bool(own)


class Component(ABC):
    """The base of spouts and bolts.

    A method that Fulmen calls may also be set on the instance, in `__init__`, `open` or `prepare`,
    as in `self.ack = self.ack_fast`.

    Attributes:
        outputs: The fields of the stream `default`, such as `["word"]`; or a mapping of stream
            names to fields, or to a `Stream`, which may be direct; or one `Stream`, of `default`.
        transient: Names of fields that are not to be written to the checkpoint, such as caches.
        config_model: A pydantic model of the component's `config` in the topology's file, without
            the topology's own. Every mistake is found before the topology runs. `open` and
            `prepare` get the validated model as `context.options`. None: any `config` will do.
    """

    outputs: ClassVar[Outputs] = ()
    transient: ClassVar[Sequence[str]] = ()
    config_model: ClassVar[type[BaseModel] | None] = None

    @cached_property
    def state(self) -> MutableMapping[Any, Any]:
        """Keyed durable state: a dict of which only the changes are written to the checkpoint.

        A value counts as changed when it is assigned: after `self.state[key].append(x)`, write
        `self.state[key] = ...` too. Keys and values must be picklable.
        """
        return {}  # for an author's unit test; in a topology the engine puts its own in its place

    def outputs_for(self, options: Any) -> Outputs:  # noqa: ARG002 (for classes that need it)
        """The output streams, if they depend on the component's `config`. Default: `outputs`.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return self.outputs

    def check_input(
        self,
        options: Any,  # noqa: ARG002
        stream: Stream,  # noqa: ARG002
    ) -> Iterable[str | Warning]:
        """Find mistakes in a stream that the component subscribes to. Default: none.

        Called before the topology runs, by `fulmen validate` too, and for each input.

        Args:
            options: The validated `config_model`; None if the class has none.
            stream: Its fields, and what is known of their types.

        Returns:
            What is wrong and what to do, one sentence or two for each mistake. A `UserWarning`
            with such a text: the topology runs all the same.
        """
        return ()

    def check_inputs(
        self,
        options: Any,  # noqa: ARG002
        inputs: Mapping[tuple[str, str], Stream],  # noqa: ARG002
    ) -> Iterable[str | Warning]:
        """Find mistakes in the streams that the component subscribes to, taken together.

        Called as `check_input`, which is for one of them, if all of them are known.

        Args:
            options: The validated `config_model`; None if the class has none.
            inputs: The streams, by component and stream.

        Returns:
            As for `check_input`.
        """
        return ()

    def grouping_key(
        self,
        options: Any,  # noqa: ARG002
        source: tuple[str, str],  # noqa: ARG002
    ) -> Sequence[str]:
        """The fields of an input whose equal values must come to one task. Default: none.

        Called as `check_input`. If the input is divided among several tasks in another way, that is
        told as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.
            source: Its component and stream.
        """
        return ()

    def is_of_all_rows(self, options: Any) -> bool:  # noqa: ARG002
        """Whether results are of all rows, so that one task should have them. Default: no.

        Called as `check_input`. If several tasks divide the rows, that is told as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return False

    def lateness(self, options: Any) -> int | None:  # noqa: ARG002
        """The most milliseconds by which emits can be late. Default: no limit.

        Of a component that leaves out what is late. Called as `check_input`. If what is behind it
        takes what is later, that is told as a warning: it never comes there.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def needs_event_time(self, options: Any) -> str | Warning | None:  # noqa: ARG002
        """What never happens if nothing that it descends from declares `eventTime`. Default: None.

        Called as `check_input`. If nothing does, this is told: as an error on Kubernetes, where a
        topology has no end, and else as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.

        Returns:
            What does not happen while the topology runs, such as "no window ends". A `UserWarning`
            with such a text, if the results come all the same: then it is never an error.
        """
        return None

    def goes_by_clock(self, options: Any) -> bool:  # noqa: ARG002
        """Whether this bolt's watermark is the time of day instead of event time. Default: no.

        Called as `check_input`. See `Batch.next_watermark`.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return False

    def needs_memory(self, options: Any) -> str | None:  # noqa: ARG002
        """Why `self.state` can't be on disk, such as "it goes through all keys". Default: None.

        Called as `check_input`, if `keyedState` says `backend: disk`. This is told as an error.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def needs_acks(self, options: Any) -> str | None:  # noqa: ARG002
        """What goes wrong with `ackers: 0`, such as "calls are answered too early". Default: None.

        Of a spout. Called as `check_input`, if the topology has `ackers: 0`, with which a message
        counts as acked when it is emitted. This is told as an error.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def committed(self, number: int) -> None:
        """Called after a commit: what this instance's fields and state held then is durable.

        It is called before anything else of the next batch. Every commit that changed this task is
        followed by a call, unless the process is lost first: then the first batch after the restore
        begins with one. It may be called twice for one commit. What is changed here is durable with
        the next commit. It is not called in a transactional topology, where `finish_batch` of a
        committer is the place for that.

        An exception is reported; with `onError: crash` it stops the topology.

        Args:
            number: The number of the latest commit.
        """

    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        """Divide what tasks keep among another number of tasks. Default: Fulmen does it, if it can.

        Fulmen can move the keys of a fields grouping. Override it if `self.state` has other keys,
        or if fields of instances have changed, such as a spout's position. It is called in the
        driver when the number of tasks changes, with all spouts stopped and all trees ended, and
        once before that, to see whether it can be done: so it must only compute.

        Args:
            kept: What each task keeps now.
            tasks: The new number of tasks.

        Returns:
            What each of these is to keep. An exception: the change is refused, and its text told.
        """
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the output streams. Called before the topology runs. `outputs` does the same."""
        declare(self.outputs, declarer)


class Spout(Component):
    """A source of tuples. All its methods are called on one thread, so none may block for long.

    Order: open, activate, then next_tuple, ack and fail in any order; deactivate when the topology
    is made inactive, activate again after that; close when the task moves or the topology ends (not
    when its process is killed).

    An exception in `next_tuple` is reported, and ends the task's turn in this batch (with
    `onError: crash` it stops the topology). An exception in `close` is reported. An exception in
    `open` is reported if it may mean that the source is away; some seconds later `open` of a new
    instance is called. So does one about what is wrong outside, such as a file (OSError) or a table
    of a connector's, once the topology has run. Any other exception in `open`, or in any other
    method, stops the topology.
    """

    pinned: ClassVar[bool] = False
    """True: the driver hosts it. For a source that can't seek, or acks on its own connection."""

    backoff: ClassVar[bool] = False
    """True: `fail` is called after a pause. A message that fails again and again has longer ones.

    The first pause is 50 ms, each one is twice as long as the one before, and none is longer than
    30 seconds. Until then the message waits in the checkpoint. New messages go first: while
    `next_tuple` emits as much as it may, `fail` is called for few. All of Fulmen's own spouts have
    it. False: `fail` is called in the next batch, as in Storm.
    """

    parts_end: ClassVar[bool] = True
    """Whether the parts that `unread_parts` names come to their ends, as files do."""

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:
        """Called once for each instance, before anything else but a restore of its fields.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
            collector: A `SpoutOutputCollector`, and an `ArrowSpoutCollector` for an ArrowSpout.
                Keep it in a field, which is not durable. Emitting here is an error, and stops the
                topology: emit in the first `next_tuple`.
        """

    @abstractmethod
    def next_tuple(self) -> bool | None:
        """Emit the next tuple, if there is one now.

        Returns:
            Ignored if a tuple was emitted. Otherwise: False, there is
            nothing now, and the turn ends. True, it did something, such as passing over a record:
            it is called again, and the next batch comes at once. None, it does not say: it is
            called again for some milliseconds, at most 1,000 times in a row.
        """

    def ack(self, msg_id: MessageId) -> None:
        """The whole tree of `msg_id` was acked. May be called twice if a process was lost."""

    def ack_batch(self, msg_ids: Sequence[MessageId]) -> None:
        """The trees of these messages were acked. Calls `ack` for each.

        Override it, with or without `ack`, to hear of many in one call.
        """
        for msg_id in msg_ids:
            self.ack(msg_id)

    def fail(self, msg_id: MessageId, reason: str) -> None:
        """The tree of `msg_id` failed or timed out: emit it again, or don't.

        With `backoff` it is called after a pause.

        May be called twice if a process was lost. A method that takes the id alone, as in Storm
        (`def fail(self, msg_id)`), works as well.
        """

    def activate(self) -> None:
        """Called after open, and when an inactive topology is made active."""

    def deactivate(self) -> None:
        """Called when the topology is made inactive or drained. next_tuple is not called then."""

    def close(self) -> None:
        """Called before the instance is dropped, if there is time. An exception is reported."""

    def part_of(self, msg_id: MessageId) -> str:  # noqa: ARG002 (for those below)
        """The part of the source that a message is from, such as a partition of a topic.

        It is asked only if the topology declares `eventTime` of this spout. Parts may be read at
        different speeds: the one that is furthest behind holds the watermark. Parts of the same
        name are one, whichever task reads them. Default: what a task reads is one part.
        """
        return ""

    def parts_of(self, msg_ids: Sequence[MessageId]) -> str | Sequence[str]:
        """The parts of messages: one name for all of them, or a name for each.

        Override it, with or without `part_of`, to be asked about many in one call.
        """
        return [self.part_of(msg_id) for msg_id in msg_ids]

    def traceparents(
        self,
        msg_ids: Sequence[MessageId],  # noqa: ARG002 (for those below)
    ) -> Mapping[int, str]:
        """The traces that messages are part of, as the W3C header `traceparent`.

        It is asked before messages are sent, only if messages are traced (`context.is_traced`), and
        perhaps more than once for the same ones.

        Args:
            msg_ids: Those of the messages.

        Returns:
            The place of an id in `msg_ids` -> the header, of those messages that have one.
        """
        return {}

    def unread_parts(self) -> Sequence[str] | None:
        """The parts of the source, by the names of `part_of`, that it has not read to their ends.

        Override it if parts come to an end, as files do, and are read one after another. Then only
        unread parts hold the watermark, and those of which nothing was emitted yet as well: what
        they hold may be older than all that was emitted. If there are none, the newest time of all
        that was emitted counts. Of parts that were not begun, one is enough. It is asked after each
        turn of a task, only if the topology declares `eventTime` of this spout.

        With `parts_end = False` parts have no end, as partitions of a topic. Say which have
        something to read: these hold the watermark before their first tuple as well. Any other part
        holds it once something of it was emitted.

        Default: None: a part holds the watermark once something of it was emitted.
        """
        return None

    def is_exhausted(self) -> bool:
        """Whether this source will never have another tuple.

        When all spouts return True, `fulmen run --until-drained` ends. It ends as well when nothing
        has happened for some seconds, unless a spout `knows_its_end`.
        """
        return False

    @property
    def knows_its_end(self) -> bool:
        """Whether `is_exhausted` will return True one day. It is asked after `is_exhausted`.

        Then `fulmen run --until-drained` waits for that, however long nothing comes.
        """
        return False


KeyPart = Literal["whole", "first", "second", "inner", "rows"]
"""A part of the keys of `self.state`: see `StatefulBolt.state_part`."""


class StatefulBolt(Component):
    """The base of all bolts, with what they may say of their keys."""

    state_part: KeyPart | None = None
    """Which part of a key of `self.state` are the values that the bolt's input is grouped by.

    Fulmen moves entries by it when the number of tasks changes. Default: Fulmen finds out, by what
    is written in each batch. "whole": the key itself (with a grouping by several fields: a tuple of
    their values). "first": what a tuple begins with. "second": its second element. "inner": the
    values in the tuple that is its second element. "rows": as "inner" where a tuple is second; any
    other entry is of many keys: a list of rows, and in each the second element is the tuple of its
    key's values; or anything else, of which the least counts where there are several. A class with
    `grouping_key` has the values of that in its keys."""

    timer_part: KeyPart | Literal["every"] | None = None
    """The same of the keys of timers. With "rows", a timer without a tuple is for all keys; with
    "every", all are. A task gets each timer that is for all keys, also if it has none of these."""


class AnyBolt(StatefulBolt):
    """The base of `Bolt`, `BasicBolt` and `ArrowBolt`."""

    state_ttl: ClassVar[str | None] = None
    """How long a key of `self.state` is kept after it was last assigned, such as "7d". It is the
    batch clock's time, which stands still while the topology does not run. Default: for good."""

    streams_in_any_order: ClassVar[bool] = False
    """Whether the bolt does the same in whatever order tuples of different streams come. Those of
    one stream come in their order anyway. True: of a component that emits on several of its inputs
    in turn, it gets many tuples of each at once, which is faster."""

    def cleanup(self) -> Awaitable[None] | None:
        """Called before the instance is dropped, if there is time. An exception is reported."""


class Bolt(AnyBolt):
    """Receives tuples, and does the anchoring, acking and failing itself."""

    emits_results: ClassVar[bool] = False
    """Whether what `execute` emits without an anchor is a result, as in `end_batch`."""

    max_concurrency: ClassVar[int] = 100
    """With `async def execute`: of how many tuples of a task `execute` may be under way at a time.

    It then waits for other services without blocking, on one event loop in each worker. `prepare`
    and `cleanup` may be async too. All calls of a batch end before the batch does. With 1,
    tuples are processed one after another.
    """

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> Awaitable[None] | None:
        """Called once for each instance, before anything else but a restore of its fields.

        An exception that may mean that a service is away (OSError, or one of a client's own
        classes) is reported, and a new instance is made some seconds later. So is one about what is
        wrong outside, such as a file or a table of a connector's, once the topology has run. Any
        other exception stops the topology; with `onError: crash` every exception does.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
            collector: Keep it in a field, which is not durable. Emitting here is an error, and
                stops the topology.
        """

    @abstractmethod
    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one tuple. Ack or fail it, or any that was kept, here or in a later call.

        Ticks (spec: `tickSeconds`) arrive here too: see `tup.is_tick()`. Acking one does nothing.

        Raise FailedException to fail the tuple. Any other exception fails it as well and is
        reported; with `onError: crash` it stops the topology. If the tuple was acked or failed
        before, that stays so.
        """

    def end_batch(self) -> None:
        """Called at the end of each batch in which this task received a tuple or a tick.

        Emit, ack and fail as in `execute`. What is emitted without an anchor is a result: its task
        keeps it until its tree is acked, and emits it again if it fails (see `trackResults`). This
        is the place to write or emit in one go what `execute` has gathered. The batch is not
        committed yet, and may be run again. It is not called in a transactional topology.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def on_timer(self, key: Any, at: float) -> None:
        """Called when a timer of `context.timers` is due, after the tuples of the batch.

        Timers that are due are called in the order of their times. What is emitted without an
        anchor is a result, as in `end_batch`. Timers that are set here, and are due, come after
        those.

        An exception is reported, and the timer is not called again; with `onError: crash` it stops
        the topology.

        Args:
            key: The key that it was set for.
            at: What it was set for: milliseconds since 1970, or seconds of the batch clock.
        """

    def drain(self) -> None:
        """Called when the topology is drained and nothing else is left: the last turn.

        Spouts have stopped, or are exhausted. Bolts get their last turns in the order of the graph,
        so what earlier bolts emit in their last turns has arrived. Emit what is held back, such as
        a window that is still open, and delete it: a later run continues with the state as it is
        afterwards. Tuples that were kept can be acked, failed and anchored to, as in `execute`.
        What is emitted without an anchor is a result, as in `end_batch`.

        It is called again if tuples come after it, and whenever the topology is drained again.

        An exception is reported; with `onError: crash` it stops the topology.
        """


class BasicBolt(AnyBolt):
    """A bolt whose emits are anchored to the input, which is acked when `execute` returns."""

    emits_results: ClassVar[bool] = False
    """Whether what `execute` emits is a result, as in `end_batch`, instead of being anchored."""

    max_concurrency: ClassVar[int] = 100
    """As `Bolt.max_concurrency`. What is emitted leaves in the order of the tuples that it was
    emitted for."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> Awaitable[None] | None:
        """Called as `Bolt.prepare`, without a collector: `execute` is given one."""

    @classmethod
    def combiner_for(
        cls,
        options: Any,  # noqa: ARG003 (for classes that need it)
        stream: Stream,  # noqa: ARG003
        grouped_by: Sequence[str],  # noqa: ARG003
    ) -> Combiner | None:
        """The combiner of its input's tuples before they leave a worker. Default: none.

        For bolts of Fulmen itself. A row stands for the trees of all that it was made of, so what
        `execute` emits for it must be a result: see `emits_results`.

        Args:
            options: The validated `config_model`; None if the class has none.
            stream: What is combined.
            grouped_by: The fields that the input is grouped by.
        """
        return None

    @abstractmethod
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> Awaitable[None] | None:
        """Process one tuple.

        Ticks (spec: `tickSeconds`) arrive here too: see `tup.is_tick()`.

        Raise FailedException to fail the input. Any other exception fails it as well and is
        reported; with `onError: crash` it stops the topology.
        """

    def end_batch(self, collector: BasicOutputCollector) -> None:
        """Called as `Bolt.end_batch`, when the tuples of the batch are acked.

        All that is emitted is a result.
        """

    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        """Called as `Bolt.on_timer`. All that is emitted is a result."""

    def drain(self, collector: BasicOutputCollector) -> None:
        """Called as `Bolt.drain`. All that is emitted is a result."""
