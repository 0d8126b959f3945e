"""From every source to every sink: what a source can emit, each sink can write, by one rule.

The pairs are made here. A source is what it makes of what its system has, and a sink is what it
makes of values before it sends them: neither needs the system.
"""

import importlib
import inspect
import io
import pkgutil
import sqlite3
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache

import fastavro
import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Message
from pika.data import encode_table
from psycopg import pq

import fulmen.connectors
from fulmen.api import JSON_NULL, Rows, Sink
from fulmen.connectors.files.columns import column
from fulmen.connectors.files.contents import content_of
from fulmen.connectors.files.options import FileSinkOptions, FileSpoutOptions
from fulmen.connectors.formats import DEFAULT, Malformed
from fulmen.connectors.http import sink as http_sink
from fulmen.connectors.http.sink_options import HttpSinkOptions
from fulmen.connectors.kafka import KafkaSinkOptions, KafkaSpoutOptions
from fulmen.connectors.kafka import sink as kafka_sink
from fulmen.connectors.kafka.reading.messages import MessageReader
from fulmen.connectors.postgres.loading import cursor_of
from fulmen.connectors.postgres.texts import Column, text_of
from fulmen.connectors.rabbitmq import sink as rabbit_sink
from fulmen.connectors.rabbitmq.options import RabbitSinkOptions
from fulmen.connectors.redis.commands import commands
from fulmen.connectors.redis.options import RedisSinkOptions
from fulmen.connectors.sqlite.values import values_of

ERRORS = [b"broken", b"\xff", "it is not JSON", "orders[3]@17"]
"""What the stream `errors` of every source has."""
TEXTS = ["text", "", "a,b\r\n\"'", "\ufeff\0", "18446744073709551616", "NA"]


def decoded(form, *messages):
    made = FileSpoutOptions(path="x", format=form).format.make()
    return [value for data in messages for value in made.decode(data)]


def of_formats():
    """What messages and lines are."""
    json = b'{"v": [null, true, 1, 18446744073709551616, 1e300, "a", {"b": [1.5]}]}'
    types = {
        "string": b"a",
        "binary": b"a",
        "base64": b"/w==",
        "bool": b"true",
        "int32": b"1",
        "int64": b"1",
        "integer": b"18446744073709551616",
        "float32": b"0.5",
        "float64": b"NaN",
        "decimal": b"1.10",
        "date32": b"2026-01-31",
        "time": b"12:30:00",
        "timestamp": b"2026-01-31T12:00:00Z",
        "duration": b"PT1H",
        "json": b"[1]",
        "uuid": b"00000000-0000-0000-0000-000000000007",
    }
    text = [text.encode() for text in TEXTS]
    yield from decoded({"type": "text"}, *text)
    yield from decoded({"type": "bytes"}, b"\xff", *text)
    yield from decoded({"type": "json", "fields": ["v"]}, json, b"{}")
    yield from decoded({"type": "json"}, json, b"null", b"1.5", b'"a"')
    for name, data in types.items():
        yield from decoded({"type": "csv", "fields": {"v": name}, "nulls": [""]}, data)


def of_avro():
    kinds = ["null", "boolean", "long", "double", "string", "bytes"]
    logical = [("int", "date"), ("long", "timestamp-micros"), ("long", "time-micros")]
    fields = [
        *kinds,
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "string", "logicalType": "uuid"},
        *({"type": kind, "logicalType": name} for kind, name in logical),
        {"type": "array", "items": "bytes"},
        {"type": "map", "values": "long"},
        {"type": "enum", "name": "E", "symbols": ["A"]},
    ]
    values = [None, True, 2**62, float("nan"), "a", b"\xff", Decimal("1.10"), UUID_TEXT]
    values += [date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC), time(12), [b"a"], {"a": 1}]
    for schema, value in zip(fields, [*values, "A"], strict=True):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
        body.seek(0)
        yield fastavro.schemaless_reader(body, fastavro.parse_schema(schema), None)


UUID_TEXT = "00000000-0000-0000-0000-000000000007"


def of_kafka():
    config = {"bootstrap.servers": "broker:9092", "topic": "orders", "keyFormat": "bytes"}
    parts = ["key", "topic", "partition", "offset", "timestamp", "headers"]
    reader = MessageReader(KafkaSpoutOptions.model_validate({**config, "include": parts}))
    headers = [("trace", b"4bf9"), ("odd", b"\xff"), ("none", None)]
    more = {"key": b"\xff", "headers": headers, "timestamp": (1, 5)}
    sent = Message(topic="orders", partition=2, offset=7, value=b"a", **more)
    [run] = reader.read([sent])
    yield from run.rows[0]


def of_rabbitmq():
    table = {
        "n": 2**62,
        "amount": Decimal("1.10"),
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "raw": b"\xff",
    }
    yield {**table, "list": [1, None, {"a": True}], "ratio": 0.5}  # the property `headers`
    yield from ["id", 1, True, None]


