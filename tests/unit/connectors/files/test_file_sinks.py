"""Files that appear whole, once, under names that follow from commits."""

import datetime
import os
import random
import resource
import shutil
from collections import Counter
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from fulmen import TopologyBuilder
from fulmen.api import Rows, ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.checkpoint import Store
from fulmen.checkpoint.savepoints.exports import opened
from fulmen.connectors.files import RollingFileSink
from fulmen.connectors.files.options import FileSinkOptions, RollingFileSinkOptions
from fulmen.connectors.files.places.folder import LocalFolder
from fulmen.connectors.files.places.local import BadPlace
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.restoring import copied
from fulmen.testing import ManualClock
from support.connectors.file_sinks import RollingLives, made, mark, write, written
from support.runs.engine_runs import Numbers, Steady, make_driver, new_store
from support.stores.savepoints import pinned

JSON = {"type": "json"}


def names(folder):
    """The names of a folder's files, without what is hidden."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def marks(folder):
    return sorted(os.listdir(folder / ".fulmen"))


@contextmanager
def no_room(bytes_left):
    """Meanwhile no file can get larger than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_has_the_rows_of_a_commit_and_its_name(tmp_path):
    sink = made(path=str(tmp_path / "out"), format=JSON)
    assert write(sink, [[1, "a"], [2, "b"]], mark(12)) == {}
    [file] = (tmp_path / "out").glob("[!.]*")
    assert file.name == "part-logs-files-1-0000000012-0123abcdbeef.jsonl"
    assert file.read_text() == '{"n":1,"text":"a"}\n{"n":2,"text":"b"}\n'


def test_the_same_commit_is_written_once(tmp_path):
    for _ in range(2):
        write(made(path=str(tmp_path), format=JSON), [[1, "a"]], mark(12))
    assert len(names(tmp_path)) == 1


def test_a_checkpoint_that_was_set_back_to_before_the_first_file_is_told(tmp_path):
    write(made(path=str(tmp_path), format=JSON), [[1, "a"]], mark(12))
    for again in (mark(12, "other"), mark(20)):
        with pytest.raises(StoreMismatch, match="by the checkpoint it should have no commit"):
            write(made(path=str(tmp_path), format=JSON), [[1, "a"]], again)
    assert len(names(tmp_path)) == 1


def test_files_of_later_commits_say_that_the_checkpoint_was_set_back(tmp_path):
    for number in range(8, 12):
        of = mark(number, after=number - 1 if number > 8 else None)
        write(made(path=str(tmp_path), format=JSON), [[number, "a"]], of)
    others = names(tmp_path)
    sink = made(path=str(tmp_path), format=JSON)
    for number, after in ((9, 8), (10, 9), (13, 10)):
        set_back = mark(number, "cafe", after=after)
        with pytest.raises(StoreMismatch, match="the checkpoint is older than the store"):
            write(sink, [[1, "again"]], set_back)
    assert names(tmp_path) == others
    write(made(path=str(tmp_path), format=JSON), [[11, "a"]], mark(11, after=10))  # a repetition
    os.remove(tmp_path / others[-1])  # somebody has moved it away
    write(made(path=str(tmp_path), format=JSON), [[12, "a"]], mark(12, after=11))
    another = mark(3, sink="fedcba98")  # with a checkpoint of its own
    write(made(path=str(tmp_path), format=JSON), [[3, "b"]], another)
    assert len(names(tmp_path)) == len(others) + 1


def test_the_folder_has_the_newest_mark_of_each_task_alone(tmp_path):
    sink = made(path=str(tmp_path), format=JSON)
    write(sink, [[1, "a"]], mark(8))
    write(sink, [[2, "a"]], mark(9, after=8))
    write(made(path=str(tmp_path), format=JSON), [[3, "a"]], mark(3, sink="fedcba98"))
    assert marks(tmp_path) == ["0123abcd-0000000009-beef", "fedcba98-0000000003-beef"]
    assert (tmp_path / ".fulmen" / "0123abcd-0000000009-beef").read_text() == "logs/files/1"


