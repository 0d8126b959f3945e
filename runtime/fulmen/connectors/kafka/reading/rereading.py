"""Messages that failed are read from the topic again, by a consumer of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from fulmen.connectors.kafka.reading.messages import MessageId
from fulmen.connectors.kafka.reading.partition_reader import PartitionReader
from fulmen.connectors.kafka.reading.topic import ends_of
from fulmen.services.kafka import error_of

AT_ONCE = 500
"""So many messages are read at once."""
FAR = 2_000
"""Between wanted messages, so many others are read rather than sought over."""


class Rereading:
    """Finds the messages of partitions and offsets. It never waits."""

    def __init__(self, make_consumer: Callable[[], Consumer], topic: str) -> None:
        """Find messages of one topic.

        Args:
            make_consumer: Called when something is first wanted.
            topic: Which.
        """
        self._make, self._topic = make_consumer, topic
        self._reader: PartitionReader | None = None
        self._partition, self._next = -1, 0  # where it reads; -1: nowhere

    def find(self, wanted: Collection[MessageId]) -> tuple[list[Message], list[MessageId]]:
        """Find some of the wanted messages, if they have arrived.

        Returns:
            Messages, and wanted ones that are in the topic no more.
        """
        if self._reader is None:
            self._reader = PartitionReader(self._make(), self._topic, AT_ONCE, lambda _: None)
        partition = min(partition for partition, _ in wanted)
        offsets = {offset for of, offset in wanted if of == partition}
        first = min(offsets)
        if partition != self._partition:
            self._stop(self._reader)
        if self._partition < 0 or not first - FAR <= self._next <= first:
            self._partition, self._next = partition, first
        try:
            messages, end = self._reader.arrived(partition, self._next)
        except KafkaException as error:
            self._partition = -1
            if error_of(error).code() != KafkaError._AUTO_OFFSET_RESET:
                return [], []  # who reads new messages says what is wrong
            begin, end = ends_of(self._reader.consumer, self._topic, partition)
            return [], [(partition, at) for at in sorted(offsets) if not begin <= at < end]
        self._next = end
        found = [message for message in messages if message.offset() in offsets]
        left = offsets - {message.offset() for message in found}
        is_end = self._reader.is_at_end(partition)
        gone = [(partition, at) for at in sorted(left) if at < end or is_end]
        if len(found) + len(gone) == len(offsets):
            self._stop(self._reader)
        return found, gone

    def _stop(self, reader: PartitionReader) -> None:
        if self._partition >= 0:
            reader.drop(self._partition)
            self._partition = -1

    def close(self) -> None:
        """Let go of the consumer."""
        if self._reader is not None:
            self._reader.close()
