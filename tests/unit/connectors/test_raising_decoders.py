"""Whatever decoding a message raises costs that message alone, in each source."""

import io
import random
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message

from fulmen.api import TopologyContext
from fulmen.connectors.console import GeneratorSpout, StdinSpout, generated
from fulmen.connectors.console.stdin import Lines
from fulmen.connectors.files import FileSpout, ParquetSpout
from fulmen.connectors.files.reading import line_spout
from fulmen.connectors.formats.plain import TextFormat
from fulmen.connectors.kafka import KafkaSpoutOptions
from fulmen.connectors.kafka.reading import messages as kafka_messages
from fulmen.connectors.kafka.reading.messages import MessageReader, traceparents_of
from fulmen.connectors.sql.source import SqlSource
from fulmen.connectors.sqlite import SqliteQuerySpout
from fulmen.services.pools import close_all
from support.connectors.file_spouts import SpoutLives
from support.connectors.sql_sources import Task
from support.parts.raising_decoders import RAISED, is_marked, marked, put_in, raising


@pytest.fixture
def texts():
    found = [*map(marked, range(len(RAISED))), *(f"good {i}" for i in range(200))]
    random.Random(5).shuffle(found)
    return found


@pytest.fixture
def decoder(monkeypatch):
    put_in(monkeypatch, raising(TextFormat.decode))


def split(texts):
    """Those that can be read, and the others."""
    return [t for t in texts if not is_marked(t)], [t for t in texts if is_marked(t)]


def test_lines_of_files(tmp_path, texts, decoder):
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n")
    life = SpoutLives(FileSpout, path=str(tmp_path / "a.txt"), follow=False)
    rng = random.Random(7)
    while life.batch(rng.randint(1, 40), acks=list(life.pending)) or life.pending:
        if rng.random() < 0.3:
            life.attempt(rng.randint(1, 40))
            life.start()
    good, bad = split(texts)
    assert [text for (text,) in life.values()] == good
    assert [data.decode() for data, _, _ in life.values("errors")] == bad


class Calm(FileSpout):
    """Has its next turn, as in the engine, whatever this one raises."""

    def next_tuple(self):
        try:
            return super().next_tuple()
        except MemoryError:
            return True


def test_a_file_whose_reading_raises_is_read_again_from_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(50)))
    rng, plain = random.Random(3), line_spout.blocks

    def blocks(*given, **more):
        for block in plain(*given, **more):
            for i in range(len(block)):
                if rng.random() < 0.1:
                    raise MemoryError
                yield block.part(i, i + 1)

    monkeypatch.setattr(line_spout, "blocks", blocks)
    life = SpoutLives(Calm, path=str(tmp_path / "a.txt"), follow=False)
    while not life.spout.is_exhausted() or life.pending:
        life.batch(rng.randint(1, 9), acks=list(life.pending))
    assert [int(text) for (text,) in life.values()] == list(range(50))


@pytest.mark.parametrize("at", range(0, len(RAISED), 20))
def test_a_file_of_parquet_of_which_a_part_can_not_be_read(tmp_path, monkeypatch, at):
    pq.write_table(pa.table({"n": list(range(50))}), tmp_path / "a.parquet", row_group_size=10)
    plain = pq.ParquetFile.iter_batches

    def batches(self, size, groups, columns):
        if groups == [2]:
            raise RAISED[at]()
        return plain(self, size, groups, columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", batches)
    life = SpoutLives(ParquetSpout, path=str(tmp_path / "a.parquet"), fields=["n"], follow=False)
    life.finish()
    assert [n for (n,) in life.values()] == [*range(20), *range(30, 50)]
    [(_, [_, reason, where])] = life.untracked
    assert where == f"{tmp_path}/a.parquet:20"
    assert reason.endswith("Its rows 20 to 29 are left out")


def test_lines_of_standard_input(monkeypatch, texts, decoder):
    lines = Lines(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr(TopologyContext, "shared", lambda self, name, make: lines)
    life = SpoutLives(StdinSpout)
    while not life.spout.is_exhausted() or life.pending:
        life.batch(acks=list(life.pending))
    good, bad = split(texts)
    assert [text for (text,) in life.values()] == good
    assert [data.decode() for data, _, _ in life.values("errors")] == bad


def test_messages_of_kafka_and_their_keys(monkeypatch, texts, decoder):
    plain = raising(lambda _, m: m.key().decode(), lambda m: m.key().decode())
    monkeypatch.setattr(kafka_messages, "_text_key", lambda message: plain(None, message))
    options = {"bootstrap.servers": "broker:9092", "topic": "t", "include": ["key"]}
    messages = [
        Message(topic="t", partition=0, offset=i, value=text.encode(), key=key.encode())
        for i, (text, key) in enumerate(zip(texts, reversed(texts), strict=True))
    ]
    runs = MessageReader(KafkaSpoutOptions.model_validate(options)).read(messages)
    found = {at: run.stream for run in runs for _, at in run.ids}
    assert found == {
        i: "errors" if is_marked(text) or is_marked(key) else "default"
        for i, (text, key) in enumerate(zip(texts, reversed(texts), strict=True))
    }


def test_a_message_of_kafka_whose_headers_can_not_be_read_belongs_to_no_trace():
    class Broken:
        def headers(self):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text")

    good = Message(topic="t", partition=0, offset=1, headers=[("traceparent", b"00-a-b-01")])
    assert traceparents_of([Broken(), good]) == {(0, 1): "00-a-b-01"}


def test_rows_of_sqlite(tmp_path, monkeypatch, texts):
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word)")
        db.executemany("INSERT INTO t (word) VALUES (?)", [(text,) for text in texts])
    typed = SqliteQuerySpout.check
    monkeypatch.setattr(SqliteQuerySpout, "check", raising(typed, lambda values: values[0]))
    monkeypatch.setattr(SqliteQuerySpout, "check_each", SqlSource.check_each)
    how = {"path": str(tmp_path / "a.db"), "table": "t", "column": "id", "fields": ["word"]}
    one = Task(SqliteQuerySpout, **how, follow=False)
    try:
        one.until_exhausted(room=30, is_lost=False)
    finally:
        close_all()
    good, bad = split(texts)
    assert sorted(values[0] for values in one.acked if len(values) == 1) == sorted(good)
    told = [values for values in one.acked if len(values) == 3]
    assert sorted(data for data, _, _ in told) == sorted(b'{"word":"%s"}' % t.encode() for t in bad)


def test_rows_that_are_made_up_are_made_again(monkeypatch):
    rng, plain = random.Random(2), generated.value

    def value(*given):
        if rng.random() < 0.5:
            raise rng.choice(RAISED)()
        return plain(*given)

    monkeypatch.setattr(generated, "value", value)
    life = SpoutLives(GeneratorSpout, fields={"n": {"type": "sequence"}}, count=20, rate=None)
    while not life.spout.is_exhausted():
        try:
            life.spout.next_tuple()
        except BaseException:  # noqa: BLE001 (it raises all there are)
            assert life.spout.made < 20
    assert [values for _, values, _ in life.collector.take()] == [[n] for n in range(20)]