def test_a_folder_that_was_restored_from_an_older_copy_is_told_and_gets_nothing(tmp_path):
    out, copy = tmp_path / "out", tmp_path / "copy"
    for number in (8, 9, 10):
        of = mark(number, after=number - 1 if number > 8 else None)
        write(made(path=str(out), format=JSON), [[number, "a"]], of)
        if number == 9:
            shutil.copytree(out, copy)
    shutil.rmtree(out)
    shutil.copytree(copy, out)
    with pytest.raises(StoreMismatch, match="the store is older than the checkpoint") as told:
        write(made(path=str(out), format=JSON), [[11, "a"]], mark(11, after=10))
    assert (told.value.found, told.value.wanted) == ((9, "beef"), (10, "beef"))
    assert len(names(out)) == 2
    shutil.rmtree(out)
    with pytest.raises(StoreMismatch, match="the store has no commit"):
        write(made(path=str(out), format=JSON), [[11, "a"]], mark(11, after=10))


def test_rows_are_written_again_if_a_process_ended_behind_their_mark(tmp_path):
    sink = made(path=str(tmp_path), format=JSON)
    write(sink, [[1, "a"]], mark(8))
    [file] = names(tmp_path)
    os.remove(tmp_path / file)  # as if it had not been written
    write(made(path=str(tmp_path), format=JSON), [[1, "a"]], mark(8))
    assert names(tmp_path) == [file]


def test_a_mark_that_a_superseded_process_writes_late_changes_nothing(tmp_path):
    late, sink = (made(path=str(tmp_path), format=JSON) for _ in range(2))
    write(late, [[1, "a"]], mark(8))
    for number in (9, 10):
        write(sink, [[number, "a"]], mark(number, after=number - 1))
    write(late, [[9, "a"]], mark(9, after=8))
    write(made(path=str(tmp_path), format=JSON), [[11, "a"]], mark(11, after=10))
    assert len(names(tmp_path)) == 4
    assert marks(tmp_path) == ["0123abcd-0000000011-beef"]


@pytest.mark.parametrize("is_behind", [True, False])
def test_a_rolling_sink_notices_a_folder_or_a_checkpoint_that_was_set_back(tmp_path, is_behind):
    out = tmp_path / "out"
    lives = RollingLives(path=str(out), format=JSON, roll_bytes=1)
    copies = []
    for number in range(4):
        lives.run([[number, "a"]])
        lives.run(tick=True)
        copies.append((dict(lives.journals), lives.mark, lives.number))
        shutil.copytree(out, tmp_path / f"copy{number}")
    assert [row["n"] for row in written(out)] == [0, 1, 2, 3]
    if is_behind:
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "copy1", out)
    else:
        lives.journals, lives.mark, lives.number = copies[1]
    before = written(out)
    lives.start()
    lives.run([[9, "b"]])
    lives.run(tick=True)
    what = "the store is older than" if is_behind else "the checkpoint is older than"
    assert any(what in error for error in lives.errors)
    assert written(out) == before


def test_at_least_once_files_are_named_by_the_attempt(tmp_path):
    write(made(path=str(tmp_path), format=JSON, prefix="rows"), [[1, "a"]])
    assert os.listdir(tmp_path) == ["rows-logs-files-1-0000000007-cafe.jsonl"]


@pytest.mark.parametrize(
    ("format", "more", "content"),
    [
        pytest.param({"type": "json", "fields": ["text"]}, {}, '{"text":"a"}\n', id="json"),
        pytest.param({"type": "csv"}, {}, "1,a\n", id="csv"),
        pytest.param({"type": "csv"}, {"header": True}, "n,text\n1,a\n", id="csv-header"),
        pytest.param(
            {"type": "csv", "fields": ["text", "n"], "delimiter": ";"},
            {"header": True},
            "text;n\na;1\n",
            id="csv-fields",
        ),
        pytest.param({"type": "text", "field": "text"}, {}, "a\n", id="text"),
    ],
)
def test_rows_are_written_in_the_format(tmp_path, format, more, content):
    write(made(path=str(tmp_path), format=format, **more), [[1, "a"]], mark(1))
    [file] = tmp_path.glob("[!.]*")
    assert file.read_text() == content


