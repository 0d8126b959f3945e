"""Commits positions to a consumer group, for tools that watch lag. Nothing is read from it."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from fulmen.api.context import TopologyContext
from fulmen.connectors.kafka.options import KafkaSpoutOptions
from fulmen.connectors.kafka.reading.troubles import BrokerTroubles
from fulmen.services.kafka import Brokers


class ConsumerGroup:
    """The group that a source's consumers belong to.

    Attributes:
        name: Of the group.
    """

    def __init__(
        self, brokers: Brokers, context: TopologyContext, troubles: BrokerTroubles
    ) -> None:
        """A group that is told positions if the options of the source name it."""
        options: KafkaSpoutOptions = context.options
        self.name = options.group_id or f"fulmen-{context.topology}-{context.known_as}"
        self._is_told = options.group_id is not None
        self._isolation = options.isolation_level
        self._brokers, self._topic = brokers, options.topic
        self._troubles = troubles
        self._told: dict[int, int] = {}

    def consumer(self) -> Consumer:
        """A new member, without partitions."""
        return self._brokers.consumer(
            self.name, self._isolation, enable_partition_eof=True, on_commit=self.answered
        )

    def tell(self, consumer: Consumer, positions: Mapping[int, int]) -> None:
        """Commit positions that have changed, without waiting."""
        if not self._is_told:
            return
        changed = {p: at for p, at in positions.items() if self._told.get(p) != at}
        if changed:
            self._told |= changed
            offsets = [TopicPartition(self._topic, *place) for place in changed.items()]
            consumer.commit(offsets=offsets, asynchronous=True)

    def answered(self, error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
        """Take the outcome of a commit."""
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self._told = {}
            self.refused(error)

    def refused(self, error: KafkaError) -> None:
        """Report what the brokers have against the group. Messages are read all the same."""
        if not self._is_told:  # then nothing is done with it
            return
        cure = (
            ""
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            else ". If other consumers are members of that group, give the spout a `group.id` of"
            " its own"
        )
        self._troubles.tell(
            "group",
            f"{self._brokers.name}: positions are not committed to group {self.name!r}"
            f" ({self._brokers.said(error)}). The checkpoint has them, so nothing is lost"
            f"{cure}",
        )
