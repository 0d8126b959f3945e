"""Whatever decoding a message raises costs that message alone, in sources with real servers."""

import calendar
import json
import random
import sys
import zlib
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pika
import pytest
from psycopg.adapt import Loader

from fulmen.connectors.formats.plain import TextFormat
from fulmen.connectors.kafka import KafkaSpout, KafkaSpoutOptions, OpaqueTransactionalKafkaSpout
from fulmen.connectors.postgres import PostgresQuerySpout, PostgresQueueSpout
from fulmen.connectors.rabbitmq import RabbitSpout
from fulmen.connectors.redis import RedisListSpout, RedisStreamSpout
from fulmen.services.pools import close_all
from support.connectors.sql_sources import Task
from support.lives.source_life import SourceLife
from support.lives.spout_lives import SpoutLife
from support.parts.raising_decoders import RAISED, is_marked, marked, put_in, raising
from support.servers.postgres_target import Target
from support.transactions.lives import TransactionalLife


@pytest.fixture
def name(request):
    return f"own-{zlib.crc32(request.node.name.encode()):x}"


@pytest.fixture
def texts():
    found = [*map(marked, range(len(RAISED))), *(f"good {i}" for i in range(50))]
    random.Random(5).shuffle(found)
    return found


@pytest.fixture
def decoder(monkeypatch):
    put_in(monkeypatch, raising(TextFormat.decode))


def streams(texts):
    """What is emitted of them: the stream, and the message in bytes."""
    return sorted(("errors" if is_marked(t) else "default", t.encode()) for t in texts)


def emitted(rows):
    """The same of (stream, values)."""
    made = ((stream, values[0]) for stream, values in rows)
    return sorted((stream, v if isinstance(v, bytes) else v.encode()) for stream, v in made)


def test_messages_of_kafka(kafka, name, texts, decoder):
    kafka.make_topic(name)
    kafka.produce(name, [text.encode() for text in texts])
    given = {"bootstrap.servers": kafka.address, "topic": name}
    life = SpoutLife(KafkaSpout, KafkaSpoutOptions.model_validate(given))
    try:
        life.until_emitted(len(texts))
    finally:
        life.close()
    assert emitted((stream, values) for values, stream, _ in life.emitted) == streams(texts)
    assert [at for _, _, (_, at) in life.emitted] == list(range(len(texts)))


def test_messages_of_kafka_in_transactions(kafka, name, texts, decoder):
    kafka.make_topic(name)
    kafka.produce(name, [text.encode() for text in texts])
    given = {"bootstrap.servers": kafka.address, "topic": name}
    life = TransactionalLife(OpaqueTransactionalKafkaSpout, given)
    try:
        assert emitted(life.until_emitted(len(texts))) == streams(texts)
    finally:
        life.close()


def all_of(life):
    """All that a source emits, each acked."""
    life.start()
    try:
        while not life.processed or life.pending:
            life.turn()
            life.commit(acked=[*life.pending])
        life.turn()
    finally:
        life.close()
    assert not [error for error in life.errors if isinstance(error, BaseException)]
    return emitted(life.processed)


@pytest.mark.parametrize("kind", [RedisListSpout, RedisStreamSpout])
def test_messages_of_redis(redis_server, name, texts, decoder, kind):
    options = {"url": redis_server.url, "key": name}
    with redis_server.client() as client, client.pipeline() as pipe:
        for text in texts:
            if kind is RedisStreamSpout:
                pipe.xadd(name, {"value": text})
            else:
                pipe.rpush(name, text)
        pipe.execute()
    more = {"group": "g"} if kind is RedisStreamSpout else {}
    assert all_of(SourceLife(kind, options | more)) == streams(texts)


def test_messages_of_rabbitmq(rabbit_server, name, texts, decoder):
    with rabbit_server.channel() as channel:
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True)
        for text in texts:
            properties = pika.BasicProperties(message_id=text)
            channel.basic_publish("", name, text.encode(), properties)
    life = SourceLife(RabbitSpout, {"url": rabbit_server.url, "queue": name})
    life.start()
    try:
        while len(life.processed) < len(texts):
            life.turn()
            life.commit(acked=[*life.pending])
    finally:
        life.close()
    assert life.errors == []
    assert emitted(life.processed) == streams(texts)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_message_of_rabbitmq_whose_headers_cannot_be_read(rabbit_server, name, wanted):
    late = datetime(9999, 1, 1, tzinfo=UTC)
    deep = {}
    for _ in range(2000):
        deep = {"a": deep}
    with rabbit_server.channel() as channel:
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True)
        for i, headers in enumerate([{"n": 1}, {"at": late}, deep, None, {"n": 2}]):
            properties = pika.BasicProperties("text/plain", message_id=str(i), headers=headers)
            with deeply_encoded():
                channel.basic_publish("", name, b"%d" % i, properties)
    properties = ["message_id", *(["headers"] if wanted else [])]
    life = SourceLife(
        RabbitSpout, {"url": rabbit_server.url, "queue": name, "properties": properties}
    )
    life.start()
    try:
        while len(life.processed) < 5:
            life.turn()
            life.commit(acked=[*life.pending])
    finally:
        life.close()
    assert life.errors == []
    found = {values[0]: (stream, values) for stream, values in life.processed}
    if not wanted:
        assert found == {str(i): ("default", [str(i), str(i)]) for i in range(5)}
        return
    assert found["4"] == ("default", ["4", "4", {"n": 2}])
    assert found["3"] == ("default", ["3", "3", None])
    for i, said in ((b"1", "ValueError"), (b"2", "RecursionError")):
        stream, (_, reason, where) = found[i]
        assert (stream, where) == ("errors", f"{name}: {i.decode()}")
        assert reason.startswith(f"its headers can't be read: reading it raised {said}")


@contextmanager
def deeply_encoded():
    """pika can write what it can't read: tables in tables, and times far away."""
    limit, plain = sys.getrecursionlimit(), calendar.timegm
    sys.setrecursionlimit(10_000)
    pika.data.calendar = SimpleNamespace(
        timegm=lambda t: 1_700_000_000_000 if t[:3] == (9999, 1, 1) else plain(t)
    )
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        pika.data.calendar = calendar


class Raising(Loader):
    """Reads values of the type `name`."""

    load = raising(lambda _, data: bytes(data).decode(), lambda data: bytes(data).decode())


QUEUE = ", claimed_by text, claimed_until timestamptz"
KINDS = {PostgresQuerySpout: {"column": "id", "delay_seconds": 0}, PostgresQueueSpout: {}}
DEEP = "[" * 3000 + "]" * 3000
LONG = "9" * 5000


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_postgresql(postgres, monkeypatch, texts, kind):
    target = Target(postgres)
    target.run(f"CREATE TABLE t (id serial PRIMARY KEY, word name, doc jsonb{QUEUE})")
    docs = [DEEP, LONG, *map(str, range(2, len(texts)))]
    rows = ", ".join(f"('{row[0]}', '{row[1]}')" for row in zip(texts, docs, strict=True))
    target.run(f"INSERT INTO t (word, doc) VALUES {rows}")
    module = f"{kind.__module__}.cursor_of"
    plain = __import__(kind.__module__, fromlist=["cursor_of"]).cursor_of

    def cursor_of(db):
        cursor = plain(db)
        cursor.adapters.register_loader("name", Raising)
        return cursor

    monkeypatch.setattr(module, cursor_of)
    how = {"dsn": target.dsn, "table": "t", "fields": ["word", "doc"], "follow": False}
    one = Task(kind, **how, **KINDS[kind])
    try:
        one.until_exhausted(room=20)
    finally:
        close_all()
    words = {values[0] for values in one.acked if len(values) == 2}
    told = {
        json.loads(values[0], parse_int=str)["word"] for values in one.acked if len(values) == 3
    }
    assert words | told == set(texts)
    assert told >= {text for text in texts if is_marked(text)}
    assert told <= {text for text in texts if is_marked(text)} | set(texts[:2])
    assert set(one.acked.values()) == {1}
