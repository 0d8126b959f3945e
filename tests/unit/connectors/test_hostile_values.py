"""Values that a sink's code stumbles over: only their own rows fail, and none stops a batch."""

from datetime import datetime, tzinfo
from decimal import Decimal

import numpy as np
import pytest
from pydantic import TypeAdapter

from fulmen.api import Rows
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.files.contents import content_of
from fulmen.connectors.files.options import FileSinkOptions
from fulmen.connectors.formats import MessageFormatOptions, encode_each
from fulmen.connectors.http import sink as http_sink
from fulmen.connectors.http.sink_options import HttpSinkOptions
from fulmen.connectors.kafka import KafkaSinkOptions
from fulmen.connectors.kafka import sink as kafka_sink
from fulmen.connectors.postgres.texts import Column, texts
from fulmen.connectors.rabbitmq import sink as rabbit_sink
from fulmen.connectors.rabbitmq.options import RabbitSinkOptions
from fulmen.connectors.redis.commands import commands
from fulmen.connectors.redis.options import RedisSinkOptions
from fulmen.connectors.sqlite.values import values_of

FIELDS = ("x",)
PARQUET = ("int32", "int64", "float64", "string", "timestamp", "decimal(5, 2)")
POSTGRES = ("text", "number", "bytes", "json", "array", "other")


class Unsaid:
    """Nobody can say what it is."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Nowhere(tzinfo):
    """A time zone of an author's, with a fault."""

    def utcoffset(self, _):
        raise RuntimeError("no offset")


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


HOSTILE = {
    "not-a-number-that-signals": Decimal("sNaN"),
    "more-than-a-float": 10**400,
    "more-digits-than-python-writes": 10**5000,
    "years-without-a-length": np.timedelta64(5, "Y"),
    "no-text": Unsaid(),
    "no-offset": datetime(2030, 1, 1, tzinfo=Nowhere()),
    "deep": nested(100_000),
}


def of_rows(encode):
    """Refused rows of a sink that encodes one after another."""

    def failed(values):
        rows = Rows(FIELDS, [[value] for value in values])
        encode_each(rows, encode)
        return rows.failed

    return failed


def of_columns(encode):
    """The same of one that encodes columns."""

    def failed(values):
        rows = Rows(FIELDS, [[value] for value in values])
        assert len(encode(values, rows.fail)) == len(values)
        return rows.failed

    return failed


def encoders():
    """What makes bytes or values for every sink, and a value that it takes."""
    for form in ({"type": "json"}, {"type": "csv"}, {"type": "text", "field": "x"}):
        options = TypeAdapter(MessageFormatOptions).validate_python(form)
        yield form["type"], of_rows(options.make().encoder(FIELDS)), "a"
    for kind in PARQUET:
        form = {"type": "parquet", "columns": {"x": kind}}
        content = content_of(FileSinkOptions(path="x", format=form))
        yield f"parquet-{kind}", of_rows(content.encoder(FIELDS)), None
    yield "sqlite", of_columns(lambda values, fail: values_of("x", values, fail)), 1
    for kind in POSTGRES:
        column = Column("x", "text", kind)
        yield f"postgres-{kind}", of_columns(lambda v, fail, c=column: texts(c, v, fail)), None
    yield "postgres-numeric", of_columns(lambda v, f: texts(Column("x", "x", "number"), v, f)), 1
    redis = RedisSinkOptions.model_validate({"url": "redis://h", "type": "stream", "key": "{x}"})
    yield "redis", of_rows(commands(redis, FIELDS)), 1
    for part in ("topic", "key", "partition", "timestamp", "headers"):
        yield f"kafka-{part}", of_rows(kafka_encoder(part)), None
    http = {"url": "http://h/{x}?x={x}", "headers": {"X": "{x}"}, "orderBy": ["x"]}
    options = HttpSinkOptions.model_validate(http | {"idempotencyKey": "{x}"})
    encode = options.format.make().encoder(FIELDS)
    yield "http", of_rows(http_sink._encoder(options, encode, FIELDS)), 1
    rabbit = {"url": "amqp://h", "format": {"type": "json"}, "headers": ["x"]}
    options = RabbitSinkOptions.model_validate(rabbit)
    yield "rabbitmq", of_rows(rabbit_sink._encoder(options, options.format.make(), FIELDS)), 1


def kafka_encoder(part):
    """What makes messages of rows of which a part is a field."""
    options = {"bootstrap.servers": "h:1", "topic": "t", "format": {"type": "json"}}
    options = KafkaSinkOptions.model_validate(options | {f"{part}Field": "x"})
    encode = kafka_sink._Encoder(options, ("x", "y"), options.format.make(), None)
    return lambda values: encode([*values, "message"])


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("failed", "good"), [pytest.param(*how, id=name) for name, *how in encoders()]
)
def test_a_value_that_nothing_can_be_made_of_fails_its_own_row_at_most(failed, good, hostile):
    found = failed([good, hostile, good])
    assert found.keys() <= {1}
    assert all(len(reason) < 1000 and reason for reason in found.values())


def test_a_message_of_which_no_field_is_left_is_an_empty_object():
    options = {"bootstrap.servers": "h:1", "topic": "t", "topicField": "x"}
    options = KafkaSinkOptions.model_validate(options | {"format": {"type": "json"}})
    encode = kafka_sink._Encoder(options, FIELDS, options.format.make(), None)
    assert encode(["orders"]) == kafka_sink.ProducedRow("orders", b"{}")


@pytest.mark.parametrize("away", [ServiceUnavailable("Registry", "x"), ConnectionError("x")])
def test_what_is_away_while_rows_are_encoded_is_no_fault_of_theirs(away):
    def encode(_):
        raise away

    with pytest.raises(type(away)):
        of_rows(encode)([1])


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("partition", 2**31, "a partition must be an integer from 0 to 2147483647, not 2147483648"),
        ("timestamp", 2**63, "a timestamp must be an integer from 1 to 9223372036854775807, not"),
        ("topic", "a\0b", "there can be no topic of the name 'a\\x00b'"),
        ("topic", "\ud800", "there can be no topic of the name '\\ud800'"),
        ("topic", "", "there can be no topic of the name ''"),
        ("headers", {"a\0b": 1}, "headers: the name 'a\\x00b' has the character NUL"),
    ],
)
def test_what_the_client_of_kafka_cannot_take_is_refused_before(part, value, reason):
    found = of_rows(kafka_encoder(part))([None, value])
    assert found.keys() == {1}
    assert found[1].startswith(reason)
