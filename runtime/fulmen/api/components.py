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
from collections.abc import Awaitable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from fulmen.api.collector import (
    BasicOutputCollector,
    MessageId,
    OutputCollector,
    SpoutOutputCollector,
)
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import OutputFieldsDeclarer, Stream, declare
from fulmen.api.tuples import Tuple

if TYPE_CHECKING:  # neither the operator nor most topologies need it
    import pyarrow as pa
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


class Component(ABC):
    """What spouts and bolts have in common.

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
    instance is called. Any other exception in `open`, or in any other method, stops the topology.
    """

    pinned: ClassVar[bool] = False
    """True: the driver hosts it. For a source that can't seek, or acks on its own connection."""

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Called once for each instance, before anything else but a restore of its fields.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
            collector: Keep it in a field, which is not durable. Emitting here is an error, and
                stops the topology: emit in the first `next_tuple`.
        """

    @abstractmethod
    def next_tuple(self) -> None:
        """Emit the next tuple. If it emits nothing, there is no tuple now, and the turn ends."""

    def ack(self, msg_id: MessageId) -> None:
        """The whole tree of `msg_id` was acked. May be called twice if a process was lost."""

    def fail(self, msg_id: MessageId, reason: str) -> None:
        """The tree of `msg_id` failed or timed out: emit it again, or don't.

        May be called twice if a process was lost. A method that takes the id alone, as in Storm
        (`def fail(self, msg_id)`), works as well.
        """

    def activate(self) -> None:
        """Called after open, and when an inactive topology is made active."""

    def deactivate(self) -> None:
        """Called when the topology is made inactive or drained. next_tuple is not called then."""

    def close(self) -> None:
        """Called before the instance is dropped, if there is time. An exception is reported."""

    def is_exhausted(self) -> bool:
        """Whether this source will never have another tuple.

        When all spouts return True, `fulmen run --until-drained` ends.
        """
        return False


class Bolt(Component):
    """Receives tuples, and does the anchoring, acking and failing itself."""

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
        classes) is reported, and a new instance is made some seconds later. Any other exception
        stops the topology; with `onError: crash` every exception does.

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

        Emit, ack and fail as in `execute`; what is emitted without an anchor is not tracked. This
        is the place to write or emit in one go what `execute` has gathered. The batch is not
        committed yet, and may be run again. It is not called in a transactional topology.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def drain(self) -> None:
        """Called when the topology is drained and nothing else is left: the last turn.

        Spouts have stopped, or are exhausted. Bolts get their last turns in the order of the graph,
        so what earlier bolts emit in their last turns has arrived. Emit what is held back, such as
        a window that is still open, and delete it: a later run continues with the state as it is
        afterwards. Tuples that were kept can be acked, failed and anchored to, as in `execute`.

        It is called again if tuples come after it, and whenever the topology is drained again.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def cleanup(self) -> Awaitable[None] | None:
        """Called before the instance is dropped, if there is time. An exception is reported."""