def test_a_new_process_writes_the_header_of_rows_that_were_encoded_before(tmp_path):
    config = {"path": str(tmp_path), "format": {"type": "csv"}, "header": True}
    items = made(**config).encode(Rows(("n", "text"), [[1, "a"]]))
    made(**config).write(Rows(("n", "text"), items), mark(1))
    [file] = tmp_path.glob("[!.]*")
    assert file.read_text() == "n,text\n1,a\n"


def test_compressed_lines_can_be_read_back(tmp_path):
    write(made(path=str(tmp_path), format=JSON, compression="gzip"), [[1, "a"]], mark(1))
    [file] = tmp_path.glob("[!.]*")
    assert file.name.endswith(".jsonl.gz")
    assert written(tmp_path) == [{"n": 1, "text": "a"}]


def test_rows_that_cannot_be_written_are_refused_one_by_one(tmp_path):
    sink = made(path=str(tmp_path), format=JSON)
    failed = write(sink, [[1, "a"], [object(), "b"], [3, "c"]], mark(1))
    assert list(failed) == [1]
    assert failed[1].startswith("field 'n': object")
    assert [row["n"] for row in written(tmp_path)] == [1, 3]
    text = made(path=str(tmp_path), format={"type": "text", "field": "text"})
    [reason] = write(text, [[1, "a\nb"], [2, "c"]], mark(2, after=1)).values()
    assert reason == "it has a line feed, which would end the line. Write json or csv"
    missing = made(path=str(tmp_path), format={"type": "json", "fields": ["x"]})
    rows = Rows(("n", "text"), [[1, "a"], [2, "b"]])
    missing.encode(rows)
    assert set(rows.failed.values()) == {"there is no field 'x', only ['n', 'text']"}


def test_parquet_has_the_columns_and_types_that_are_asked_for(tmp_path):
    columns = {"when": "timestamp", "n": "int32", "day": "date32", "ok": "bool"}
    sink = made(path=str(tmp_path), format={"type": "parquet", "columns": columns})
    moment = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    rows = [[1, moment, moment.date(), True], [None, None, None, None], ["x", moment, None, None]]
    failed = write(sink, rows, mark(1), ("n", "when", "day", "ok"))
    assert list(failed) == [2]
    assert failed[2].startswith("column 'n': str 'x' is no int32")
    [file] = tmp_path.glob("[!.]*")
    table = pq.read_table(file)
    assert table.schema.types == [pa.timestamp("us", "UTC"), pa.int32(), pa.date32(), pa.bool_()]
    assert table.to_pylist()[0] == {"when": moment, "n": 1, "day": moment.date(), "ok": True}


def test_no_part_of_a_file_is_ever_seen_when_the_disk_is_full(tmp_path):
    sink = made(path=str(tmp_path), format=JSON)
    with no_room(1000), pytest.raises(ServiceUnavailable, match=f"folder '{tmp_path}' is away"):
        write(sink, [[i, "x" * 100] for i in range(100)], mark(1))
    assert names(tmp_path) == []
    write(sink, [[i, "x" * 100] for i in range(100)], mark(1))
    assert len(written(tmp_path)) == 100


