"""Spouts and sinks of files on a real S3 server, which is killed and started again."""

import gzip
import json
import random
import threading
from collections import Counter
from contextlib import suppress

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from fulmen.api import ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.connectors.files import FileSink, FileSpout, ParquetSpout, RollingFileSink
from fulmen.connectors.files.places.local import BadPlace
from support.connectors.file_sinks import FIELDS, RollingLives, made, mark, write
from support.connectors.file_spouts import SpoutLives
from support.servers.s3 import SECRET_KEY, killable_s3, lossy_proxy
from support.soaks.file_soak import soak
from support.suite.seeds import FIRST

JSON = {"type": "json"}


@pytest.fixture
def bucket(s3_server, monkeypatch):
    """An empty bucket: (server, client)."""
    return _bucket(s3_server, monkeypatch)


def _bucket(server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    client = S3Store("fulmen", config={"timeout": "10s"})
    obstore.delete(client, [e["path"] for page in obstore.list(client) for e in page] or ["none"])
    return server, client


@pytest.fixture(autouse=True)
def _closed():
    yield
    SpoutLives.end_all()


def lives(path, kind=FileSpout, **config):
    return SpoutLives(kind, path=f"s3://fulmen/{path}", **config)


def test_objects_that_match_are_read_once_and_new_ones_as_they_come(bucket):
    _, client = bucket
    obstore.put(client, "logs/a.log", b"1\n2\n3")
    obstore.put(client, "logs/more/b.log", b"4\n")
    obstore.put(client, "logs/c.txt", b"5\n")
    life = lives("logs/*.log")
    assert life.batch(calls=2) == [["1"], ["2"]]
    life.start()
    assert life.batch() == [["3"]]
    obstore.put(client, "logs/d.log", b"6\n")
    life.finish()
    life.start()
    assert life.batch() == []
    assert life.values() == [["1"], ["2"], ["3"], ["6"]]
    assert sorted(lives("logs/**/*.log").batch()) == [["1"], ["2"], ["3"], ["4"], ["6"]]


def test_an_object_that_is_written_again_is_another_one(bucket):
    _, client = bucket
    obstore.put(client, "a.log", b"1\n2\n")
    life = lives("a.log")
    assert life.batch(calls=1) == [["1"]]
    obstore.put(client, "a.log", b"3\n4\n")
    life.start()
    [[_, told, _], *rows] = life.batch()
    assert rows == [["3"], ["4"]]
    assert told.endswith("up to byte 2, and the rest is lost. Messages not acked yet: 1")
    [[data, reason, _]] = life.batch(fails=[min(life.pending)])
    assert data == b""
    assert "before the message was acked" in reason
    life.finish()
    assert sorted(life.values()) == [["3"], ["4"]]


def test_failed_messages_of_compressed_objects_are_read_again(bucket):
    _, client = bucket
    obstore.put(client, "a.gz", gzip.compress(b"".join(b"%d\n" % i for i in range(50_000))))
    life = lives("*.gz", follow=False)
    life.batch(calls=60_000)
    failed = sorted(life.pending)[40_000]
    assert life.batch(fails=[failed]) == [["40000"]]
    assert life.spout.is_exhausted()


def test_parquet_is_read_from_a_bucket(bucket, tmp_path):
    _, client = bucket
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "a", row_group_size=100)
    obstore.put(client, "a.parquet", (tmp_path / "a").read_bytes())
    life = lives("*.parquet", ParquetSpout, fields=["n"], batch_rows=64)
    life.batch(calls=3)
    life.start()
    life.finish()
    assert [n for [n] in life.values()] == list(range(1000))


def written(client, prefix):
    """All rows of the objects below a folder."""
    paths = sorted(e["path"] for page in obstore.list(client, prefix) for e in page)
    paths = [path for path in paths if "/.fulmen/" not in path]
    data = b"".join(bytes(obstore.get(client, path).bytes()) for path in paths)
    return [json.loads(line)["n"] for line in data.splitlines()]


