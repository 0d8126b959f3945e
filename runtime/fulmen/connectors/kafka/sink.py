"""A topic as a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from confluent_kafka import Consumer, KafkaException
from typing_extensions import override

from fulmen.api.components.sinks import Mark, Rows, ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.base.retractions import retraction_warnings
from fulmen.connectors.base.sink import MessageSink
from fulmen.connectors.formats import (
    BytesOptions,
    Format,
    Malformed,
    Rowlike,
    TextOptions,
    as_bytes,
    checked_text,
    named,
)
from fulmen.connectors.formats.base import is_deletion, refused
from fulmen.connectors.kafka.options import TRACEPARENT, KafkaSinkOptions
from fulmen.connectors.kafka.writing.producing import (
    PLAIN,
    Limits,
    ProducedRow,
    RefusedRow,
    RowDelivery,
    Sending,
    reason_of_refusal,
)
from fulmen.connectors.kafka.writing.transactions import KafkaTransactions
from fulmen.errors import repr_of

AT_ONCE = 50
"""After so many messages that are sent one by one, those that are too large are known."""
Values = Sequence[Any]
Part = Callable[[Values], Any]


class KafkaSink(MessageSink):
    """Writes rows to a topic, at least once or exactly once.

    `at-least-once` uses the idempotent producer, and waits until all replicas have the messages.
    `exactly-once` uses transactions: readers need `isolation.level: read_committed`.
    """

    config_model = KafkaSinkOptions
    _is_compacted: bool | None

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str | Warning]:
        missing = refused(lambda: _places(options, stream.fields))
        names = tuple(stream.fields[i] for i in _kept(options, stream.fields))
        types = {name: stream.types[name] for name in names if name in stream.types}
        # without deletedField a topic is a log of all changes
        keys = [options.key_field] if options.deleted_field is not None else []
        return [
            *missing,
            *options.format.mistakes(Stream(names, types=types)),
            *retraction_warnings(stream, keys, options.deleted_field),
        ]

    @property
    @override
    def appends(self) -> bool:
        return self._options.key_field is None  # else the topic may be compacted

    @property
    @override
    def key_fields(self) -> Sequence[str]:
        of = self._options
        if of.key_field is None or of.topic_field is not None:
            return ()
        if self._is_compacted is None:
            self._is_compacted = self._brokers.is_compacted(of.topic)
        named = (of.key_field, of.partition_field) if self._is_compacted else ()
        return [name for name in named if name is not None]

    @override
    def deletion(self, item: Sequence[Any]) -> Sequence[Any]:
        return tuple(ProducedRow(*item)._replace(value=None, headers=None))

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options: KafkaSinkOptions = context.options
        self._options = options
        self._brokers = options.brokers()
        values, keys = options.formats()
        self._format = values.make()
        self._key_format = keys.make() if keys is not None else None
        self._is_compacted = None  # it is asked for when it matters
        self.look_at_inputs(context)
        self._deliveries: dict[Sending, RowDelivery] = {}
        self._transactions = KafkaTransactions(self._brokers, options.topic)
        probe = self._brokers.make(Consumer, group_id="fulmen")
        try:
            self._brokers.metadata(probe, options.topic)
        finally:
            probe.close()

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        items = super().encode(rows)
        return with_traces(items, rows) if rows.traceparents else items

    @override
    def encoder(self, fields: tuple[str, ...]) -> _Encoder:
        return _Encoder(self._options, fields, self._format, self._key_format)

    @override
    def describe(self, item: Sequence[Any]) -> Mapping[str, Any]:
        return ProducedRow(*item).described()

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        try:
            if mark is not None:
                self._transactions.write(rows, mark)
            else:
                self._write(rows)
        except KafkaException as error:
            raise self._unavailable(error) from None

    def _write(self, rows: Rows) -> None:
        try:
            refused = self._written(rows)
        except BaseException:
            self._drop()
            raise
        for i, refusal in sorted(refused.items()):
            rows.fail(i, reason_of_refusal(refusal.code, rows[i]))

    def _written(self, rows: Rows) -> dict[int, RefusedRow]:
        """Write together what may be written together, and one by one what is suspect."""
        refused: dict[int, RefusedRow] = {}
        brokers = self._brokers
        limits = Limits(rows, compresses=brokers.compresses, is_compacted=brokers.is_compacted)
        left: Sequence[int] = range(len(rows))
        while left:
            unwritten = self._delivery(Sending.TOGETHER).write(rows, left)
            refused |= {i: of for i, of in unwritten.items() if of.is_exact}
            suspects = sorted(i for i, of in unwritten.items() if of.is_suspect)
            refused |= self._refused_among(suspects, rows, limits)
            left = sorted(unwritten.keys() - refused.keys() - {*suspects})
        return refused

    def _refused_among(
        self, suspects: Sequence[int], rows: Rows, limits: Limits
    ) -> dict[int, RefusedRow]:
        """Write these one by one."""
        refused: dict[int, RefusedRow] = {}
        for first in range(0, len(suspects), AT_ONCE):
            beyond = limits.beyond(suspects[first : first + AT_ONCE])
            some = [i for i in suspects[first : first + AT_ONCE] if i not in beyond]
            unwritten = self._delivery(Sending.ONE_BY_ONE).write(rows, some)
            limits.learn(unwritten)
            refused |= unwritten | beyond
        return refused

    def _delivery(self, sending: Sending) -> RowDelivery:
        if sending not in self._deliveries:
            topic = self._options.topic
            self._deliveries[sending] = RowDelivery(self._brokers, topic, sending)
        return self._deliveries[sending]

    def _unavailable(self, error: KafkaException) -> ServiceUnavailable:
        told = self._brokers.about(error.args[0], self._options.topic)
        return self._brokers.unavailable(told)

    def _drop(self) -> None:
        for delivery in self._deliveries.values():
            delivery.drop()
        self._deliveries = {}

    @override
    def cleanup(self) -> None:
        self._drop()
        self._transactions.drop()


def with_traces(items: Sequence[Any], rows: Rows) -> Sequence[Any]:
    """Write the trace into the headers of traced messages, in place of one that is there."""
    traced = list(items)
    for i, traceparent in rows.traceparents.items():
        if i not in rows.failed:
            message = ProducedRow(*traced[i])
            others = [pair for pair in message.headers or () if pair[0] != TRACEPARENT]
            mark = TRACEPARENT, traceparent.encode()
            traced[i] = tuple(message._replace(headers=[*others, mark]))
    return traced


class _Encoder:
    """Makes messages of rows that have certain fields."""

    def __init__(
        self,
        options: KafkaSinkOptions,
        fields: Sequence[str],
        form: Format,
        key_form: Format | None,
    ) -> None:
        """Look for what the options name.

        Raises:
            Malformed: A field is missing.
            ServiceUnavailable: What a format needs is away.
        """
        self._topic = options.topic
        at = _places(options, fields)
        one = _one_value(options)
        kept = _kept(options, fields)
        names = [fields[i] for i in kept]
        encode = form.encoder(names)
        only = None if one is None else kept[0 if len(kept) == 1 else names.index(one.field)]

        def value(values: Values) -> bytes | None:
            if only is not None and values[only] is None:
                return None  # with the formats of one value, null makes a message without a value
            return encode([values[i] for i in kept])

        self._value = value
        is_whole = only is None and kept == [*range(len(fields))]
        self._values = form.encoder_of_many(names) if is_whole else partial(map, value)
        made = _PARTS
        if key_form is not None and options.key_field is not None:
            encode_key = key_form.encoder([options.key_field])
            made = _PARTS | {"key": named("the key", lambda value: encode_key([value]))}
        self._deleted = options.deleted_field or ""
        self._deleted_at = at.pop("deleted", None)
        self._parts = [(part, i, made[part]) for part, i in at.items()]
        self._has_plain_keys = made is _PARTS

    def __call__(self, values: Values) -> tuple[Any, ...]:
        """Encode one message: a ProducedRow, as a plain tuple.

        Raises:
            Malformed: The row can't be one.
        """
        row = {part: made(values[i]) for part, i, made in self._parts if values[i] is not None}
        at = self._deleted_at
        if at is not None and is_deletion(self._deleted, values[at]):
            if "key" not in row:
                raise Malformed("the row deletes a key, and has none")
            return tuple(ProducedRow(**{"topic": self._topic, "value": None, **row}))
        value = self._value(values)
        return tuple(ProducedRow(**{"topic": self._topic, "value": value, **row}))

    def each(self, rows: Rowlike) -> list[tuple[Any, ...]]:
        """Encode messages that have nothing but a value and a key, which is text.

        Raises:
            BaseException: One of them is another case, or can't be a message.
        """
        if self._deleted_at is not None or any(part != "key" for part, _, _ in self._parts):
            raise Malformed("messages have other parts")
        keys: Iterable[bytes | None] = repeat(None)
        for _, i, _ in self._parts:
            texts = [values[i] for values in rows]
            if set(map(type, texts)) != {str} or not self._has_plain_keys:
                raise Malformed("there are other keys")
            keys = [text.encode() for text in texts]
        rest = map(repeat, PLAIN)
        return list(zip(repeat(self._topic), self._values(rows), keys, *rest, strict=False))


def _one_value(options: KafkaSinkOptions) -> TextOptions | BytesOptions | None:
    """The format, if it is one whose messages are one value."""
    return options.format if isinstance(options.format, TextOptions | BytesOptions) else None


def _fields_of(options: KafkaSinkOptions) -> Mapping[str, str | None]:
    """The field of each part of a message, but for the value."""
    return {
        "topic": options.topic_field,
        "key": options.key_field,
        "partition": options.partition_field,
        "timestamp": options.timestamp_field,
        "headers": options.headers_field,
        "deleted": options.deleted_field,
    }


def _places(options: KafkaSinkOptions, fields: Sequence[str]) -> dict[str, int]:
    """Find the positions of those fields.

    Raises:
        Malformed: One is missing.
    """
    places = {}
    for part, name in _fields_of(options).items():
        if name is not None and name not in fields:
            raise Malformed(f"`{part}Field` is {name!r}, but the fields are {list(fields)}")
        if name is not None:
            places[part] = fields.index(name)
    return places


def _kept(options: KafkaSinkOptions, fields: Sequence[str]) -> list[int]:
    """The positions of the value's fields: the key is part of a value that has names."""
    one = _one_value(options)
    beside = {name for part, name in _fields_of(options).items() if part != "key" or one}
    return [i for i, name in enumerate(fields) if name not in beside]


