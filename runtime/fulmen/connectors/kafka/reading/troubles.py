"""Troubles of a source that it waits for: each is reported, and again only after a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.kafka.reading.topic import Description, Topic
from fulmen.services.kafka import (
    NO_TOPIC,
    Brokers,
    error_of,
    is_lost,
    no_topic,
)

REPEAT_SECONDS = 30.0
"""After so long, the same trouble is reported again."""

Trouble = ServiceUnavailable | str
"""As an exception, if it means that messages can't be read."""


class BrokerTroubles:
    """Reports what is wrong with the brokers or the topic.

    Attributes:
        report: Tells an error of this task.
    """

    def __init__(self, brokers: Brokers, report: Callable[[Trouble], object]) -> None:
        self.report = report
        self._brokers = brokers
        self._told: dict[str, float] = {}

    def tell(self, kind: str, trouble: Trouble) -> None:
        """Report it, unless trouble of that kind was reported a moment ago."""
        now = time.monotonic()
        if now - self._told.get(kind, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._told[kind] = now
            self.report(trouble)

    def over(self, kind: str) -> None:
        """Trouble of that kind is over: the next is reported at once."""
        self._told.pop(kind, None)

    def of_partition(self, error: KafkaError, topic: str) -> None:
        """Tell that a partition of a topic can't be read for now."""
        if error.code() in NO_TOPIC:
            self.tell("topic", self._unread(no_topic(topic)))
        else:
            self.tell(str(error.code()), self._unread(error, f", topic {topic!r},"))

    def news_of(self, topic: Topic) -> Description | None:
        """Take the brokers' answer about the topic since the last time, if there is one."""
        try:
            news = topic.news()
        except KafkaException as error:
            if is_lost(error):  # a topic can't be told about while its brokers are away
                self.away(error)
                return None
            if error_of(error).code() in NO_TOPIC:
                self.heard()
            self.tell("topic", self._unread(error_of(error)))
            return None
        if news is not None:
            self.heard()
        return news

    def away(self, error: KafkaException | None = None) -> None:
        """The brokers do not answer."""
        self.tell("away", self._brokers.unavailable(error))

    def _unread(self, error: KafkaError, of: str = "") -> ServiceUnavailable:
        reason = self._brokers.said(error)
        return ServiceUnavailable(self._brokers.name + of, reason, "can't be read")

    def heard(self) -> None:
        """Note that the brokers have answered."""
        self._brokers.forget()
        self.over("away")