def of_sqlite():
    with sqlite3.connect(":memory:") as db:
        return db.execute("SELECT NULL, 9223372036854775807, 0.5, 9e999, 'a', x'ff00'").fetchone()


OF_POSTGRES = {
    "bool": "t",
    "int8": "9223372036854775807",
    "float8": "NaN",
    "numeric": "1.10",
    "text": "a",
    "varchar": "a",
    "bytea": r"\xff00",
    "json": '{"a": [1.5, null]}',
    "jsonb": '"a"',
    "date": "2026-01-31",
    "time": "12:30:00",
    "timetz": "12:30:00+01",
    "timestamp": "2026-01-31 12:00:00",
    "timestamptz": "2026-01-31 12:00:00+00",
    "interval": "1 day 02:00:00",
    "uuid": UUID_TEXT,
    "inet": "127.0.0.1/8",
    "cidr": "10.0.0.0/8",
    "int4range": "[1,5)",
    "datemultirange": "{[2026-01-01,2026-01-31)}",
    "oid": "7",
    "daterange": "empty",
    "macaddr": "08:00:2b:01:02:03",
    "xml": "<a/>",
    "point": "(1,2)",
}


def of_postgres():
    """As its sources load what the server sends; a connection is only asked for its encoding."""

    class Connection:
        pgconn = None
        adapters = psycopg.adapters

    cursor = psycopg.Cursor.__new__(psycopg.Cursor)
    cursor._adapters = psycopg.adapt.AdaptersMap(psycopg.adapters)
    adapters = cursor_of(type("Db", (), {"cursor": lambda self: cursor})()).adapters
    for name, text in OF_POSTGRES.items():
        kind = psycopg.adapters.types.get(name)
        oid = kind.oid if kind else 0
        loader = adapters.get_loader(oid, pq.Format.TEXT) or adapters.get_loader(0, pq.Format.TEXT)
        yield loader(oid, None).load(text.encode())
    yield JSON_NULL
    for name, text in [("numeric", "{1.10,NULL}"), ("text", '{a,"b c"}'), ("uuid", "{}")]:
        oid = psycopg.adapters.types[name].array_oid
        transformer = psycopg.adapt.Transformer()
        yield transformer.get_loader(oid, pq.Format.TEXT).load(text.encode())


def of_parquet():
    values = [1, 0.5, "a", b"\xff", True, None, date(2026, 1, 31), time(12), timedelta(1)]
    values += [Decimal("1.10"), datetime(2026, 1, 31, tzinfo=UTC), [1], {"a": 1}, float("nan")]
    for value in values:
        yield pa.array([value]).to_pylist()[0]


def made_up():
    yield from [
        1,
        0.5,
        "a",
        True,
        None,
        date(2026, 1, 31),
        datetime(2026, 1, 31, tzinfo=UTC),
        [1],
        {"a": 1},
    ]


def lines():
    return [*of_formats(), "a path"]


SOURCES = {
    "console.ClockSpout": made_up,
    "console.GeneratorSpout": made_up,  # `choice` has any values of YAML
    "console.StdinSpout": of_formats,
    "files.FileSpout": lines,
    "files.OpaqueTransactionalFileSpout": lines,
    "files.ParquetSpout": of_parquet,
    "files.TransactionalFileSpout": lines,
    "http.CallSpout": lambda: ["a call", *of_formats()],
    "http.HttpSpout": lambda: [*of_formats(), {"accept": "*/*"}, datetime(2026, 1, 31, tzinfo=UTC)],
    "kafka.KafkaSpout": lambda: [*of_formats(), *of_avro(), *of_kafka()],
    "kafka.OpaqueTransactionalKafkaSpout": of_kafka,
    "kafka.TransactionalKafkaSpout": of_kafka,
    "postgres.PostgresQuerySpout": of_postgres,
    "postgres.PostgresQueueSpout": of_postgres,
    "rabbitmq.RabbitSpout": lambda: [*of_formats(), *of_avro(), *of_rabbitmq()],
    "redis.RedisListSpout": of_formats,
    "redis.RedisStreamSpout": lambda: [*of_formats(), "1-0"],
    "sqlite.SqliteQuerySpout": of_sqlite,
}


def is_nan(value):
    return isinstance(value, float | Decimal) and value != value


def json(value):
    return b'{"v":' + DEFAULT.dumps(value) + b"}"


def text(value):
    return DEFAULT.text(value).encode()


def document(value):
    return None if value is None else DEFAULT.dumps(value).decode()


def kept(value):
    """Bytes as they are, and all else as text."""
    return value if isinstance(value, bytes) else text(value)


def lines_of(form):
    content = content_of(FileSinkOptions(path="x", format=form))
    encode = content.encoder(["v"])
    return lambda value: content.file([content.chunk([encode([value])])])


def kafka(**config):
    given = {"bootstrap.servers": "broker:9092", "topic": "t", "format": {"type": "json"}, **config}
    options = KafkaSinkOptions.model_validate(given)
    encoder = kafka_sink._Encoder(options, ["v"], options.format.make(), None)
    return lambda value: kafka_sink.ProducedRow(*encoder([value]))


