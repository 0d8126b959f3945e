"""Reads partitions from any offset, each in its order, all by one consumer.

Messages are fetched ahead, while the topology does other things. What has arrived waits in a queue
for each partition. If there are several, one whose queue is long is paused, so that others are
heard.

Offsets have gaps: compaction removes messages, and transactions end with marks that readers never
see. So a queue knows how far it was fetched (`fetched`), which may be behind its last message.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from fulmen.services.kafka import let_go

AT_ONCE = 2_000
"""So many messages are taken from the client at once: enough that the call costs nothing."""
AHEAD = 4
"""A partition is paused when so many times what is asked for at once has arrived."""


@dataclass
class FetchedMessages:
    """The messages of a partition that were fetched and not taken yet.

    Attributes:
        start: Everything before that was taken, or sought over.
        fetched: Everything before that has arrived.
        error: What the brokers have against going on.
        end: Where the partition ended when that was told last.
    """

    start: int
    fetched: int
    messages: deque[Message] = field(default_factory=deque)
    error: KafkaError | None = None
    end: int = -1
    is_paused: bool = False

    @property
    def next(self) -> int:
        """The first offset, from `start` on, that has a message as far as is known."""
        return _offset(self.messages[0]) if self.messages else self.fetched

    def take(self, most: int, before: int | None = None) -> list[Message]:
        """The next messages: at most so many, and none from the offset `before` on."""
        messages = self.messages
        if before is None:
            taken = [messages.popleft() for _ in range(min(most, len(messages)))]
        else:
            taken = []
            while messages and len(taken) < most and _offset(messages[0]) < before:
                taken.append(messages.popleft())
        self.start = _offset(taken[-1]) + 1 if taken else self.start
        return taken


class PartitionReader:
    """The partitions of one task.

    Attributes:
        consumer: What reads them.
    """

    def __init__(
        self, consumer: Consumer, topic: str, most: int, refused: Callable[[KafkaError], object]
    ) -> None:
        """Keep the consumer. Nothing is fetched before it is asked for.

        Args:
            consumer: With `enable.partition.eof`, and without partitions.
            topic: Which topic.
            most: How many messages are asked for at once.
            refused: Is told what the brokers have against the consumer's group.
        """
        self.consumer, self._refused = consumer, refused
        self._topic = topic
        self._most = most
        self._queues: dict[int, FetchedMessages] = {}

    def arrived(self, partition: int, start: int) -> tuple[list[Message], int]:
        """Take what has arrived from an offset on, and the offset behind. It never waits.

        Raises:
            KafkaException: Nothing has arrived, and the brokers say why.
        """
        queue = self._queue(partition, start)
        if len(queue.messages) < self._most:
            self._resume(partition, queue)
            while self._take_in(0) and len(queue.messages) < self._most:
                pass
        messages = queue.take(self._most)
        if not messages:
            self._raise_error(partition, queue)
        return messages, queue.next

    def between(
        self, partition: int, start: int, end: int, count: int, seconds: float
    ) -> list[Message]:
        """Take all messages from an offset up to another one. Waits until they have arrived.

        Args:
            partition: Which.
            start: The first offset.
            end: The offset behind the last one.
            count: How many there are at most: if so many have arrived, these are all.
            seconds: How long to wait at most.

        Raises:
            KafkaException: They do not arrive.
        """
        queue = self._queue(partition, start)
        self._resume(partition, queue)
        deadline = time.monotonic() + seconds
        while len(queue.messages) < count and queue.fetched < end:
            self._raise_error(partition, queue)
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
            self._take_in(0.1)
        return queue.take(count, end)

    def _queue(self, partition: int, start: int) -> FetchedMessages:
        """The queue of a partition, at an offset."""
        queue = self._queues.get(partition)
        if queue is not None and queue.start <= start <= queue.next:
            return queue
        if queue is not None:
            self.drop(partition)
        self.consumer.incremental_assign([TopicPartition(self._topic, partition, start)])
        queue = self._queues[partition] = FetchedMessages(start, start)
        return queue

    def is_at_end(self, partition: int) -> bool:
        """Whether the partition ended where it was read up to."""
        queue = self._queues[partition]
        return not queue.messages and queue.fetched == queue.end

    def drop(self, partition: int) -> None:
        """Fetch no more of a partition."""
        self._resume(partition, self._queues[partition])  # the client remembers that it is paused
        self.consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        del self._queues[partition]

    def _raise_error(self, partition: int, queue: FetchedMessages) -> None:
        """Say what is wrong. The partition is begun anew when it is asked for again."""
        if queue.error is not None:
            self.drop(partition)
            raise KafkaException(queue.error)

    def _take_in(self, seconds: float) -> int:
        """Sort what has arrived; if nothing has, wait for so long. Returns how much it was."""
        arrived = self.consumer.consume(AT_ONCE, seconds)
        queue_of = self._queues.get
        for message in arrived:
            queue = queue_of(_partition(message))
            if message.error() is not None:
                self._note_error(message, queue)
            elif queue is not None and (offset := _offset(message)) >= queue.fetched:
                queue.messages.append(message)
                queue.fetched = offset + 1
        if len(self._queues) == 1:  # it takes the client half a second to go on after a pause
            return len(arrived)
        for partition, queue in self._queues.items():
            if len(queue.messages) >= AHEAD * self._most and not queue.is_paused:
                self.consumer.pause([TopicPartition(self._topic, partition)])
                queue.is_paused = True
        return len(arrived)

    def _note_error(self, message: Message, queue: FetchedMessages | None) -> None:
        error = message.error()
        assert error is not None
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._refused(error)  # it names a partition all the same
        elif queue is None:
            return
        elif error.code() == KafkaError._PARTITION_EOF:
            queue.end = _offset(message)
            queue.fetched = max(queue.fetched, queue.end)
        else:
            queue.error = error

    def _resume(self, partition: int, queue: FetchedMessages) -> None:
        if queue.is_paused:
            self.consumer.resume([TopicPartition(self._topic, partition)])
            queue.is_paused = False

    def close(self) -> None:
        """Let go of the consumer."""
        let_go(self.consumer)


def _offset(message: Message) -> int:
    """The offset of a message, or of the end that it tells of."""
    offset = message.offset()
    assert offset is not None
    return offset


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition
