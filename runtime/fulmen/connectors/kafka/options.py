"""The `config` of both components. What Kafka's clients have too has their name and default."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from confluent_kafka import KafkaError
from pydantic import (
    AfterValidator,
    AwareDatetime,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from fulmen.connectors.formats import AvroKeyOptions, MessageFormatOptions, TextOptions
from fulmen.connectors.options import Options, SinkOptions, refuse_attempt
from fulmen.services.kafka import Brokers

Text = Annotated[str, Field(min_length=1)]
TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
KeyFormat = Annotated[
    Annotated[Literal["text", "bytes"], Tag("name")] | Annotated[AvroKeyOptions, Tag("avro")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "avro"),
]
Part = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]

LACKS = "this user lacks the right"
TRACEPARENT = "traceparent"
"""The header that says which trace a message is part of."""

_OURS = {
    "enable.auto.commit": "positions are kept in the checkpoint",
    "enable.auto.offset.store": "positions are kept in the checkpoint",
    "auto.offset.reset": "what is skipped has to be reported; `start` says where to begin",
    "enable.partition.eof": "it has no use here",
    "enable.idempotence": "without it a message may be written twice",
    "enable.gapless.guarantee": "a message that is refused must not stop the others",
    "acks": "all replicas must have a message before it counts as written",
    "transactional.id": "each task has one of its own, so that an older process is kept out",
    "delivery.report.only.error": "it has no use here",
}


def _without_login(servers: str) -> str:
    if "@" in servers:  # which would be shown
        raise ValueError(
            "it must be `host:port`, with commas between several. A login goes into `sasl.username`"
            " and `sasl.password`"
        )
    return servers


class ClientOptions(Options):
    """Options of the connection."""

    bootstrap_servers: Annotated[
        Text, AfterValidator(_without_login), Field(alias="bootstrap.servers")
    ]
    """Some of the brokers: `host:port`, with commas between them."""
    security_protocol: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        Field(alias="security.protocol"),
    ] = "PLAINTEXT"
    """Whether connections are encrypted (SSL), and whether there is a login (SASL)."""
    sasl_mechanism: Annotated[Text | None, Field(alias="sasl.mechanism")] = None
    """The kind of login, such as `PLAIN` or `SCRAM-SHA-512`."""
    sasl_username: Annotated[Text | None, Field(alias="sasl.username")] = None
    """Who logs in."""
    sasl_password: Annotated[str | None, Field(alias="sasl.password", repr=False)] = None
    """The password. Take it from the environment: `${KAFKA_PASSWORD}`."""
    properties: Annotated[
        dict[Text, str | int | float | bool], Field(default_factory=dict, repr=False)
    ]
    """Any other setting of librdkafka, such as `ssl.ca.location`."""

    @field_validator("properties")
    @classmethod
    def _refuse_ours(cls, properties: dict[str, Any]) -> dict[str, Any]:
        options = {field.alias for field in cls.model_fields.values()}
        for name in properties:
            if name in _OURS:
                raise ValueError(f"{name!r} can't be set: {_OURS[name]}")
            if name in options:
                raise ValueError(f"{name!r} is an option of its own: write it beside `properties`")
        return properties

    def brokers(self) -> Brokers:
        """The brokers to connect to."""
        given = {
            "security.protocol": self.security_protocol.lower(),
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": self.sasl_password,
        }
        security = {name: value for name, value in given.items() if value is not None}
        return Brokers(self.bootstrap_servers, {**self.properties, **security}, self.rights())

    def rights(self) -> dict[int, str]:
        """The meanings of refusals, by their codes. Brokers don't say which right is missing."""
        return {}


