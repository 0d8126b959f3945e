"""The parts of transactions in the partitions of a topic, in one task of a transactional spout.

What a transaction has of a partition is its metadata there, a `PartitionPart`: by it the same
messages can be emitted again, and the next part begins where it ends. It counts its messages.
Messages can only go, never come, between two offsets that were read once; so if there are as many,
they are the same.

A part also says how many partitions there were when the spout began with the topic. Those begin
where the option `start` says; the ones that are added later begin at their first message.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.context import TopologyContext
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.connectors.base.parts import TransactionParts
from fulmen.connectors.base.recurring import Recurring
from fulmen.connectors.kafka.options import TransactionalKafkaSpoutOptions
from fulmen.connectors.kafka.reading.group import ConsumerGroup
from fulmen.connectors.kafka.reading.messages import DROPPED, MessageReader
from fulmen.connectors.kafka.reading.partition_reader import PartitionReader
from fulmen.connectors.kafka.reading.topic import (
    FROM_THE_FIRST,
    LAG_SECONDS,
    Description,
    Topic,
    first_positions,
    place_after,
    unread,
)
from fulmen.connectors.kafka.reading.troubles import BrokerTroubles
from fulmen.services.kafka import NO_TOPIC, SECONDS, error_of


class GoneMessages(NamedTuple):
    """The report of messages that were gone before they were read.

    Attributes:
        reason: Which, and why.
        position: Where they began, such as `orders[3]@1207`.
    """

    reason: str
    position: str


class PartitionPart(NamedTuple):
    """The part of a transaction in a partition.

    Attributes:
        topic_id: Which topic of that name it is.
        start: The first offset.
        end: The offset behind the last one.
        messages: How many are between them.
        known: How many partitions the topic had when the spout began with it.
        gone: What is said on the stream `errors` before the messages, if anything.
    """

    topic_id: str
    start: int
    end: int
    messages: int
    known: int
    gone: GoneMessages | None = None


class MessagesGone(Exception):
    """A transaction can't be emitted again as it was, now or later."""

    def __init__(self, count: int, position: str, reason: str) -> None:
        super().__init__(count, position, reason)
        self.count, self.position, self.reason = count, position, reason

    def __str__(self) -> str:
        return (
            f"this transaction has {self.count} messages from {self.position} on, and can't be"
            f" emitted again as it was: {self.reason}. With `maxReplays` it is given up some time."
            " If that may happen again, keep messages for longer, or use an"
            " OpaqueTransactionalKafkaSpout with a store that has the opaque rule"
        )