def test_a_put_whose_answer_was_lost_is_not_made_twice(bucket, monkeypatch):
    server, client = bucket
    with lossy_proxy(server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        sink = made(path="s3://fulmen/out", format=JSON)
        for number, fault in enumerate(["answer", "request"] * 3):
            proxy.faults.append(fault)
            while True:
                with suppress(ServiceUnavailable):
                    write(sink, [[number, "x"]], mark(number, after=number - 1 if number else None))
                    break
    assert written(client, "out") == list(range(6))


def test_objects_of_later_commits_say_that_the_checkpoint_was_set_back(bucket):
    _, client = bucket
    obstore.put(client, "out/a.txt", b"of somebody else")
    for number in range(8, 12):
        sink = made(path="s3://fulmen/out", format=JSON)
        write(sink, [[number, "x"]], mark(number, after=number - 1 if number > 8 else None))
    with pytest.raises(StoreMismatch, match="the checkpoint is older than the store"):
        write(made(path="s3://fulmen/out", format=JSON), [[9, "x"]], mark(9, "cafe", after=8))
    obstore.delete(client, "out/a.txt")
    assert written(client, "out") == [8, 9, 10, 11]


def test_a_bucket_that_was_restored_from_an_older_copy_is_told_and_gets_nothing(bucket):
    _, client = bucket
    marks = {}
    for number in (8, 9, 10):
        of = mark(number, after=number - 1 if number > 8 else None)
        write(made(path="s3://fulmen/out", format=JSON), [[number, "x"]], of)
        [marks[number]] = [e["path"] for e in obstore.list(client, "out/.fulmen").collect()]
    obstore.delete(client, marks[10])
    obstore.put(client, marks[9], b"logs/files/1")
    with pytest.raises(StoreMismatch, match="the store is older than the checkpoint"):
        write(made(path="s3://fulmen/out", format=JSON), [[11, "x"]], mark(11, after=10))
    obstore.delete(client, marks[9])
    with pytest.raises(StoreMismatch, match="the store has no commit"):
        write(made(path="s3://fulmen/out", format=JSON), [[11, "x"]], mark(11, after=10))
    assert written(client, "out") == [8, 9, 10]


def test_keys_that_the_client_has_no_name_for_are_told_and_passed_over(bucket, monkeypatch):
    server, client = bucket
    good = ["a.txt", "z.txt", "year/1.txt", "year/a/2.txt", "zoo/3.txt"]
    for key in [*good, "year/-4.txt", "year/-x/5.txt", "zoo/-a/6.txt"]:
        obstore.put(client, key, f"{key}\n".encode())
    with lossy_proxy(server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        # '-' and '/' follow each other in the order of keys
        proxy.renamed = {b"year/-": b"year//", b"zoo/-a/": b"zoo/./a"}
        life = lives("**/*.txt")
        rows = life.batch()
        assert sorted(row[0] for row in rows if len(row) == 1) == sorted(good)
        told = {where: reason for _, reason, where in (row for row in rows if len(row) == 3)}
        assert told.keys() == {"s3://fulmen/year//4.txt", "s3://fulmen/zoo/./a6.txt"}
        assert all("a part of the key is empty, '.' or '..'" in why for why in told.values())
        life.finish()
        assert life.batch() == []
        proxy.renamed = {}
        assert len(life.batch()) == 3


def test_an_object_that_may_not_be_read_holds_up_no_other(bucket, monkeypatch):
    server, client = bucket
    for name in ("a", "b"):
        obstore.put(client, f"{name}.txt", f"{name}\n".encode())
    with lossy_proxy(server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.denied = {b"a.txt"}
        life = lives("*.txt")
        [[_, reason, where], row] = life.batch()
        assert where == "s3://fulmen/a.txt:0"
        assert reason.startswith("the object can't be read: The operation lacked the necessary")
        assert row == ["b"]
        [[_, named, _]] = lives("a.txt", follow=False).batch()
        assert named.startswith("the object can't be read")
        proxy.denied = set()
        life.clock.advance(1)
        assert life.batch() == [["a"]]


def test_a_bucket_that_is_not_there_and_a_wrong_secret_are_mistakes(bucket, monkeypatch):
    for kind in (FileSpout, FileSink):
        path = "s3://nowhere/x"
        with pytest.raises(BadPlace, match=r"s3://nowhere: the bucket does not exist\. Create it"):
            _open(kind, path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(BadPlace, match="the endpoint or the credentials are wrong") as told:
        _open(FileSink, "s3://fulmen/x")
    assert SECRET_KEY not in str(told.value)
    with pytest.raises(BadPlace, match=r"s3://… has a user or a password") as told:
        _open(FileSpout, "s3://me:secret@fulmen/x")
    assert "secret" not in str(told.value)


def _open(kind, path):
    if kind is FileSpout:
        SpoutLives(FileSpout, path=path)
    else:
        made(path=path, format=JSON)


def test_a_server_that_is_away_is_said_and_waited_for(tmp_path, monkeypatch):
    (folder := tmp_path / "s3").mkdir()
    with killable_s3(folder) as killable:
        _, client = _bucket(killable.server, monkeypatch)
        obstore.put(client, "a.log", b"1\n")
        life = lives("a.log")
        sink = made(path="s3://fulmen/out", format=JSON)
        killable.kill()
        with pytest.raises(ServiceUnavailable, match="bucket s3://fulmen is away"):
            life.attempt()
        with pytest.raises(ServiceUnavailable):
            write(sink, [[1, "x"]], mark(1))
        with pytest.raises(ServiceUnavailable):
            lives("a.log")
        killable.start()
        assert life.batch() == [["1"]]
        write(sink, [[1, "x"]], mark(1))
        assert written(client, "out") == [1]


class Troubled:
    """A server that is killed at random moments, and started again, while something goes on."""

    def __init__(self, killable, rng):
        self.killable, self.rng, self.kills = killable, rng, 0

    def during(self, work):
        """Do it, and kill the server meanwhile or shortly afterwards."""
        timer = threading.Timer(self.rng.random() * 0.01, self.killable.kill)
        timer.start()
        try:
            return work()
        finally:
            timer.join()
            self.killable.start()
            self.kills += 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_row_is_in_one_object_whatever_is_killed(tmp_path, monkeypatch):
    rng = random.Random(FIRST)
    monkeypatch.setattr(RollingFileSink, "wait_seconds", 0.0)
    (folder := tmp_path / "s3").mkdir()
    with killable_s3(folder) as killable:
        _, client = _bucket(killable.server, monkeypatch)
        server = Troubled(killable, rng)
        life = RollingLives(path="s3://fulmen/rolled", format=JSON, roll_bytes=200)
        sink = made(path="s3://fulmen/batches", format=JSON)
        count, lives_lost, last = 0, 0, None
        while server.kills < 40 or lives_lost < 20:
            batch = [[count + i, "x" * rng.randint(0, 20_000)] for i in range(rng.randint(1, 5))]

            def work(batch=batch):
                life.attempt(batch)

            server.during(work) if rng.random() < 0.5 else work()
            if rng.random() < 0.3:
                life.start()
                lives_lost += 1
                continue
            life.commit()
            is_written = False
            while not is_written:  # as the engine does: again with the same mark, until it succeeds

                def put(sink=sink, batch=batch, number=life.number, last=last):
                    write(sink, batch, mark(number, after=last), FIELDS)

                try:
                    server.during(put) if rng.random() < 0.4 else put()
                    is_written = rng.random() < 0.7  # else the process is lost before its commit
                except ServiceUnavailable:
                    sink = made(path="s3://fulmen/batches", format=JSON)
            count, last = count + len(batch), life.number
        life.run(drain=True)
        life.run()
        assert life.acked == Counter(range(count))
        assert sorted(written(client, "rolled")) == list(range(count))
        assert sorted(written(client, "batches")) == list(range(count))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_line_of_objects_is_acked_once_whatever_is_killed(tmp_path, monkeypatch):
    rng = random.Random(FIRST + 1)
    (folder := tmp_path / "s3").mkdir()
    with killable_s3(folder) as killable:
        _, client = _bucket(killable.server, monkeypatch)
        server, life = Troubled(killable, rng), lives("*.log")
        lines = lives_lost = 0
        while server.kills < 40 or lives_lost < 20:
            if rng.random() < 0.3:
                count = rng.randint(1, 2000)
                data = b"".join(b"line %d\n" % i for i in range(lines, lines + count))
                obstore.put(client, f"{lines}.log", data)
                lines += count
            ended = [i for i in life.pending if rng.random() < 0.7]
            at = len(ended) * 9 // 10
            attempt = None

            def work(ended=ended, at=at):
                return life.attempt(rng.randint(0, 1500), ended[:at], ended[at:])

            life.clock.advance(2)
            with suppress(ServiceUnavailable):
                attempt = server.during(work) if rng.random() < 0.4 else work()
            if attempt is None or rng.random() < 0.3:
                life.start()
                lives_lost += 1
            else:
                life.commit(attempt)
        life.clock.advance(2)
        life.finish()
        assert sorted(int(v.split()[1]) for [v] in life.values()) == list(range(lines))
        assert life.values("errors") == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_each_line_of_rotated_logs_is_in_one_file_of_each_sink_whatever_is_killed(tmp_path):
    killed = soak(tmp_path, FIRST, enough=50)
    assert killed.killed >= 20