def test_what_a_killed_process_left_is_removed_when_nobody_can_be_writing_it(tmp_path):
    old, new = tmp_path / ".part-1.tmp", tmp_path / ".part-2.tmp"
    old.touch()
    new.touch()
    os.utime(old, (1000, 1000))
    LocalFolder(str(tmp_path)).check()
    assert list(tmp_path.iterdir()) == [new]


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadPlace, match=r"can't be written to: .*Name a folder"):
        made(path=str(tmp_path / "file" / "out"), format=JSON)


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        (FileSinkOptions, {"format": {"type": "xml"}}, "does not match any of the expected tags"),
        (FileSinkOptions, {"format": JSON, "header": True}, "header is for the format csv only"),
        (FileSinkOptions, {"format": JSON, "prefix": ".x"}, "should match pattern"),
        (
            FileSinkOptions,
            {"format": {"type": "parquet", "columns": {"a": "int64"}}, "compression": "gzip"},
            "Parquet has format.compression",
        ),
        (
            RollingFileSinkOptions,
            {"format": JSON, "guarantee": "at-least-once"},
            "Input should be 'exactly-once'",
        ),
    ],
)
def test_mistakes_in_the_config_are_found(options, config, message):
    with pytest.raises(ValidationError, match=message):
        options(**{"path": "x", **config})


# ---- rolled by size and time ----------------------------------------------------------------


def rolling(folder, **config):
    return RollingLives(**{"path": str(folder), "format": JSON, **config})


def rows(*numbers):
    return [[n, "x"] for n in numbers]


def numbers(folder):
    return [row["n"] for row in written(folder)]


def test_rows_of_several_batches_become_one_file_when_they_are_many(tmp_path):
    life = rolling(tmp_path, roll_bytes=50)
    life.run(rows(1, 2))
    assert numbers(tmp_path) == []
    life.run(rows(3))
    assert numbers(tmp_path) == []
    life.attempt()
    assert numbers(tmp_path) == [1, 2, 3]
    assert names(tmp_path) == ["part-logs-files-1-0000000002-attempt2.jsonl"]


