"""A topic as a source.

What it guarantees: each message is emitted, and emitted again until its tree is acked. Positions
are durable fields, so the checkpoint alone decides what was emitted, and the group of Kafka's
nothing. A message that has failed is noted in `self.state` and read from the topic again: messages
themselves are never written to the checkpoint. What is in the topic no more is reported, and told
on the stream `errors`; nothing is skipped in silence.

Partition p belongs to task p mod tasks, whose number never changes. Kafka's own division among the
members of a group was rejected: it moves partitions without asking the checkpoint.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from typing_extensions import override

from fulmen.api.collector import SpoutOutputCollector
from fulmen.api.components import Outputs, Spout
from fulmen.api.context import TopologyContext
from fulmen.api.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.connectors.kafka.client import (
    NO_TOPIC,
    Brokers,
    error_of,
    is_lost,
    no_topic,
    reason_of,
)
from fulmen.connectors.kafka.messages import MessageId, Reader, Run
from fulmen.connectors.kafka.options import KafkaSpoutOptions
from fulmen.connectors.kafka.rereading import Rereading
from fulmen.connectors.kafka.topic import Description, Topic, ends_of, first_positions

AT_ONCE = 2_000
"""So many messages are taken from the client at once: enough that the call costs nothing."""
LAG_SECONDS = 1.0
"""So often the lag is told."""
REPEAT_SECONDS = 30.0
"""After so long, the same trouble is reported again."""


class KafkaSpout(Spout):
    """Emits the messages of a topic, each at least once.

    The stream `errors` has messages that can't be read in the format, and what is said of messages
    that are gone: `data` (bytes or None), `reason`, `position` such as `orders[3]@1207`.

    Attributes:
        positions: For each partition of this task's, the offset to be emitted next.
        topic_id: Which topic of that name it is; empty: none was seen yet.
    """

    config_model = KafkaSpoutOptions
    transient: ClassVar[Sequence[str]] = (
        *("_options", "_brokers", "_consumer", "_topic", "_reader", "_rereading", "_ready"),
        *("_is_assigned", "_told_group", "_troubles", "_tasks", "_report", "_collector"),
        *("_context", "_lag_at", "_fetched"),
    )

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.topic_id = ""

    @override
    def outputs_for(self, options: KafkaSpoutOptions) -> Outputs:
        return {"default": options.fields, ERRORS_STREAM: ("data", "reason", "position")}

    @override
    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self._options: KafkaSpoutOptions = context.options
        self._collector, self._report = collector, collector.report_error
        self._context = context
        self._tasks = range(
            context.task_index, 1_000_000, len(context.tasks(context.component)) or 1
        )
        self._brokers = Brokers(self._options)
        self._reader = Reader(self._options)
        self._ready: deque[Run] = deque()
        self._fetched: list[Message] = []
        self._troubles: dict[str, float] = {}
        self._told_group: dict[int, int] = {}
        self._lag_at = 0.0
        self._group = self._options.group_id or f"fulmen-{context.topology}-{context.component}"
        self._connect()
        try:
            self._brokers.metadata(self._consumer, self._options.topic)
            self._reader.connect()
        except BaseException:
            self._consumer.close()
            raise

    def _connect(self) -> None:
        options, brokers = self._options, self._brokers
        self._consumer = brokers.consumer(
            self._group, options.isolation_level, on_commit=self._committed_to_group
        )
        self._topic = Topic(brokers, options.topic, options.refresh_seconds)
        self._rereading = Rereading(
            lambda: brokers.consumer(
                self._group, options.isolation_level, enable_partition_eof=True
            ),
            options.topic,
        )
        self._is_assigned = False

    # ---- its turn

    @override
    def next_tuple(self) -> None:
        ready = self._ready
        if not ready and not self._fill():
            return
        rows, ids = ready[0].take(self._collector.room)
        self._collector.emit_many(rows, ready[0].stream, ids)
        self._emitted(ids)
        if not ready[0].ids:
            ready.popleft()

    def _emitted(self, ids: list[MessageId]) -> None:
        for partition, last in dict(ids).items():  # offsets of a partition rise
            self.positions[partition] = max(self.positions[partition], last + 1)
        if self.state:
            for msg_id in ids:
                self.state.pop(msg_id, None)

    def _fill(self) -> bool:
        """Get what can be emitted next; False: there is nothing now, or what is said is emitted."""
        try:
            self._look_around()
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
            self._away(error)
            return False
        if not messages:
            if self._brokers.is_away:
                self._away()
            return False
        return self._take(messages)

    def _take(self, messages: list[Message]) -> bool:
        troubled = [message for message in messages if message.error() is not None]
        if not troubled:
            self._heard()
            self._fetched = messages
            return self._read()
        self._fetched = [message for message in messages if message.error() is None]
        for message in troubled:
            self._mend(message)
        return self._read()

    def _read(self) -> bool:
        """Make tuples of messages; if their schemas can't be had now, they wait."""
        try:
            self._ready += self._reader.read(self._fetched)
        except ServiceUnavailable as error:
            self._trouble("format", str(error))
            return False
        self._fetched = []
        self._troubles.pop("format", None)
        return bool(self._ready)

    # ---- partitions

    def _look_around(self) -> None:
        """See that all partitions of this task's are read, and that the topic is still the same."""
        if not self._is_assigned:
            self._take_over(self._topic.describe())
        else:
            try:
                news = self._topic.news()
            except KafkaException as error:
                if is_lost(error):  # a topic can't be told about while its brokers are away
                    self._away(error)
                    return
                if error_of(error).code() in NO_TOPIC:
                    self._heard()
                self._trouble("topic", f"{self._brokers.service}: {reason_of(error_of(error))}")
                return
            if news is not None:
                self._heard()
                if not self._is_known(news):
                    self._take_over(news)

    def _is_known(self, found: Description) -> bool:
        return found.topic_id == self.topic_id and not self._new_partitions(found)

    def _new_partitions(self, found: Description) -> list[int]:
        mine = [partition for partition in found.partitions if partition in self._tasks]
        return [partition for partition in mine if partition not in self.positions]

    def _tell_lag(self) -> None:
        """How many messages there are to emit, by what the last fetches have said."""
        now = time.monotonic()
        if now < self._lag_at:
            return
        self._lag_at = now + LAG_SECONDS
        known = [self._unread(*place) for place in self.positions.items()]
        if None not in known:
            messages = sum(filter(None, known)) + len(self.state)
            self._context.lag(messages=messages, seconds=None if messages else 0.0)

    def _unread(self, partition: int, position: int) -> int | None:
        at = TopicPartition(self._options.topic, partition)
        known = self._consumer.get_watermark_offsets(at, cached=True)
        return max(0, known[1] - position) if known and known[1] >= 0 else None

    def _take_over(self, found: Description) -> None:
        """Read all partitions from their positions, and new ones from where they begin."""
        options = self._options
        if self.topic_id and found.topic_id != self.topic_id:
            self._begin_anew(found.topic_id)
        first = options if not self.topic_id else options.model_copy(update=_FROM_THE_FIRST)
        begun = first_positions(self._consumer, first, self._new_partitions(found))
        self.positions |= begun
        self.topic_id = found.topic_id
        self._heard()
        self._assign()

    def _assign(self) -> None:
        self._ready.clear()  # all of it comes again
        self._fetched = []
        self._consumer.assign(
            [TopicPartition(self._options.topic, *place) for place in self.positions.items()]
        )
        self._is_assigned = True

    def _begin_anew(self, topic_id: str) -> None:
        """The topic was deleted and made again: what was not read of the old one is gone."""
        unread = sum(self._unread(*place) or 0 for place in self.positions.items())
        self._say_gone(
            f"topic {self._options.topic!r} was deleted and made again. Of the old one, at least"
            f" {unread} messages were not read and {len(self.state)} that had failed can't be"
            " emitted again. The new one is read from its first message",
            self._options.topic,
        )
        self.state.clear()
        self.positions, self.topic_id = {}, topic_id
        self._consumer.close()
        self._rereading.close()
        self._connect()  # the client itself remembers where it was in the old one

    def _mend(self, message: Message) -> None:
        """Something is wrong with a partition."""
        error, topic = message.error(), self._options.topic
        assert error is not None
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._find_place(message.partition())
        elif error.code() in NO_TOPIC:
            self._topic.ask()
            self._trouble("topic", f"{self._brokers.service}: {reason_of(no_topic(topic))}")
        else:
            text = f"{self._brokers.service}, topic {topic!r}: {reason_of(error)}"
            self._trouble(str(error.code()), text)

    def _find_place(self, partition: int | None) -> None:
        """The next message of a partition is not in the topic, or not in this one."""
        assert partition is not None
        found = self._topic.describe()
        if found.topic_id != self.topic_id:
            self._take_over(found)
            return
        first, end = ends_of(self._consumer, self._options.topic, partition)
        position = self.positions[partition]
        if position < first:
            self._say_gone(
                f"{first - position} messages of partition {partition} were deleted before they"
                f" were read, from offset {position} on: the topic keeps them for too short a time."
                f" Reading goes on at offset {first}",
                self._reader.position(partition, position),
            )
            self.positions[partition] = first
        elif position > end:
            self._say_gone(
                f"partition {partition} ends at offset {end}, before offset {position}, which is to"
                f" be read next: its brokers have lost messages. Reading goes on at offset {end}",
                self._reader.position(partition, position),
            )
            self.positions[partition] = end
        self._assign()

    # ---- what becomes of messages

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        partition, offset = msg_id
        if offset < self.positions.get(partition, 0):
            self.state[partition, offset] = True  # else it is of a topic that was deleted

    def _give_up(self, partition: int, offset: int) -> None:
        where = self._reader.position(partition, offset)
        self._say_gone(
            f"message {where} failed and can't be emitted again: it is in the topic no more", where
        )
        self.state.pop((partition, offset), None)

    def _say_gone(self, text: str, where: str) -> None:
        self._report(text)
        self._collector.emit([None, text, where], ERRORS_STREAM)

    def _trouble(self, kind: str, text: str) -> None:
        """Report it, unless trouble of that kind was reported a moment ago."""
        now = time.monotonic()
        if now - self._troubles.get(kind, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._troubles[kind] = now
            self._report(text)

    def _away(self, error: KafkaException | None = None) -> None:
        self._trouble("away", str(self._brokers.unavailable(error)))

    def _heard(self) -> None:
        """The brokers have answered."""
        self._brokers.forget()
        self._troubles.pop("away", None)

    # ---- what the group is told

    @override
    def committed(self, number: int) -> None:
        if self._options.group_id is None or not self._is_assigned:
            return
        changed = {p: at for p, at in self.positions.items() if self._told_group.get(p) != at}
        if changed:
            self._told_group |= changed
            topic = self._options.topic
            offsets = [TopicPartition(topic, *place) for place in changed.items()]
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _committed_to_group(self, error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self._told_group = {}
            self._trouble(
                "group",
                f"{self._brokers.service}: positions are not committed to group {self._group!r}"
                f" ({reason_of(error)}). The checkpoint has them, so nothing is lost. If other"
                " consumers are members of that group, give the spout a `group.id` of its own",
            )

    @override
    def close(self) -> None:
        self._rereading.close()
        self._consumer.close()


_FROM_THE_FIRST = {"start": "earliest", "start_timestamp": None}
