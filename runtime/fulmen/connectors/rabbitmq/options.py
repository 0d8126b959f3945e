"""Options for RabbitMQ."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.formats import MessageFormatOptions, TextOptions
from fulmen.connectors.formats.options import Names
from fulmen.connectors.options import Options, SinkOptions
from fulmen.connectors.templates import Template

Name = Annotated[str, Field(min_length=1)]
Property = Literal[
    "message_id",
    "correlation_id",
    "content_type",
    "exchange",
    "headers",
    "redelivered",
    "reply_to",
    "routing_key",
    "timestamp",
    "type",
]


MOST_PREFETCHED = 65_535
"""The protocol has 16 bits for it."""


class _ConnectionOptions(Options):
    url: Name
    """How to connect: `amqp://user:password@host:5672/vhost`, or `amqps://…`. The default vhost `/`
    is `%2F`."""
    heartbeat: Annotated[int, Field(ge=0)] | None = None
    """Seconds between heartbeats. Default: what the broker proposes. 0: none."""


class RabbitSpoutOptions(_ConnectionOptions):
    """The `config` of a RabbitSpout."""

    queue: Name
    """The name of the queue."""
    prefetch_count: Annotated[int, Field(ge=1, le=MOST_PREFETCHED)] | None = None
    """How many messages the broker hands out before it has acks for them. Default: the topology's
    `maxSpoutPending`, and 1000 if it has none."""
    format: MessageFormatOptions = TextOptions()
    """How messages are written down."""
    properties: tuple[Property, ...] = ()
    """Properties of a message, and of its delivery, that become further fields of the tuple, after
    those of the format."""
    drop_repeats: bool = False
    """Drop a message that the publisher has sent twice: it has the message id and the body of one
    that is in flight, or that was acked before."""
    remembered_ids: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """How many ids of acked messages are remembered, for when the broker hands them out again."""
    declare: bool = False
    """Declare the queue. Otherwise it must be there."""
    durable: bool = True
    """Of the queue that is declared: it outlives the broker."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of the queue that is declared, such as `x-queue-type: quorum`."""


class RabbitSinkOptions(SinkOptions, _ConnectionOptions):
    """The `config` of a RabbitSink."""

    guarantee: Literal["at-least-once"] = "at-least-once"
    """RabbitMQ keeps no mark together with messages, so they may be sent again."""
    exchange: Template = ""
    """The exchange; `{name}` is replaced by that field of the row. Default: the exchange without a
    name, whose routing keys are names of queues."""
    routing_key: Template = ""
    """The routing key; `{name}` is replaced."""
    format: MessageFormatOptions = TextOptions()
    """How a row is written down."""
    message_id: Template = ""
    """The message id; `{name}` is replaced. Default: one that follows from the tuple trees and the
    message, so that a message that is sent again because its batch is run again has the same id."""
    headers: Names = ()
    """Fields of the row that become headers. Those that are null are left out."""
    content_type: str | None = None
    """The content type of the messages. Default: there is none."""
    delivery_mode: Literal[1, 2] = 2
    """2: messages outlive the broker, in a durable queue; 1: they don't."""
    mandatory: bool = True
    """A row fails if its message reaches no queue. Otherwise such messages are lost."""
    confirm_timeout: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds without any confirm after which the broker counts as away."""
    declare: bool = False
    """Declare the exchange; or without one the queue that the routing key names. Otherwise it must
    be there."""
    exchange_type: Literal["direct", "fanout", "topic", "headers"] = "direct"
    """Of the exchange that is declared."""
    durable: bool = True
    """Of the exchange or queue that is declared: it outlives the broker."""

    @model_validator(mode="after")
    def _know_subject(self) -> Self:
        self.format.for_topic(None)
        return self