def test_rows_become_a_file_when_the_first_of_them_is_old(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(RollingFileSink, "now", staticmethod(lambda: now[0]))
    life = rolling(tmp_path, roll_seconds=30)
    life.run(rows(1))
    now[0] = 129.0
    life.run(rows(2), tick=True)
    life.run()
    assert numbers(tmp_path) == []
    now[0] = 130.0
    life.start()
    life.run(tick=True)
    life.run()
    assert numbers(tmp_path) == [1, 2]


def test_all_rows_are_written_when_the_topology_is_drained(tmp_path):
    life = rolling(tmp_path)
    life.run(rows(1, 2))
    life.run(drain=True)
    life.run()
    assert numbers(tmp_path) == [1, 2]
    life.run(drain=True)
    life.run()
    assert len(names(tmp_path)) == 1


def test_rows_that_a_rolling_sink_cannot_write_fail(tmp_path):
    life = rolling(tmp_path)
    [reason] = life.run([[1, "a"], [object(), "b"]])
    assert reason.startswith("field 'n': object")
    assert life.acked == {1: 1}


def test_a_rolling_sink_writes_parquet(tmp_path):
    life = rolling(tmp_path, format={"type": "parquet", "columns": {"n": "int64"}})
    life.run(rows(1, 2))
    life.run(rows(3), drain=True)
    life.run()
    assert written(tmp_path) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_file_that_could_not_be_written_is_written_when_a_tick_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(RollingFileSink, "wait_seconds", 0.0)
    life = rolling(tmp_path, roll_bytes=1)
    life.run(rows(1))
    with no_room(1):
        life.run()
    assert numbers(tmp_path) == []
    life.run(tick=True)
    assert numbers(tmp_path) == [1]
    assert len(life.errors) == 1


def test_spouts_are_held_while_files_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(RollingFileSink, "wait_seconds", 0.0)
    builder = TopologyBuilder("held")
    builder.set_spout("numbers", Numbers).set_config({"limit": 500})
    bolt = builder.set_bolt("files", RollingFileSink).shuffle_grouping("numbers")
    bolt.set_config({"path": str(tmp_path), "format": JSON, "roll_bytes": 1})
    clock, store = ManualClock(100.0), new_store()
    jobs = Steady(clock, store=store)
    running = make_driver(builder, store=store, clock=clock, jobs=jobs).start()
    running.coordinator.size.permit = 20
    with no_room(1):
        for _ in range(3):  # the first batch is committed, and its file can't be written
            assert running.step()
        emitted = running.totals.report()["components"]["numbers"]["emitted"]
        assert emitted < 500
        for _ in range(10):
            assert running.step()
        assert running.totals.report()["components"]["numbers"]["emitted"] == emitted
        [reason] = running.coordinator.last.holds.values()
        assert "a file can't be written: folder" in reason
    assert numbers(tmp_path) == []
    running.run(Stop(when_drained=True))
    running.close()
    assert sorted(row["number"] for row in written(tmp_path)) == [*range(500)]


def contents(folder):
    """All that is in a folder, marks as well."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("roll_bytes", [1, 1500])
def test_a_copy_writes_what_the_original_has_gathered_to_its_own_folder_only(tmp_path, roll_bytes):
    def started(name, store):
        builder = TopologyBuilder(name)
        builder.set_spout("numbers", Numbers).set_config({"limit": 200})
        bolt = builder.set_bolt("files", RollingFileSink).shuffle_grouping("numbers")
        config = {"path": str(tmp_path / name), "format": JSON, "roll_bytes": roll_bytes}
        bolt.set_config(config)
        running = make_driver(builder, store=store).start()
        running.coordinator.size.permit = 20
        return running

    def drained(running):
        running.run(Stop(when_drained=True))
        running.close()

    uri = f"{(tmp_path / 'checkpoint').as_uri()}?fsync=false"
    first = started("shop", Store.open(uri))
    for _ in range(4):
        first.step()
    first.close()
    pinned(first.store, "now")
    before, rows_before = contents(tmp_path / "shop"), written(tmp_path / "shop")
    copy = new_store()
    with opened(f"{uri}#now") as savepoint:
        copied(savepoint, copy, "copy", "a test")
    drained(started("copy", copy))
    assert contents(tmp_path / "shop") == before
    rows_of_both = [*rows_before, *written(tmp_path / "copy")]
    assert sorted(row["number"] for row in rows_of_both) == [*range(200)]
    drained(started("shop", first.store))
    assert sorted(row["number"] for row in written(tmp_path / "shop")) == [*range(200)]


def test_nothing_of_written_rows_stays_in_the_checkpoint(tmp_path):
    life = rolling(tmp_path, roll_bytes=1)
    for n in range(20):
        life.run(rows(n))
    life.run()
    life.run()
    assert not life.author.state
    assert life.sink.full == []


@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", range(10))
def test_each_row_is_in_one_file_whatever_is_killed_and_however_full_the_disk_is(
    tmp_path, seed, monkeypatch
):
    monkeypatch.setattr(RollingFileSink, "wait_seconds", 0.0)
    rng = random.Random(seed)
    kind = {"type": "parquet", "columns": {"n": "int64"}} if seed % 2 else JSON
    life = rolling(tmp_path, roll_bytes=rng.choice([1, 300, 3000]), format=kind)
    count = faults = 0
    while faults < 50:
        batch = rows(*range(count, count + rng.randint(0, 20)))
        is_full = rng.random() < 0.3
        with no_room(rng.randint(1, 60) if is_full else resource.RLIM_INFINITY):
            life.attempt(batch, tick=rng.random() < 0.2, drain=rng.random() < 0.1)
        faults += is_full
        if rng.random() < 0.3:
            faults += 1
            life.start()
        else:
            life.commit()
            count += len(batch)
    life.run(drain=True)
    life.run()
    assert life.acked == Counter(range(count))
    assert sorted(numbers(tmp_path)) == list(range(count))
    assert any("is away" in error for error in life.errors)