class BasicBolt(Component):
    """A bolt whose emits are anchored to the input, which is acked when `execute` returns."""

    max_concurrency: ClassVar[int] = 100
    """With `async def execute`: of how many tuples of a task `execute` may be under way at a time.

    It then waits for other services without blocking, on one event loop in each worker. `prepare`
    and `cleanup` may be async too. All calls of a batch end before the batch does. What is
    emitted leaves in the order of the tuples that it was emitted for.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> Awaitable[None] | None:
        """Called once for each instance, before anything else but a restore of its fields.

        An exception that may mean that a service is away (OSError, or one of a client's own
        classes) is reported, and a new instance is made some seconds later. Any other exception
        stops the topology; with `onError: crash` every exception does.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
        """

    @abstractmethod
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> Awaitable[None] | None:
        """Process one tuple.

        Ticks (spec: `tickSeconds`) arrive here too: see `tup.is_tick()`.

        Raise FailedException to fail the input. Any other exception fails it as well and is
        reported; with `onError: crash` it stops the topology.
        """

    def end_batch(self, collector: BasicOutputCollector) -> None:
        """Called at the end of each batch in which this task received a tuple or a tick.

        What is emitted is not tracked: the tuples of the batch are acked. This is the place to
        emit in one go what `execute` has gathered. The batch is not committed yet, and may be run
        again. It is not called in a transactional topology.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def drain(self, collector: BasicOutputCollector) -> None:
        """Called when the topology is drained and nothing else is left: the last turn.

        Spouts have stopped, or are exhausted. Bolts get their last turns in the order of the graph,
        so what earlier bolts emit in their last turns has arrived. Emit what is held back, such as
        a window that is still open, and delete it: a later run continues with the state as it is
        afterwards. What is emitted is not tracked.

        It is called again if tuples come after it, and whenever the topology is drained again.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def cleanup(self) -> Awaitable[None] | None:
        """Called before the instance is dropped, if there is time. An exception is reported."""


class ArrowSpout(Spout):
    """A spout whose `next_tuple` emits Arrow record batches, with one message id for each row.

    `collector.emit(batch, msg_ids=...)`: the batch's columns are the stream's fields, in any order.
    `msg_ids` is a column of as many ids (an Arrow array, a NumPy array, a range or a list), or None
    for rows that are not tracked. `ack_batch` and `fail` are told how they ended.
    """

    def ack_batch(self, msg_ids: Sequence[MessageId]) -> None:
        """The trees of these messages were acked. Calls `ack` for each, if that is overridden."""
        if type(self).ack is not Spout.ack:
            for msg_id in msg_ids:
                self.ack(msg_id)


class ArrowBolt(Component):
    """A bolt that receives Arrow record batches. Anchors and acks for you, as a BasicBolt does."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once for each instance, before anything else but a restore of its fields.

        An exception that may mean that a service is away (OSError, or one of a client's own
        classes) is reported, and a new instance is made some seconds later. Any other exception
        stops the topology; with `onError: crash` every exception does.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
        """

    @abstractmethod
    def execute(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Process the rows that one task received, of one stream of one component.

        `collector.source` is that (component, stream). All rows are acked when this returns, except
        those given to `collector.fail(rows, reason)`. An exception fails all of them.

        A column has one type. A row of a sender that is no Arrow component may have a value of
        another type than most rows: it fails, and is not in the batch.
        """

    def tick(self, collector: ArrowOutputCollector) -> None:
        """Called when a tick is due (spec: `tickSeconds`)."""

    def end_batch(self, collector: ArrowOutputCollector) -> None:
        """Called at the end of each batch in which this task received a tuple or a tick.

        What is emitted is not tracked: the tuples of the batch are acked. This is the place to
        emit in one go what `execute` has gathered. The batch is not committed yet, and may be run
        again. It is not called in a transactional topology.

        An exception is reported; with `onError: crash` it stops the topology.
        """

    def drain(self, collector: ArrowOutputCollector) -> None:
        """Called when the topology is drained: the last turn, as `BasicBolt.drain` is."""

    def cleanup(self) -> None:
        """Called before the instance is dropped, if there is time. An exception is reported."""


class ArrowSpoutCollector(ABC):
    """Given to `ArrowSpout.open`."""

    @abstractmethod
    def emit(self, batch: pa.RecordBatch, stream: str = "default", msg_ids: Any = None) -> None:
        """Send each row of `batch` as a tuple.

        Args:
            batch: Its columns are the stream's fields, by name.
            stream: A stream that this component declares, and not a direct one.
            msg_ids: As many message ids as rows, or None: the rows are not tracked.

        Raises:
            StreamError: `stream` is not declared or is direct, the columns are not its fields, or
                there are not as many message ids as rows.
            CollectorError: Not in a callback.
        """

    @abstractmethod
    def report_error(self, error: BaseException | str) -> None:
        """Show an error in the report, the status and the metrics. The topology continues."""


class ArrowOutputCollector(ABC):
    """Given to `ArrowBolt.execute`, `tick`, `end_batch` and `drain`."""

    source: tuple[str, str]
    """The (component, stream) of the current rows."""

    @abstractmethod
    def emit(self, batch: pa.RecordBatch, stream: str = "default", rows: Any = None) -> None:
        """Send each row of `batch` as a tuple.

        Args:
            batch: Its columns are the stream's fields, by name.
            stream: A stream that this component declares, and not a direct one.
            rows: For each emitted row, the number of the input row that it is anchored to (an Arrow
                or NumPy array of integers). None: emitted row i is anchored to input row i, and
                there must be as many.

        Raises:
            StreamError: `stream` is not declared or is direct, the columns are not its fields, or
                `rows` does not fit.
            CollectorError: Not in `execute`, `tick` or `drain`.
        """

    @abstractmethod
    def fail(self, rows: Any, reason: str | BaseException | None = None) -> None:
        """Fail the input rows with these numbers; the others are acked.

        Args:
            rows: One number, or an Arrow array, a NumPy array, a range, a list or anything else of
                numbers, from 0. If a row is failed twice, the first reason counts.
            reason: What the spout gets, at most 500 characters, or the exception. Default: "failed
                by the bolt".

        Raises:
            StreamError: There is no row of such a number, or `rows` is a mask instead of numbers.
            CollectorError: Not in `execute`, `tick` or `drain`.
        """

    @abstractmethod
    def report_error(self, error: BaseException | str) -> None:
        """Show an error in the report, the status and the metrics. The topology continues."""
