"""Writes rows to RabbitMQ.

At least once, and no more: RabbitMQ can't keep a mark together with messages, nor tell later which
messages it has taken. Instead, messages have ids by which consumers know repeats: see `RowIds`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

import pika  # type: ignore[import-untyped]
from typing_extensions import override

from fulmen.api.components.sinks import Guarantee, Mark, Rows
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.base.bisection import RowsRefused, write_but_refused
from fulmen.connectors.base.row_ids import RowIds, sink_identity
from fulmen.connectors.base.sink import MessageSink
from fulmen.connectors.formats import DEFAULT, Format, Malformed, checked_text
from fulmen.connectors.formats.base import positions, refused
from fulmen.connectors.options import Options
from fulmen.connectors.rabbitmq.options import RabbitSinkOptions
from fulmen.connectors.rabbitmq.publisher import (
    NO_EXCHANGE,
    NO_RIGHT,
    ChannelRefused,
    PublishedMessage,
    Publisher,
)
from fulmen.connectors.templates import filler, has_fields
from fulmen.services.rabbitmq import Broker

Encoded = tuple[str, str, str, dict[str, Any], bytes]
"""The exchange, the routing key, the message id or "", headers, and the body."""
LONG = 1 << 63
LONGEST_NAME = 255
"""Bytes of an exchange's name, a routing key or a message id."""


