"""Kafka, by its own client: settings, and errors in one line that says what to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.services.service import ErrorKind, Service, no_client

try:
    import confluent_kafka  # noqa: F401
except ImportError as error:
    raise no_client(error, "Kafka", "kafka") from error

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

T = TypeVar("T")
SECONDS = 10.0
"""How long to wait for an answer of the brokers."""
CONNECT_SECONDS = 5.0
"""How long to wait for the first one. A component that is not opened is opened again later."""
REFUSE_SECONDS = 1.0
"""How long to wait for what is refused at once, or not answered at all."""

_NO_LOGIN = "it does not let us in: check `sasl.mechanism`, `sasl.username` and `sasl.password`"
_REASONS = {
    KafkaError._AUTHENTICATION: _NO_LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _NO_LOGIN,
    KafkaError._RESOLVE: "there is no machine of that name: check `bootstrap.servers`",
    KafkaError._SSL: "no encrypted connection can be made: check `security.protocol` and the"
    " settings `ssl.*` in `properties`",
    KafkaError._ALL_BROKERS_DOWN: "no broker answers: check `bootstrap.servers`, and"
    " `security.protocol`: a broker that expects another one closes the connection",
    KafkaError._FENCED: "another process writes in the place of this one",
}
_FINAL = {
    *(KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),
    *(KafkaError._SSL, KafkaError._RESOLVE),
}
_VAGUE = (
    *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT),
    *(KafkaError._DESTROY, KafkaError._DESTROY_BROKER),  # let go of before the answer came
)
_MOST_TELLING = (*_FINAL, *_VAGUE)

_FETCHING = {"fetch.queue.backoff.ms": 10}
"""Messages that are fetched ahead are emitted in less than a second. By default the client waits
that long before it fetches more, and nothing can be emitted meanwhile."""


class Brokers(Service):
    """Brokers of a component's clients, and what they have said."""

    errors = (KafkaException,)

    def __init__(
        self, servers: str, settings: Mapping[str, Any], rights: Mapping[int, str]
    ) -> None:
        """Connect to nothing yet.

        Args:
            servers: Some of the brokers.
            settings: What each client is given, by Kafka's names.
            rights: What the brokers' refusals mean, by their codes: which right is missing.
        """
        super().__init__(f"Kafka at {servers}", str(settings.get("sasl.password") or ""))
        defaults = {"log_level": 2, "client.id": "fulmen"}  # its errors arrive here anyway
        self._settings = {"bootstrap.servers": servers, **defaults, **settings}
        self._rights = rights
        self._said: dict[int, KafkaError] = {}

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client.

        Args:
            more: Those of one kind of client, by their names with `_` for each dot; and callbacks.
        """
        own = {
            name if callable(value) else name.replace("_", "."): value
            for name, value in more.items()
        }
        return {**self._settings, **own, "error_cb": self._note}

    def make(
        self,
        kind: Callable[[dict[str, Any]], T],
        defaults: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> T:
        """A client of a class. `properties` may change `defaults`, which have Kafka's names.

        Raises:
            ValueError: A setting is wrong.
        """
        try:
            return kind({**defaults, **self.settings(**more)})
        except KafkaException as error:
            raise ValueError(f"`properties` or another option: {error_of(error).str()}") from None

    def consumer(self, group: str, isolation: str = "read_committed", **more: Any) -> Consumer:
        """A consumer that commits nothing by itself, and tells when an offset is not there.

        It may read and write offsets of the group.
        """
        return self.make(
            Consumer,
            _FETCHING,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            **more,
        )

    @property
    def compresses(self) -> bool:
        """Whether a larger message may be a smaller one for the brokers."""
        names = "compression.type", "compression.codec"
        return any(self._settings.get(name, "none") != "none" for name in names)

    def _note(self, error: KafkaError) -> None:
        self._said[error.code()] = error

    def forget(self) -> None:
        """Forget what was said before: the brokers have answered."""
        self._said.clear()

    @property
    def is_away(self) -> bool:
        """Whether a client has said that it reaches no broker, since `forget`."""
        return bool(self._said.keys() & {*_FINAL, KafkaError._ALL_BROKERS_DOWN})

    @property
    def has_complained(self) -> bool:
        """Whether a client has said anything since `forget`."""
        return bool(self._said)

    def kind_of(self, error: KafkaException | KafkaError) -> ErrorKind:
        """Whether a right is missing, as all else passes."""
        return ErrorKind.LACKING if error_of(error).code() in self._rights else ErrorKind.AWAY

    def unavailable(self, error: KafkaException | KafkaError | None = None) -> ServiceUnavailable:
        """The error to raise or report: the most telling of what clients said, in one line."""
        told = [self._said[code] for code in _MOST_TELLING if code in self._said]
        if error is not None:
            last = error_of(error)
            told = [*told, last] if last.code() in _VAGUE else [last]
        if not told:
            return ServiceUnavailable(self.name, "no answer")
        return super().unavailable(told[0])

    def said(self, error: KafkaException | KafkaError) -> str:
        """Describe an error in one line: which right the user lacks, if it is about one."""
        inner = error_of(error)
        known = {**_REASONS, **self._rights}.get(inner.code())
        return self.masked(known or " ".join(inner.str().split()))

    def metadata(self, client: Any, topic: str) -> Mapping[int, Any]:
        """The partitions of a topic, once the brokers tell.

        Raises:
            ServiceUnavailable: They don't, or there is no such topic.
        """
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                cluster = client.list_topics(topic, 0.5)
            except KafkaException as error:
                client.poll(0)  # which is when `error_cb` is called
                if self._said.keys() & _FINAL or time.monotonic() > deadline:
                    raise self.unavailable(error) from None
                time.sleep(0.05)  # it may not have waited at all
                continue
            of_topic = cluster.topics[topic]
            if of_topic.error is None:
                self.forget()
                partitions: Mapping[int, Any] = of_topic.partitions
                return partitions
            if not of_topic.error.retriable() or time.monotonic() > deadline:
                raise self.unavailable(self.about(of_topic.error, topic))
            time.sleep(0.1)

    def committed(
        self, consumer: Consumer, asked: list[TopicPartition], group: str
    ) -> list[TopicPartition]:
        """The offsets that the group of a consumer has committed.

        Raises:
            KafkaException: The brokers do not answer, or the user may not ask. A consumer then only
                waits for too long, so the brokers are asked why.
        """
        try:
            return consumer.committed(asked, SECONDS)
        except KafkaException as error:
            if not is_lost(error):
                raise
            admin = self.make(AdminClient)  # no answer comes once it is let go of
            wanted = [ConsumerGroupTopicPartitions(group, asked)]
            told = admin.list_consumer_group_offsets(wanted, request_timeout=REFUSE_SECONDS)
            with suppress(TimeoutError):
                cause = told[group].exception(2 * REFUSE_SECONDS)
                if isinstance(cause, KafkaException) and not is_lost(cause):
                    raise cause from None
            raise

    def is_compacted(self, topic: str) -> bool:
        """Whether a topic is known to be compacted. Not so if the brokers don't tell."""
        admin = self.make(AdminClient)  # no answer comes once it is let go of
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            told = admin.describe_configs([asked], request_timeout=CONNECT_SECONDS)
            policy = told[asked].result(CONNECT_SECONDS).get("cleanup.policy")
        except (KafkaException, TimeoutError):  # it may be that this user has no right to ask
            return False
        return policy is not None and "compact" in policy.value

    def about(self, error: KafkaError, topic: str) -> KafkaError:
        """The error, with the topic's name if it is not there."""
        return no_topic(topic) if error.code() in NO_TOPIC else error


def within(seconds: float, call: Callable[[], object]) -> None:
    """Make a call of the client that may never return, whatever timeout it is given.

    Raises:
        KafkaException: It raised that, or has not returned in time: then its thread is given up.
    """
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 (it is raised below)
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
    if ended[0] is not None:
        raise ended[0]


def let_go(consumer: Consumer) -> None:
    """Close it. If it waits for an answer to a commit that never comes, leave it alone."""
    with suppress(KafkaException):
        within(SECONDS, consumer.close)


NO_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""What errors say that are about a topic or partition that does not exist (any more)."""


def no_topic(topic: str) -> KafkaError:
    """The error for a topic that is missing."""
    text = f"there is no topic {topic!r}: create it, or mend `topic`"
    return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, text)


def error_of(error: KafkaException | KafkaError) -> KafkaError:
    """The error inside an exception of the client."""
    if isinstance(error, KafkaError):
        return error
    inner: KafkaError = error.args[0]
    return inner


def is_lost(error: KafkaException | KafkaError) -> bool:
    """Whether it says no more than that no answer came."""
    return error_of(error).code() in _VAGUE
