"""Kafka's own client: its settings, and its errors in one line that says what to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

from fulmen.api.sinks import ServiceUnavailable
from fulmen.connectors.kafka.options import ClientOptions, KafkaSinkOptions, KafkaSpoutOptions
from fulmen.errors import install

try:
    from confluent_kafka import (
        Consumer,
        ConsumerGroupTopicPartitions,
        KafkaError,
        KafkaException,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
except ImportError as error:
    raise ImportError(f"{error}. The client of Kafka is an extra: {install('kafka')}") from error

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
_LACKS = "this user lacks the right"
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
"""What the client has fetched ahead is emitted in less than a second. By default it waits that long
before it fetches more, and nothing can be emitted meanwhile."""


class Brokers:
    """Where a component's clients connect to, and what they have said of it.

    Attributes:
        service: For messages.
    """

    def __init__(self, options: ClientOptions) -> None:
        self.service = f"Kafka at {options.bootstrap_servers}"
        self._options = options
        self._rights = _rights(options)
        self._said: dict[int, KafkaError] = {}

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client.

        Args:
            more: Those of one kind of client, by their names with `_` for each dot; and callbacks.
        """
        options = self._options
        given = {
            "bootstrap.servers": options.bootstrap_servers,
            "security.protocol": options.security_protocol.lower(),
            "sasl.mechanism": options.sasl_mechanism,
            "sasl.username": options.sasl_username,
            "sasl.password": options.sasl_password,
        }
        defaults = {"log_level": 2, "client.id": "fulmen"}  # its errors arrive here anyway
        own = {
            name if callable(value) else name.replace("_", "."): value
            for name, value in more.items()
        }
        found = {name: value for name, value in given.items() if value is not None}
        return {**defaults, **options.properties, **found, **own, "error_cb": self._note}

    def make(
        self,
        kind: Callable[[dict[str, Any]], T],
        defaults: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> T:
        """A client.

        Args:
            kind: Its class.
            defaults: Settings by Kafka's names, which `properties` may change.
            more: Settings, as for `settings`.

        Raises:
            ValueError: A setting is wrong.
        """
        try:
            return kind({**defaults, **self.settings(**more)})
        except KafkaException as error:
            raise ValueError(f"`properties` or another option: {error_of(error).str()}") from None

    def consumer(self, group: str, isolation: str = "read_committed", **more: Any) -> Consumer:
        """A consumer that commits nothing by itself, and tells when an offset is not there.

        Args:
            group: The group whose offsets it may read and write.
            isolation: `isolation.level`.
            more: Other settings, as for `settings`.
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
        given = self._options.properties
        return any(
            given.get(name, "none") != "none" for name in ("compression.type", "compression.codec")
        )

    def _note(self, error: KafkaError) -> None:
        self._said[error.code()] = error

    def forget(self) -> None:
        """The brokers have answered: what was said before is over."""
        self._said.clear()

    @property
    def is_away(self) -> bool:
        """Whether a client has said that it reaches no broker, since `forget`."""
        return bool(self._said.keys() & {*_FINAL, KafkaError._ALL_BROKERS_DOWN})

    @property
    def has_complained(self) -> bool:
        """Whether a client has said anything since `forget`."""
        return bool(self._said)

    def unavailable(self, error: KafkaException | KafkaError | None = None) -> ServiceUnavailable:
        """What to raise or report: the most telling of what clients have said, in one line."""
        told = [self._said[code] for code in _MOST_TELLING if code in self._said]
        if error is not None:
            last = error_of(error)
            is_vague = last.code() in _VAGUE
            told = [*told, last] if is_vague else [last]
        if not told:
            return ServiceUnavailable(self.service, "no answer")
        state = "can't be used" if told[0].code() in self._rights else "is away"
        return ServiceUnavailable(self.service, self.reason_of(told[0]), state)

    def reason_of(self, error: KafkaError) -> str:
        """What an error means, in one line: which right the user lacks, if it is about one."""
        known = self._rights | _REASONS
        return known.get(error.code()) or " ".join(error.str().split())

    def metadata(self, client: Any, topic: str) -> Mapping[int, Any]:
        """The partitions of a topic, once the brokers tell.

        Raises:
            ServiceUnavailable: They don't, or there is no such topic.
        """
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                found = client.list_topics(topic, 0.5)
            except KafkaException as error:
                client.poll(0)  # which is when `error_cb` is called
                if self._said.keys() & _FINAL or time.monotonic() > deadline:
                    raise self.unavailable(error) from None
                time.sleep(0.05)  # it may not have waited at all
                continue
            of_topic = found.topics[topic]
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
    """There is no such topic."""
    text = f"there is no topic {topic!r}: create it, or mend `topic`"
    return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, text)


def error_of(error: KafkaException | KafkaError) -> KafkaError:
    """What an exception of the client has in it."""
    if isinstance(error, KafkaError):
        return error
    found: KafkaError = error.args[0]
    return found


def is_lost(error: KafkaException | KafkaError) -> bool:
    """Whether it says no more than that no answer came."""
    return error_of(error).code() in _VAGUE


def _rights(options: ClientOptions) -> dict[int, str]:
    """What the brokers' refusals mean, by their codes. Brokers don't say which right is missing."""
    if isinstance(options, KafkaSinkOptions):
        topic = f"{_LACKS} Write for topic {options.topic!r}"
        idempotence = f"{topic}; brokers before 3.0 want IdempotentWrite for the cluster, too"
        if options.guarantee == "exactly-once":
            topic = (
                f"{_LACKS} Write or Read for topic {options.topic!r}: with `exactly-once` it needs"
                " both, since the mark is an offset of that topic"
            )
        group = f"{_LACKS} Read for groups that begin with `fulmen-`"
    elif isinstance(options, KafkaSpoutOptions):
        topic = f"{_LACKS} Read for topic {options.topic!r}"
        group = f"{_LACKS} Read for group {options.group_id!r}"
        idempotence = topic
    else:
        return {}
    return {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: topic,
        KafkaError.GROUP_AUTHORIZATION_FAILED: group,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: idempotence,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"{_LACKS} Write for transactional ids"
        " that begin with `fulmen-`",
    }
