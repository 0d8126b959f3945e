"""A topic as a source.

What it guarantees: each message is emitted, and emitted again until its tree is acked. Positions
are durable fields, so the checkpoint alone decides what was emitted, and the group of Kafka's
nothing. A message that has failed is noted in `self.state` and read from the topic again: messages
themselves are never written to the checkpoint. What is in the topic no more is reported, and told
on the stream `errors`; nothing is skipped in silence.

Partition p belongs to task p mod tasks, and all that is known of it is dealt anew with the number
of tasks. Kafka's own division among the members of a group was rejected: it moves partitions
without asking the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from typing_extensions import override

from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.api.declarer import Stream
from fulmen.connectors.base.source import Source
from fulmen.connectors.kafka.options import KafkaSpoutOptions
from fulmen.connectors.kafka.reading.group import ConsumerGroup
from fulmen.connectors.kafka.reading.messages import MessageId, MessageReader, Run, traceparents_of
from fulmen.connectors.kafka.reading.rereading import Rereading
from fulmen.connectors.kafka.reading.topic import (
    FROM_THE_FIRST,
    Description,
    Topic,
    first_positions,
    place_after,
    unread,
)
from fulmen.connectors.kafka.reading.troubles import BrokerTroubles
from fulmen.services.kafka import NO_TOPIC, let_go

MOST_TRACES = 10_000
"""The traces of so many messages are kept: more than are emitted at once."""
AT_ONCE = 2_000
"""So many messages are taken from the client at once: enough that the call costs nothing."""


class KafkaSpout(Source):
    """Emits the messages of a topic, each at least once.

    The stream `errors` has messages that can't be read in the format, and what is said of messages
    that are gone: `data` (bytes or None), `reason`, `position` such as `orders[3]@1207`.

    Attributes:
        positions: For each partition of this task's, the offset to be emitted next.
        topic_id: Which topic of that name it is; empty: none was seen yet.
    """

    parts_end = False
    config_model = KafkaSpoutOptions
    durable = ("positions", "topic_id")
    options: KafkaSpoutOptions

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.topic_id = ""

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        if own := {name for one in kept for name in one.fields} - {*KafkaSpout.durable}:
            raise ValueError(f"{cls.__qualname__} has the field {min(own)!r} of its own")
        topics = {topic for one in kept if (topic := one.fields.get("topic_id"))}
        if len(topics) > 1:
            raise ValueError(
                "the topic was made again, and not all tasks have noticed. Let the topology run"
            )
        topic = topics.pop() if topics else ""
        dealt = [Kept({"positions": {}, "topic_id": topic}, {}, []) for _ in range(tasks)]
        for one in kept:
            for partition, offset in one.fields.get("positions", {}).items():
                dealt[partition % tasks].fields["positions"][partition] = offset
            for (partition, offset), waits in one.state.items():
                dealt[partition % tasks].state[partition, offset] = waits
            for msg_id in one.failed:
                dealt[msg_id[0] % tasks].failed.append(msg_id)
        for one in dealt:
            one.failed.sort()
        return dealt

    @override
    def stream(self, options: KafkaSpoutOptions) -> Stream:
        return options.format.make().stream(*options.more)

    @override
    def connect(self) -> None:
        self._partitions = range(self.context.task_index, 1_000_000, self.tasks)
        self._brokers = self.options.brokers()
        self._reader = MessageReader(self.options)
        self._ready: deque[Run] = deque()
        self._fetched: list[Message] = []
        self._traceparents: dict[Any, str] = {}  # of the last messages, by their ids
        self._troubles = BrokerTroubles(self._brokers, self.collector.report_error)
        self._group = ConsumerGroup(self._brokers, self.context, self._troubles)
        self._behind = 0
        self._begun: set[int] = set()  # partitions of which something could be read
        self._connect()
        try:
            self._brokers.metadata(self._consumer, self.options.topic)
            self._begin_to_fetch()
            self._reader.connect()
        except BaseException:
            let_go(self._consumer)
            raise

    def _begin_to_fetch(self) -> None:
        """Have messages on their way before the first turn, which then need not be in vain.

        Nothing may be emitted yet: that turn tells what is wrong or gone.
        """
        with suppress(KafkaException):
            description = self._topic.describe()
            if self.topic_id in ("", description.topic_id):
                self._take_over(description)

    def _connect(self) -> None:
        self._consumer = self._group.consumer()
        self._topic = Topic(self._brokers, self.options.topic, self.options.refresh_seconds)
        self._rereading = Rereading(self._group.consumer, self.options.topic)
        self._is_assigned = False
        self._ends: dict[int, int] = {}  # of partitions, and all before them has arrived

    # ---- its turn

    @override
    def next_tuple(self) -> bool:
        ready = self._ready
        if not ready and not self._fill():
            return False
        while ready and not ready[0].stream:  # they are left out
            self._emitted(ready.popleft().ids)
        if not ready:
            return False
        rows, ids = ready[0].take(self.collector.room)
        self.collector.emit_many(rows, ready[0].stream, ids)
        self._emitted(ids)
        if ready[0].stream != ERRORS_STREAM:
            self._begun.update(partition for partition, _ in ids)
        if not ready[0].ids:
            ready.popleft()
        return True

    def _emitted(self, ids: list[MessageId]) -> None:
        for partition, last in dict(ids).items():  # offsets of a partition rise
            self.positions[partition] = max(self.positions[partition], last + 1)
        if self.state:
            for msg_id in ids:
                self.state.pop(msg_id, None)

    def _fill(self) -> bool:
        """Get what can be emitted next; False: nothing now, or only a report was emitted."""
        try:
            self._look_around()
            self._pass_ends()
            self._tell_lag()
            if self._fetched:
                return self._read()
            if self.state:
                found, gone = self._rereading.find(list(self.state))
                for partition, offset in gone:
                    self._give_up(partition, offset)
                if found or gone:
                    self._fetched = found
                    return self._read()
            messages = self._consumer.consume(AT_ONCE, 0)
        except KafkaException as error:
            self._troubles.away(error)
            return False
        if not messages:
            if self._brokers.is_away:
                self._troubles.away()
            return False
        if self._behind:
            self._tell_age(messages)
        return self._take(messages)

    def _take(self, messages: list[Message]) -> bool:
        troubled = [message for message in messages if message.error() is not None]
        if not troubled:
            self._troubles.heard()
            self._fetched = messages
            return self._read()
        self._fetched = [message for message in messages if message.error() is None]
        for message in troubled:
            self._mend(message)
        return self._read()

    def _pass_ends(self) -> None:
        """Go on behind what is no message, at the end of a partition: marks of transactions."""
        if self._ends and not self._fetched:  # and nothing is ready
            for partition, end in self._ends.items():
                self.positions[partition] = max(self.positions[partition], end)
            self._ends.clear()

    def _read(self) -> bool:
        """Make tuples of messages; if their schemas can't be had now, they wait."""
        try:
            self._ready += self._reader.read(self._fetched)
        except ServiceUnavailable as error:
            self._troubles.tell("format", error)
            return False
        self._reader.tell(self.collector.report_error)
        if self.context.is_traced:
            self._traceparents |= traceparents_of(self._fetched)
            for msg_id in list(
                islice(self._traceparents, max(0, len(self._traceparents) - MOST_TRACES))
            ):
                del self._traceparents[msg_id]
        self._fetched = []
        self._troubles.over("format")
        return bool(self._ready)

    # ---- partitions

    def _look_around(self) -> None:
        """See that all partitions of this task's are read, and that the topic is still the same."""
        if not self._is_assigned:
            self._take_over(self._topic.describe())
        else:
            news = self._troubles.news_of(self._topic)
            if news is not None and not self._is_known(news):
                self._take_over(news)

    def _is_known(self, found: Description) -> bool:
        return found.topic_id == self.topic_id and not self._new_partitions(found)

    def _new_partitions(self, found: Description) -> list[int]:
        mine = [partition for partition in found.partitions if partition in self._partitions]
        return [partition for partition in mine if partition not in self.positions]

    def _tell_lag(self) -> None:
        """Tell how many messages there are to emit, by what the last fetches have said."""
        if not self.lag_due.take():
            return
        known = [self._unread(*place) for place in self.positions.items()]
        if None not in known:
            messages = sum(filter(None, known)) + len(self.state)
            self.context.lag(messages=messages, seconds=None if messages else 0.0)
            self._behind = messages

    def _tell_age(self, messages: list[Message]) -> None:
        """Tell the age of the oldest message just fetched, if the lag was told without it."""
        behind, self._behind = self._behind, 0
        stamps = [message.timestamp() for message in messages if message.error() is None]
        times = [milliseconds for kind, milliseconds in stamps if kind != TIMESTAMP_NOT_AVAILABLE]
        if times:
            seconds = type(self).today() - min(times) / 1000
            self.context.lag(messages=behind, seconds=seconds)

    def _unread(self, partition: int, position: int) -> int | None:
        return unread(self._consumer, self.options.topic, partition, position)

    def _take_over(self, found: Description) -> None:
        """Read all partitions from their positions, and new ones from where they begin."""
        options = self.options
        if self.topic_id and found.topic_id != self.topic_id:
            self._begin_anew(found.topic_id)
        first = options if not self.topic_id else options.model_copy(update=FROM_THE_FIRST)
        new = self._new_partitions(found)
        if new and self._is_assigned:  # brokers answer a client that fetches only then, each time
            self._consumer.unassign()
            self._is_assigned = False
        begun = first_positions(self._brokers, self._consumer, first, new)
        self.positions |= begun
        self.topic_id = found.topic_id
        self._troubles.heard()
        self._assign()

    def _assign(self) -> None:
        self._ready.clear()  # all of it comes again
        self._fetched = []
        self._ends.clear()
        self._consumer.assign(
            [TopicPartition(self.options.topic, *place) for place in self.positions.items()]
        )
        self._is_assigned = True

    def _begin_anew(self, topic_id: str) -> None:
        """Begin with a topic that was made again: what was not read of the old one is gone."""
        unread = sum(self._unread(*place) or 0 for place in self.positions.items())
        text = (
            f"topic {self.options.topic!r} was deleted and made again. Of the old one, at least"
            f" {unread} messages were not read and {len(self.state)} that had failed can't be"
            " emitted again. The new one is read from its first message"
        )
        self.tell(text, self.options.topic, text)
        self.state.clear()
        self.positions, self.topic_id = {}, topic_id
        let_go(self._consumer)
        self._rereading.close()
        self._connect()  # the client itself remembers where it was in the old one

    def _mend(self, message: Message) -> None:
        """Deal with an error of a partition."""
        error, partition, offset = message.error(), message.partition(), message.offset()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            assert offset is not None
            self._ends[partition] = offset
            self._troubles.heard()
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._find_place(partition)
            return
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._group.refused(error)
            return
        if error.code() in NO_TOPIC:
            self._topic.ask()
        self._troubles.of_partition(error, self.options.topic)

    def _find_place(self, partition: int | None) -> None:
        """Find where to go on in a partition that lacks the next message, or whose topic is new."""
        assert partition is not None
        description = self._topic.describe()
        if description.topic_id != self.topic_id:
            self._take_over(description)
            return
        position = self.positions[partition]
        found_at, reason = place_after(self._consumer, self.options.topic, partition, position)
        if reason is not None:
            self.tell(reason, self._reader.position(partition, position), reason)
            self.positions[partition] = found_at
        self._assign()

    # ---- what becomes of messages

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        partition, offset = msg_id
        if offset < self.positions.get(partition, 0):
            self.state[partition, offset] = True  # else it is of a topic that was deleted

    @override
    def part_of(self, msg_id: Any) -> str:
        return str(msg_id[0])

    @override
    def traceparents(self, msg_ids: Sequence[Any]) -> Mapping[int, str]:
        known = self._traceparents
        return {i: known[one] for i, one in enumerate(msg_ids) if one in known} if known else {}

    @override
    def unread_parts(self) -> Sequence[str]:
        if not self._is_assigned:
            return ["partitions that are not known yet"]
        waiting = [place for place in self.positions.items() if place[0] not in self._begun]
        # of a partition that was not fetched yet nobody knows
        return [str(place[0]) for place in waiting if self._unread(*place) != 0]

    def _give_up(self, partition: int, offset: int) -> None:
        where = self._reader.position(partition, offset)
        text = f"message {where} failed and can't be emitted again: it is in the topic no more"
        self.tell(text, where, text)
        self.state.pop((partition, offset), None)

    # ---- what the group is told

    @override
    def committed(self, number: int) -> None:
        if self._is_assigned:
            self._group.tell(self._consumer, self.positions)

    @override
    def close(self) -> None:
        self._rereading.close()
        let_go(self._consumer)