class KafkaParts(TransactionParts):
    """Emits the parts of one task's partitions."""

    def __init__(self, context: TopologyContext) -> None:
        """Connect to the brokers.

        Raises:
            ServiceUnavailable: They do not answer, or there is no such topic.
        """
        self._context = context
        self._options: TransactionalKafkaSpoutOptions = context.options
        self._brokers = self._options.brokers()
        self._troubles = BrokerTroubles(self._brokers, lambda _: None)  # it is set in each call
        self._group = ConsumerGroup(self._brokers, context, self._troubles)
        self._messages = MessageReader(self._options)
        self._messages.connect()
        self._topic = Topic(self._brokers, self._options.topic, self._options.refresh_seconds)
        self._found = self._topic.connect()
        self._known: int | None = None
        self._positions: dict[int, int] = {}
        self._ends: defaultdict[int, dict[int, int]] = defaultdict(dict)  # by txid and partition
        self._lag_due = Recurring(time.monotonic, LAG_SECONDS)
        self._connect()

    def _connect(self) -> None:
        options = self._options
        self._consumer = self._group.consumer()
        self._reader = PartitionReader(
            self._consumer, options.topic, options.max_messages, self._group.refused
        )
        self._asking: Consumer | None = None

    def _to_ask(self) -> Consumer:
        """A client that has no partitions, until transactions are committed.

        One that fetches would be answered when brokers have ended its fetch: after half a second,
        for each partition that a topology begins with.
        """
        if self._asking is None:
            self._asking = self._group.consumer()
        return self._asking

    def _asked(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    # ---- a new part

    def emit_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last: PartitionPart | None,
    ) -> PartitionPart | None:
        """Emit what has arrived behind the last part. While brokers are away, that is nothing.

        Returns:
            The new part. None: there was none before, and it is not known yet where to begin.
        """
        self._troubles.report = collector.report_error
        try:
            description = self._look_around()
            part = self._beginning(description, partition, last)
            is_there = partition in description.partitions
            part, messages = self._read(partition, part) if is_there else (part, [])
        except KafkaException as error:
            self._troubles.away(error)
            return last and last._replace(start=last.end, messages=0, gone=None)
        if part.gone is not None:
            collector.report_error(part.gone.reason)
        self._emit(attempt, collector, part, messages)
        if is_there:
            self._note(attempt.txid, partition, part.end)
        return part

    def _look_around(self) -> Description:
        """The topic as it is now, as far as the brokers have told."""
        news = self._troubles.news_of(self._topic)
        if news is not None:
            self._take_over(news)
        return self._found

    def _take_over(self, found: Description) -> None:
        if found.topic_id != self._found.topic_id:
            self.close()
            self._connect()  # the client itself remembers where it was in the old one
        self._found = found

    def _beginning(
        self, found: Description, partition: int, last: PartitionPart | None
    ) -> PartitionPart:
        """A part without messages: where to begin."""
        options = self._options
        if last is not None and last.topic_id == found.topic_id:
            self._known = last.known
            return last._replace(start=last.end, messages=0, gone=None)
        gone = None
        if last is not None:
            self._known = 0  # of another topic: all of this one's are new
            gone = GoneMessages(
                f"topic {options.topic!r} was deleted and made again. What was not read of the old"
                f" one, in partition {partition} from offset {last.end} on, is gone. The new one is"
                " read from its first message",
                self._messages.position(partition, last.end),
            )
        elif self._known is None:
            self._known = len(found.partitions)
        start = 0
        if partition in found.partitions:
            is_added = partition >= self._known
            first = options.model_copy(update=FROM_THE_FIRST) if is_added else options
            asked = first_positions(self._brokers, self._to_ask(), first, [partition])
            start = asked[partition]
        return PartitionPart(found.topic_id, start, start, 0, self._known, gone)

    def _read(self, partition: int, part: PartitionPart) -> tuple[PartitionPart, list[Message]]:
        """The messages of a part that begins there."""
        try:
            messages, end = self._reader.arrived(partition, part.start)
        except KafkaException as error:
            return self._mended(partition, part, error_of(error)), []
        if messages:
            self._troubles.heard()
        elif self._brokers.is_away:
            self._troubles.away()
        return part._replace(end=end, messages=len(messages)), messages

    def _mended(self, partition: int, part: PartitionPart, error: KafkaError) -> PartitionPart:
        """A part without messages, as something is wrong: where the next one is to begin."""
        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            if error.code() in NO_TOPIC:
                self._topic.ask()
            self._troubles.of_partition(error, self._options.topic)
            return part
        self._take_over(self._topic.describe())
        if self._found.topic_id != part.topic_id:
            return part  # the next one begins with the other topic
        start, reason = place_after(self._consumer, self._options.topic, partition, part.start)
        if reason is None:
            return part
        if part.gone is not None:
            reason = f"{part.gone.reason}. {reason}"
        gone = GoneMessages(reason, self._messages.position(partition, part.start))
        return part._replace(start=start, end=start, gone=gone)

    # ---- a part that comes again

    def repeat_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        part: PartitionPart | None,
    ) -> None:
        """Emit the messages of a part once more.

        Raises:
            ServiceUnavailable: The brokers do not answer: try again.
            MessagesGone: Not all of them are in the topic.
        """
        self._troubles.report = collector.report_error
        if part is None:
            return
        self._known = part.known
        messages = self._messages_of(partition, part) if part.messages else []
        self._emit(attempt, collector, part, messages)
        self._note(attempt.txid, partition, part.end)

    def _messages_of(self, partition: int, part: PartitionPart) -> list[Message]:
        where = self._messages.position(partition, part.start)
        try:
            self._take_over(self._topic.describe())
            if self._found.topic_id != part.topic_id:
                reason = "the topic was deleted and made again"
                raise MessagesGone(part.messages, where, reason)
            messages = self._reader.between(partition, part.start, part.end, part.messages, SECONDS)
        except KafkaException as error:
            if error_of(error).code() == KafkaError._AUTO_OFFSET_RESET:
                reason = "the topic has some of them no more, as retention deletes them"
                raise MessagesGone(part.messages, where, reason) from None
            raise self._brokers.unavailable(error) from error
        self._troubles.heard()
        if len(messages) < part.messages:
            reason = f"the topic has {part.messages - len(messages)} of them no more"
            raise MessagesGone(part.messages, where, reason)
        return messages

    # ---- what both do

    def _emit(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        part: PartitionPart,
        messages: Sequence[Message],
    ) -> None:
        if part.gone is not None:
            collector.emit([attempt, None, *part.gone], ERRORS_STREAM)
        runs = self._messages.read(messages)
        self._messages.tell(collector.report_error)
        for run in runs:
            if run.stream != DROPPED:
                collector.emit_many([[attempt, *values] for values in run.rows], run.stream)

    def _note(self, txid: int, partition: int, end: int) -> None:
        """Keep where a part ends, and tell how many messages are behind it."""
        self._positions[partition] = self._ends[txid][partition] = end
        if not self._lag_due.take():
            return
        topic = self._options.topic
        known = [unread(self._consumer, topic, *place) for place in self._positions.items()]
        if None not in known:
            messages = sum(filter(None, known))
            self._context.lag(messages=messages, seconds=None if messages else 0.0)

    def committed_before(self, txid: int) -> None:
        """All transactions before that one are committed: tell the group where they end."""
        self._asked()
        positions: dict[int, int] = {}
        for before in sorted(number for number in self._ends if number < txid):
            positions |= self._ends.pop(before)
        self._group.tell(self._consumer, positions)

    def close(self) -> None:
        """Let go of the clients."""
        self._asked()
        self._reader.close()
