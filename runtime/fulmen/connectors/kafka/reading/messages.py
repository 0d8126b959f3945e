"""A message of Kafka's as the values of a tuple."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Message

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.connectors.formats import (
    AvroKeyOptions,
    BytesOptions,
    Format,
    Malformed,
    TextOptions,
    unread,
)
from fulmen.connectors.kafka.options import TRACEPARENT, KafkaSpoutOptions
from fulmen.errors import IGNORED

DROPPED = ""
"""In place of a stream: of messages that are left out."""
MessageId = tuple[int, int]
"""Partition and offset."""


@dataclass
class Run:
    """Messages for one stream, one behind the other.

    Attributes:
        stream: The default one, `errors`, or DROPPED.
        rows: The values of each.
        ids: The message id of each.
    """

    stream: str
    rows: list[list[Any]]
    ids: list[MessageId]

    def take(self, most: int) -> tuple[list[list[Any]], list[MessageId]]:
        """Rows and ids of the next ones, which are no longer part of it."""
        taken = self.rows[:most], self.ids[:most]
        self.rows, self.ids = self.rows[most:], self.ids[most:]
        return taken


class MessageReader:
    """Makes tuples of messages.

    Attributes:
        notice: What is to be reported, once; empty: nothing.
    """

    notice = ""

    def __init__(self, options: KafkaSpoutOptions) -> None:
        self._topic = options.topic
        made = options.format.make()
        self._formats = [made]
        self._decode_each = made.decode_each
        self._nulls = [None] * len(made.fields)
        self._tombstones = options.tombstones
        says = "tombstones" in options.model_fields_set
        self._is_told = says or isinstance(options.format, TextOptions | BytesOptions)
        parts: dict[str, Callable[[Message], Any]] = {
            "key": self._key_part(options.key_format),
            "topic": Message.topic,
            "partition": Message.partition,
            "offset": Message.offset,
            "timestamp": _milliseconds,
            "headers": _headers,
            "deleted": _is_tombstone,
        }
        self._parts = [parts[name] for name in options.more]

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

    def read(self, messages: Sequence[Message]) -> list[Run]:
        """Read messages, in their order. What can't be read is for the stream `errors`.

        Args:
            messages: Without errors of the client.

        Raises:
            ServiceUnavailable: What a format needs is away. Read them again later.
        """
        decoded = self._values(messages)
        for part in self._parts:
            for i, message in enumerate(messages):
                if isinstance(values := decoded[i], list):
                    try:
                        values.append(part(message))
                    except BaseException as error:  # noqa: BLE001 (of any decoder)
                        decoded[i] = unread(error)
        # None, by its types, but only where the client has an error
        ids: list[Any] = [(message.partition(), message.offset()) for message in messages]
        runs, first = [], 0
        for at in [i for i, values in enumerate(decoded) if not isinstance(values, list)]:
            runs.append(Run(DEFAULT_STREAM, decoded[first:at], ids[first:at]))
            if decoded[at] is None:
                runs.append(Run(DROPPED, [], [ids[at]]))
            else:
                refused = [messages[at].value(), str(decoded[at]), self.position(*ids[at])]
                runs.append(Run(ERRORS_STREAM, [refused], [ids[at]]))
            first = at + 1
        runs.append(Run(DEFAULT_STREAM, decoded[first:], ids[first:]))
        return [run for run in runs if run.ids]

    def _values(self, messages: Sequence[Message]) -> list[Any]:
        """The values of each message, Malformed, or None if it is left out."""
        data = [message.value() for message in messages]
        decoded = self._decode_each([one for one in data if one is not None])
        if len(decoded) == len(data):
            return decoded
        if not self._is_told:
            self._is_told, first = True, messages[data.index(None)]
            self.notice = (
                f"{self._topic}[{first.partition()}]@{first.offset()} has no value: it is a"
                " tombstone, which deletes its key. It is emitted with null in all fields of the"
                " format. Write `tombstones: deleted` to have a field that says so, for"
                " `deletedField` of a sink; or `drop`, or `values` if this is right"
            )
        values, drops = iter(decoded), self._tombstones == "drop"
        return [
            next(values) if one is not None else None if drops else self._nulls.copy()
            for one in data
        ]

    def tell(self, report: Callable[[str], object]) -> None:
        """Report what is to be reported."""
        if self.notice:
            report(self.notice)
            self.notice = ""

    def position(self, partition: int, offset: int) -> str:
        """The place of a message, for people: `orders[3]@1207`."""
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


def _is_tombstone(message: Message) -> bool:
    return message.value() is None


def _headers(message: Message) -> list[Any]:
    return list(message.headers() or [])


def traceparents_of(messages: Sequence[Message]) -> Mapping[Any, str]:
    """The W3C header of each message that is part of a trace, by the message's id."""
    traceparents = {}
    for message in messages:
        with IGNORED:  # it belongs to none, then
            value = dict(message.headers() or ()).get(TRACEPARENT)
            if value is not None:
                text = value if isinstance(value, str) else value.decode("latin-1")
                traceparents[message.partition(), message.offset()] = text
    return traceparents