class KafkaSpoutOptions(ClientOptions):
    """Options of a `KafkaSpout`."""

    topic: TopicName
    """The topic to read. Each task reads some of its partitions."""
    format: MessageFormatOptions = TextOptions()
    """How a message's value becomes fields."""
    include: tuple[Part, ...] = ()
    """Parts of a message that are to be fields as well, after those of the format."""
    key_format: KeyFormat = "text"
    """What the field `key` is: `text`, `bytes`, or a mapping with `type: avro`."""
    tombstones: Literal["values", "deleted", "drop"] = "values"
    """What a message without a value is, which deletes its key from a compacted topic. `values`: a
    row with null in all fields of the format. `deleted`: the same, and there is one more field,
    `deleted`, the last, which is true for it and false for all others: sinks take it as their
    `deletedField`. `drop`: it is left out."""
    start: Literal["earliest", "latest", "timestamp", "group"] = "earliest"
    """Where to begin a partition that the checkpoint has no position of: at its first message, at
    its end, at the first message of a time (`startTimestamp`), or at the offset that the group
    (`group.id`) has committed, and at the first message if it has none. Partitions that are added
    to the topic later are always read from their first message."""
    start_timestamp: AwareDatetime | None = None
    """For `start: timestamp`: such as `2030-01-31T12:00:00Z`."""
    group_id: Annotated[Text | None, Field(alias="group.id")] = None
    """A consumer group that positions are committed to as well, after each commit of Fulmen's, for
    tools that watch lag. Fulmen reads it only for `start: group`."""
    isolation_level: Annotated[
        Literal["read_committed", "read_uncommitted"], Field(alias="isolation.level")
    ] = "read_committed"
    """Whether messages of transactions are read only once these are committed."""
    refresh_seconds: Annotated[float, Field(gt=0, le=86_400)] = 10
    """How often to look for new partitions, and whether the topic is still the same one."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.start == "timestamp" and self.start_timestamp is None:
            raise ValueError("`start: timestamp` needs `startTimestamp`")
        if self.start != "timestamp" and self.start_timestamp is not None:
            raise ValueError("`startTimestamp` needs `start: timestamp`")
        if self.start == "group" and self.group_id is None:
            raise ValueError("`start: group` needs `group.id`")
        fields = self.fields
        if self.tombstones == "deleted" and "key" not in self.include:
            raise ValueError(
                "`tombstones: deleted` needs the key of what is deleted: write `include: [key]`"
            )
        if not self.format.make().fields:
            raise ValueError("`format` has no fields: name those of the CSV in their order")
        twice = sorted({name for name in fields if fields.count(name) > 1})
        if twice:
            raise ValueError(
                f"there are two fields {twice[0]!r}: each of `include`, of `tombstones` and of the"
                " format's fields needs a name of its own"
            )
        return self

    def rights(self) -> dict[int, str]:
        """The meanings of a reader's refusals."""
        topic = f"{LACKS} Read for topic {self.topic!r}"
        return {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: topic,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: topic,
            KafkaError.GROUP_AUTHORIZATION_FAILED: f"{LACKS} Read for group {self.group_id!r}",
        }

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the stream `default`."""
        return (*self.format.make().fields, *self.more)

    @property
    def more(self) -> tuple[str, ...]:
        """The fields that are not the format's."""
        return (*self.include, *(("deleted",) if self.tombstones == "deleted" else ()))


class TransactionalKafkaSpoutOptions(KafkaSpoutOptions):
    """Options of a `TransactionalKafkaSpout` and an `OpaqueTransactionalKafkaSpout`."""

    max_messages: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """How many messages of each partition a transaction has at most."""

    @model_validator(mode="after")
    def _have_attempts(self) -> Self:
        refuse_attempt(self.fields)
        return self


class KafkaSinkOptions(ClientOptions, SinkOptions):
    """Options of a `KafkaSink`."""

    topic: TopicName
    """The topic to write to. It must exist. With `guarantee: exactly-once`, marks are kept as
    offsets of a group for its partition 0."""
    topic_field: Text | None = None
    """The field that names a row's topic. A row that has null there goes to `topic`."""
    key_field: Text | None = None
    """The field with the message's key: bytes as they are, anything else as text. Default: messages
    have none."""
    key_format: AvroKeyOptions | None = None
    """A mapping with `type: avro`, for keys in Avro. Default: keys are as they are."""
    partition_field: Text | None = None
    """The field with the number of the partition. Default, and for null: as `partitioner` says."""
    timestamp_field: Text | None = None
    """The field with the message's time in milliseconds since 1970, from 1 on: Kafka's client takes
    0 for now. Default, and for null: now."""
    headers_field: Text | None = None
    """The field with the headers: a mapping, or a list of pairs of a name and a value. Bytes are as
    they are, anything else is text."""
    deleted_field: Text | None = None
    """The field that says, if it is true, that the row's key is deleted. Then the message has no
    value."""
    format: MessageFormatOptions = TextOptions()
    """How a row becomes a message's value. By default it has all fields but those that
    `topicField`, `partitionField`, `timestampField`, `headersField` and `deletedField` name."""

    @model_validator(mode="after")
    def _know_subjects(self) -> Self:
        if self.deleted_field is not None and self.key_field is None:
            raise ValueError("`deletedField` needs `keyField`: what is deleted is a key")
        if self.key_format is not None and self.key_field is None:
            raise ValueError("`keyFormat` needs `keyField`")
        self.formats()
        return self

    def formats(self) -> tuple[MessageFormatOptions, AvroKeyOptions | None]:
        """The formats of values and keys, with the subjects of their schemas.

        Raises:
            ValueError: A subject can't be told.
        """
        topic = self.topic if self.topic_field is None else None
        key = self.key_format and self.key_format.for_topic(topic, "key")
        return self.format.for_topic(topic), key

    def rights(self) -> dict[int, str]:
        """The meanings of a writer's refusals."""
        write = f"{LACKS} Write for topic {self.topic!r}"
        topic = write
        if self.guarantee == "exactly-once":
            topic = (
                f"{LACKS} Write or Read for topic {self.topic!r}: with `exactly-once` it needs"
                " both, since the mark is an offset of that topic"
            )
        begin = "that begin with `fulmen-`"
        return {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: topic,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: f"{write}; brokers before 3.0 want"
            " IdempotentWrite for the cluster, too",
            KafkaError.GROUP_AUTHORIZATION_FAILED: f"{LACKS} Read for groups {begin}",
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"{LACKS} Write for transactional"
            f" ids {begin}",
        }
