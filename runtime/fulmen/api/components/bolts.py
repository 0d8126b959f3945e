"""Bolts that receive tuples one by one, and the base of all bolts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from fulmen.api.collector import BasicOutputCollector, OutputCollector
from fulmen.api.components.combiner import Combiner
from fulmen.api.components.component import Component
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.tuples import Tuple

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