def _name_of_topic(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"a topic must be text, not {type(value).__name__}")
    if not value or not value.isascii() or "\0" in value:
        raise Malformed(f"there can be no topic of the name {repr_of(value, 50)}")
    return value


def _whole_number(what: str, least: int, most: int) -> Part:
    def checked(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            shown = repr_of(value, 50)
            raise Malformed(f"{what} must be an integer from {least} to {most}, not {shown}")
        return value

    return checked


def _headers(value: Any) -> list[tuple[str, bytes | None]]:
    try:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        return [
            (_name(name), None if content is None else as_bytes(content)) for name, content in pairs
        ]
    except Malformed as error:
        raise Malformed(f"headers: {error}") from None
    except (TypeError, ValueError) as error:
        raise Malformed("headers must be a mapping, or pairs of a name and a value") from error


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(name)
    if "\0" in name:  # the client would end it there
        raise Malformed(f"the name {repr_of(name, 50)} has the character NUL")
    return checked_text(name)


_PARTS: dict[str, Callable[[Any], Any]] = {
    "topic": _name_of_topic,
    "key": named("the key", as_bytes),
    "partition": _whole_number("a partition", 0, (1 << 31) - 1),
    "timestamp": _whole_number("a timestamp", 1, (1 << 63) - 1),  # 0 is now for the client
    "headers": _headers,
}