class RabbitSink(MessageSink):
    """Publishes rows to an exchange, with publisher confirms."""

    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once",)
    config_model: ClassVar[type[Options]] = RabbitSinkOptions
    durable = ("identity",)

    def __init__(self) -> None:
        self.identity = ""

    appends = True

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        return [
            *refused(lambda: _fillers(options, stream.fields)),
            *refused(lambda: positions(options.headers, stream.fields)),
            *options.format.mistakes(stream),
        ]

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Connect.

        Raises:
            ServiceUnavailable: The broker is away, or what is to be declared is there already and
                differs.
            FulmenError: The options name a field that the sink does not receive.
        """
        self._context = context
        self.identity = sink_identity(context, self.identity)
        self._options: RabbitSinkOptions = context.options
        self._format = self._options.format.for_topic(None).make()
        self.look_at_inputs(context)
        options = self._options
        self._templates = options.exchange + options.routing_key
        title = f"{context.topology} {context.component} {context.task_index}"
        self._broker = Broker(options.url, options.heartbeat, title)
        self._publisher = Publisher(
            self._broker, options.confirm_timeout, mandatory=options.mandatory
        )
        with self._broker.told():
            self._publisher.connect(self._declare if options.declare else None)

    def _declare(self, channel: Any, done: Callable[[Any], None]) -> None:
        options = self._options
        if options.exchange:
            channel.exchange_declare(
                options.exchange, options.exchange_type, durable=options.durable, callback=done
            )
        else:
            channel.queue_declare(options.routing_key, durable=options.durable, callback=done)

    @override
    def encoder(self, fields: tuple[str, ...]) -> Callable[[Sequence[Any]], Encoded]:
        return _encoder(self._options, self._format, fields)

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        by_exchange: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            by_exchange.setdefault(row[0], []).append(i)
        messages = self._messages(rows)
        for exchange, places in by_exchange.items():
            refused: dict[int, str] = {}
            try:
                write_but_refused(places, partial(self._publish, messages, refused, _Refusals()))
            except ChannelRefused as error:
                if error.code != NO_EXCHANGE:
                    raise self._broker.unusable(str(error)) from None
                if not has_fields(self._options.exchange):
                    cure = "Declare it, or write `declare: true`"
                    raise self._broker.unusable(f"{error}. {cure}") from None
                refused = dict.fromkeys(places, f"there is no exchange {exchange!r}")
            for place, reason in sorted(refused.items()):
                rows.fail(place, reason)

    def _publish(
        self,
        messages: Sequence[PublishedMessage],
        refused: dict[int, str],
        alike: _Refusals,
        places: Sequence[int],
    ) -> None:
        """Publish messages to one exchange, but those that are like refused ones.

        If the broker closes the channel because of a message, it does not say which: that is found
        by halves.
        """
        refused.update((i, why) for i in places if (why := alike.reason_of(messages[i])))
        part = [i for i in places if i not in refused]
        try:
            reasons = self._publisher.publish([messages[i] for i in part]) if part else {}
        except ChannelRefused as error:
            is_hopeless = error.code == NO_RIGHT and not has_fields(self._templates)
            if is_hopeless or error.code == NO_EXCHANGE:
                raise
            if len(part) > 1:
                raise RowsRefused(str(error)) from None
            refused[part[0]] = str(error)
            alike.learn(messages[part[0]], error)
        else:
            refused.update((part[at], reason) for at, reason in reasons.items())

    def _messages(self, rows: Rows) -> list[PublishedMessage]:
        options = self._options
        ids = RowIds(self.identity, self._context.batch.number, rows)
        made = []
        for i, (exchange, routing_key, message_id, headers, body) in enumerate(rows):
            if not message_id:
                message_id = ids.next_id(i, body, exchange, routing_key, headers)
            properties = pika.BasicProperties(
                message_id=message_id,
                delivery_mode=options.delivery_mode,
                content_type=options.content_type,
                headers=headers or None,
            )
            made.append(PublishedMessage(exchange, routing_key, properties, body))
        return made

    @override
    def cleanup(self) -> None:
        self._publisher.close()


class _Refusals:
    """The limits that refused messages show: which routing keys are forbidden, which size is."""

    def __init__(self) -> None:
        self._routing_keys: dict[str, str] = {}
        self._size, self._too_large = sys.maxsize, ""

    def learn(self, message: PublishedMessage, error: ChannelRefused) -> None:
        if error.code == NO_RIGHT:
            self._routing_keys[message.routing_key] = str(error)
        elif "message size" in str(error):
            self._size, self._too_large = len(message.body), str(error)

    def reason_of(self, message: PublishedMessage) -> str:
        if len(message.body) >= self._size:
            return self._too_large
        return self._routing_keys.get(message.routing_key, "")


def _encoder(
    options: RabbitSinkOptions, form: Format, fields: Sequence[str]
) -> Callable[[Sequence[Any]], Encoded]:
    """A function that makes a message of a row. It raises Malformed for rows it can't.

    Raises:
        Malformed: A field is named that is not among them.
    """
    texts = _fillers(options, fields)
    body = form.encoder(fields)
    headers = list(zip(options.headers, positions(options.headers, fields), strict=True))

    def encode(values: Sequence[Any]) -> Encoded:
        filled = []
        for name, fill in texts:
            text = fill(values)
            if len(text.encode()) > LONGEST_NAME:
                raise Malformed(f"the {name} has more than {LONGEST_NAME} bytes")
            filled.append(text)
        of_row = {name: _header(name, values[at]) for name, at in headers if values[at] is not None}
        return cast(Encoded, (*filled, of_row, body(values)))

    return encode


def _fillers(
    options: RabbitSinkOptions, fields: Sequence[str]
) -> list[tuple[str, Callable[[Sequence[Any]], str]]]:
    """The functions that make a message's texts, beside its body, each with its name."""
    return [
        (name, filler(template, fields))
        for name, template in (
            ("exchange", options.exchange),
            ("routing key", options.routing_key),
            ("message id", options.message_id),
        )
    ]


def _header(name: str, value: Any) -> Any:
    """Pass on values that the client has a type for; all others, also floats, become text."""
    if type(value) in (str, bytes, bool) or (type(value) is int and -LONG <= value < LONG):
        return value
    try:
        return checked_text(DEFAULT.text(value))
    except Malformed as error:
        raise Malformed(f"the header {name!r}: {error}") from None
