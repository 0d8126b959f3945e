"""A message of Kafka's as the values of a tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from confluent_kafka import Message

from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.sinks import ERRORS_STREAM
from fulmen.connectors.formats import AvroKeyOptions, Format, Malformed
from fulmen.connectors.kafka.options import KafkaSpoutOptions

MessageId = tuple[int, int]
"""Partition and offset."""
Ready = tuple[list[Any], str, MessageId]
"""What can be emitted: values, stream and message id. Plain, as one is made for each message."""


class Reader:
    """Makes tuples of messages."""

    def __init__(self, options: KafkaSpoutOptions) -> None:
        self._topic = options.topic
        made = options.format.make()
        self._formats = [made]
        self._decode = made.decode
        self._nulls = [None] * len(made.fields)
        parts: dict[str, Callable[[Message], Any]] = {
            "key": self._key_part(options.key_format),
            "topic": Message.topic,
            "partition": Message.partition,
            "offset": Message.offset,
            "timestamp": _milliseconds,
            "headers": _headers,
        }
        self._parts = [parts[name] for name in options.include]

    def _key_part(self, chosen: str | AvroKeyOptions) -> Callable[[Message], Any]:
        if isinstance(chosen, str):
            return _text_key if chosen == "text" else Message.key
        self._formats.append(chosen.make())
        return partial(_avro_key, self._formats[-1])

    def connect(self) -> None:
        """See that what the formats need is there.

        Raises:
            ServiceUnavailable: It is away.
        """
        for form in self._formats:
            form.connect()

    def read(self, messages: Iterable[Message]) -> list[Ready]:
        """One for each message. What can't be read is for the stream `errors`.

        Args:
            messages: Without errors of the client.

        Raises:
            ServiceUnavailable: What a format needs is away. Read them again later.
        """
        decode, parts = self._decode, self._parts
        ready: list[Ready] = []
        for message in messages:
            msg_id: Any = message.partition(), message.offset()  # None only where there is an error
            data = message.value()
            try:
                values = decode(data) if data is not None else self._nulls.copy()
                for part in parts:
                    values.append(part(message))
            except Malformed as error:
                refused = [data, str(error), self.position(*msg_id)]
                ready.append((refused, ERRORS_STREAM, msg_id))
            else:
                ready.append((values, DEFAULT_STREAM, msg_id))
        return ready

    def position(self, partition: int, offset: int) -> str:
        """Where a message is, for people: `orders[3]@1207`."""
        return f"{self._topic}[{partition}]@{offset}"


def _text_key(message: Message) -> str | None:
    key = message.key()
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"its key is not text in utf-8: {error}") from None


def _avro_key(form: Format, message: Message) -> Any:
    key = message.key()
    try:
        return None if key is None else form.decode(key)[0]
    except Malformed as error:
        raise Malformed(f"its key: {error}") from None


def _milliseconds(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return milliseconds if kind else None


def _headers(message: Message) -> list[Any]:
    return list(message.headers() or [])
