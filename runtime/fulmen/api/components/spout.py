"""Spouts: the sources of tuples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fulmen.api.collector import MessageId
from fulmen.api.components.component import Component
from fulmen.api.context import TopologyContext


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
