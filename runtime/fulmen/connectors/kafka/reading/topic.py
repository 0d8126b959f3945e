"""A topic: its id, its partitions, and where these begin and end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from fulmen.connectors.kafka.options import KafkaSpoutOptions
from fulmen.services.kafka import NO_TOPIC, SECONDS, Brokers, error_of, no_topic

LAG_SECONDS = 1.0
"""So often the lag is told."""
FROM_THE_FIRST = {"start": "earliest", "start_timestamp": None}
"""How the options change for partitions that are added later, and for a topic made again."""


@dataclass(frozen=True)
class Description:
    """A topic at one moment.

    Attributes:
        topic_id: Another one, if the topic was deleted and made again.
        partitions: Their numbers.
    """

    topic_id: str
    partitions: tuple[int, ...]


class Topic:
    """Asks the brokers about a topic every few seconds, without waiting for the answer."""

    def __init__(self, brokers: Brokers, name: str, refresh_seconds: float) -> None:
        self._brokers = brokers
        self._admin = brokers.make(AdminClient)
        self._name = name
        self._seconds = refresh_seconds
        self._asked: Future[Any] | None = None
        self._next = time.monotonic() + refresh_seconds

    def connect(self) -> Description:
        """Wait until the brokers tell of the topic.

        Raises:
            ServiceUnavailable: They don't, or there is no such topic.
        """
        self._brokers.metadata(self._admin, self._name)
        try:
            return self.describe()
        except KafkaException as error:
            raise self._brokers.unavailable(error) from None

    def ask(self) -> Future[Any]:
        """Ask now; the answer comes with `news`."""
        if self._asked is None:
            asked = self._admin.describe_topics(
                TopicCollection([self._name]), request_timeout=SECONDS
            )
            self._asked = asked[self._name]
        return self._asked

    def describe(self) -> Description:
        """Ask, and wait for the answer.

        Raises:
            KafkaException: There is no such topic, or the brokers do not answer.
        """
        self.ask()
        return self._answer()

    def news(self) -> Description | None:
        """Take the brokers' answer since the last time, if there is one.

        Raises:
            KafkaException: As `describe`.
        """
        if self._asked is None:
            if time.monotonic() >= self._next:
                self.ask()
            return None
        return self._answer() if self._asked.done() else None

    def _answer(self) -> Description:
        asked, self._asked = self.ask(), None
        self._next = time.monotonic() + self._seconds
        try:
            described = asked.result(SECONDS + 1)
        except KafkaException as error:
            if error_of(error).code() in NO_TOPIC:
                raise KafkaException(no_topic(self._name)) from None
            raise
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")) from None
        return Description(str(described.topic_id), tuple(part.id for part in described.partitions))


def ends_of(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The first offset that there is in a partition, and the one after the last.

    Raises:
        KafkaException: The brokers do not answer.
    """
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS)
    if found is None:  # what the client says when it has waited long enough
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
    return found


def first_positions(
    brokers: Brokers, consumer: Consumer, options: KafkaSpoutOptions, partitions: Iterable[int]
) -> dict[int, int]:
    """Find where to begin partitions that have no position, as `start` says.

    Raises:
        KafkaException: The brokers do not answer.
    """
    topic, positions = options.topic, {}
    asked = [TopicPartition(topic, partition) for partition in partitions]
    if asked:
        consumer.list_topics(topic, SECONDS)  # else it may not know yet of new ones
    if options.start == "group" and asked:
        positions = _known(brokers.committed(consumer, asked, options.group_id or ""))
    elif options.start_timestamp is not None and asked:
        milliseconds = int(options.start_timestamp.timestamp() * 1000)
        at = [TopicPartition(topic, part.partition, milliseconds) for part in asked]
        positions = _known(consumer.offsets_for_times(at, SECONDS))
    at_end = options.start in ("latest", "timestamp")
    for part in asked:
        if part.partition not in positions:
            first, end = ends_of(consumer, topic, part.partition)
            positions[part.partition] = end if at_end else first
    return positions


def place_after(
    consumer: Consumer, topic: str, partition: int, position: int
) -> tuple[int, str | None]:
    """Find where to go on in a partition that lacks the offset to be read next.

    Returns:
        The offset, and what is gone, for people; None: the offset is there after all.

    Raises:
        KafkaException: The brokers do not answer.
    """
    first, end = ends_of(consumer, topic, partition)
    if position < first:
        return first, (
            f"{first - position} messages of partition {partition} were deleted before they"
            f" were read, from offset {position} on: the topic keeps them for too short a time."
            f" Reading goes on at offset {first}"
        )
    if position > end:
        return end, (
            f"partition {partition} ends at offset {end}, before offset {position}, which is to"
            f" be read next: its brokers have lost messages. Reading goes on at offset {end}"
        )
    return position, None


def unread(consumer: Consumer, topic: str, partition: int, position: int) -> int | None:
    """The number of messages of a partition to be read, by what the last fetch has said."""
    known = consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
    return max(0, known[1] - position) if known and known[1] >= 0 else None


def _known(answers: Iterable[TopicPartition]) -> dict[int, int]:
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return {answer.partition: answer.offset for answer in answers if answer.offset >= 0}
