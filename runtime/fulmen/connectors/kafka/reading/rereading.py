"""Messages that failed are read from the topic again, by a consumer of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from fulmen.connectors.kafka.reading.messages import MessageId
from fulmen.services.kafka import SECONDS

AT_ONCE = 500
"""So many messages are read at once."""
FAR = 2_000
"""Between wanted messages, so many others are read rather than sought over."""


class Rereading:
    """Finds the messages of partitions and offsets. It never waits.

    The messages between two wanted ones are read and dropped, unless there are many.
    """

    def __init__(self, make_consumer: Callable[[], Consumer], topic: str) -> None:
        """Find messages of one topic.

        Args:
            make_consumer: Called when something is first wanted.
            topic: Which.
        """
        self._make = make_consumer
        self._topic = topic
        self._consumer: Consumer | None = None
        self._partition = -1
        self._wanted: deque[int] = deque()
        self._next = 0

    def find(self, wanted: Iterable[MessageId]) -> tuple[list[Message], list[MessageId]]:
        """Some of the wanted messages, if they have arrived.

        Args:
            wanted: All that are wanted; asked for when those of the call before are found.

        Returns:
            Messages, and wanted ones that are in the topic no more.
        """
        if self._consumer is None:
            self._consumer = self._make()
        if not self._wanted:
            self._begin(wanted)
        found: list[Message] = []
        gone: list[MessageId] = []
        for message in self._consumer.consume(AT_ONCE, 0):
            if message.error() is None:
                self._take(message, found, gone)
            elif message.partition() == self._partition:
                self._end(message.error(), gone)
            if not self._wanted:
                break
        if not self._wanted:
            self._consumer.unassign()
        elif self._wanted[0] > self._next + FAR:
            self._seek()
        return found, gone

    def _begin(self, wanted: Iterable[MessageId]) -> None:
        self._partition = min(partition for partition, _ in wanted)
        offsets = sorted(offset for partition, offset in wanted if partition == self._partition)
        self._wanted = deque(offsets)
        self._seek()

    def _seek(self) -> None:
        assert self._consumer is not None
        self._next = self._wanted[0]
        self._consumer.assign([TopicPartition(self._topic, self._partition, self._next)])

    def _take(self, message: Message, found: list[Message], gone: list[MessageId]) -> None:
        offset = message.offset()
        assert offset is not None
        if message.partition() != self._partition or offset < self._next:
            return  # of an assignment before
        self._next = offset + 1
        self._pass(offset, gone)
        if self._wanted and self._wanted[0] == offset:
            self._wanted.popleft()
            found.append(message)

    def _pass(self, offset: int, gone: list[MessageId]) -> None:
        """What was wanted before this offset is not there: nothing comes out of order."""
        while self._wanted and self._wanted[0] < offset:
            gone.append((self._partition, self._wanted.popleft()))

    def _end(self, error: KafkaError | None, gone: list[MessageId]) -> None:
        """The partition has an end, or a beginning, that wanted messages are behind."""
        assert self._consumer is not None
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self._pass(self._wanted[-1] + 1, gone)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            at = TopicPartition(self._topic, self._partition)
            first, _ = self._consumer.get_watermark_offsets(at, SECONDS)
            self._pass(first, gone)
            if self._wanted:
                self._seek()

    def close(self) -> None:
        """Let go of the consumer."""
        if self._consumer is not None:
            self._consumer.close()