def rabbit(value):
    options = RabbitSinkOptions(url="amqp://x", headers=["v"], format={"type": "json"})
    return rabbit_sink._encoder(options, options.format.make(), ["v"])([value])


def http(value):
    options = HttpSinkOptions(url="http://h/")
    return http_sink._encoder(options, options.format.make().encoder(["v"]), ["v"])([value]).body


def redis(kind, **config):
    command = commands(RedisSinkOptions(url="redis://x", type=kind, key="k", **config), ["v"])
    return lambda value: command([value])


def sqlite(value):
    rows = Rows(("v",), [[value]])
    [found] = values_of("v", [value], rows.fail)
    if rows.failed:
        raise Malformed(rows.failed[0])
    with sqlite3.connect(":memory:") as db:
        return db.execute("SELECT ?", [found]).fetchone()[0]


def postgres(name, kind):
    return lambda value: text_of(Column("v", name, kind), value)


SINKS = {
    "console.StdoutSink": [("json", lines_of({"type": "json"}), lambda v: json(v) + b"\n")],
    "console.TableSink": [("", str, str)],
    "files.FileSink": [
        ("json", lines_of({"type": "json"}), lambda v: json(v) + b"\n"),
        ("csv", lines_of({"type": "csv"}), None),
        ("parquet", column("string"), lambda v: None if v is None else DEFAULT.text(v)),
    ],
    "files.RollingFileSink": [("json", lines_of({"type": "json"}), lambda v: json(v) + b"\n")],
    "http.HttpSink": [("json", http, json)],
    "kafka.KafkaSink": [
        ("json", lambda v: kafka()(v).value, json),
        ("key", lambda v: kafka(keyField="v")(v).key, lambda v: None if v is None else kept(v)),
        (
            "headers",
            lambda v: kafka_sink._headers([("v", v)]),
            lambda v: [("v", None if v is None else kept(v))],
        ),
    ],
    "postgres.PostgresSink": [
        ("text", postgres("text", "text"), lambda v: None if v is None else DEFAULT.text(v)),
        ("jsonb", postgres("jsonb", "json"), document),
    ],
    "rabbitmq.RabbitSink": [
        ("json", lambda v: rabbit(v)[-1], json),
        ("headers", lambda v: encode_table([], rabbit(v)[-2]), None),
    ],
    "redis.RedisSink": [
        ("set", redis("set", format={"type": "json"}), lambda v: (b"k", b"SADD", json(v))),
        ("hash", redis("hash"), lambda v: (b"k", b"HSET", b"v", kept(v))),
        ("stream", redis("stream"), lambda v: (b"k", b"XADD", b"*", b"v", kept(v))),
    ],
    "sqlite.SqliteSink": [("", sqlite, None)],
}
REFUSED = {
    "hash": lambda value: value is None,  # it would be an empty hash
    "stream": lambda value: value is None,
    "": lambda value: is_nan(value) or (isinstance(value, int) and abs(value) >= 2**63),
    "text": lambda value: value is not None and "\0" in DEFAULT.text(value),
}
"""What has no place there: the page of values says so."""


def classes(is_sink):
    for room in pkgutil.iter_modules(fulmen.connectors.__path__):
        module = importlib.import_module(f"fulmen.connectors.{room.name}")
        for name in getattr(module, "__all__", ()):
            one = getattr(module, name)
            if inspect.isclass(one) and not inspect.isabstract(one) and hasattr(one, "outputs"):
                writes = issubclass(one, Sink) or name.endswith("Sink")
                reads = hasattr(one, "next_tuple") or hasattr(one, "get_emitter")
                if writes if is_sink else reads:
                    yield f"{room.name}.{name}"


def test_every_source_and_every_sink_is_here():
    assert set(SOURCES) == set(classes(is_sink=False))
    assert set(SINKS) == set(classes(is_sink=True))


@cache
def values(source):
    return [*SOURCES[source](), *ERRORS]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sink", SINKS)
def test_what_a_source_emits_a_sink_writes_by_the_rule_for_its_kind(source, sink):
    for place, write, rule in SINKS[sink]:
        for value in values(source):
            if REFUSED.get(place, lambda _: False)(value) and sink != "console.TableSink":
                with pytest.raises(Malformed):
                    write(value)
                continue
            found = write(value)
            if rule is not None:
                assert found == rule(value), (place, value)


def test_headers_of_a_message_are_headers_of_another_one_also_by_way_of_json():
    *_, headers = of_kafka()
    assert kafka_sink._headers(headers) == headers
    read = decoded({"type": "json", "fields": ["v"]}, json([("trace", b"4bf9"), ("none", None)]))
    assert kafka_sink._headers(read[0]) == [("trace", b"4bf9"), ("none", None)]


def test_integers_of_rabbitmq_that_are_too_long_are_text():
    assert rabbit_sink._header("v", 2**63) == str(2**63)
    struct.pack(">q", rabbit_sink._header("v", 2**63 - 1))
