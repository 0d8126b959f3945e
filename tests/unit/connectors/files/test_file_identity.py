"""Which file it is comes first, and how far it was read second: reused inodes, and rewritten files.

A file that is written to in its place and renamed is to a spout what a new one with the inode of a
removed one is.
"""

import gzip
import io
import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fulmen.connectors.files import FileSpout, ParquetSpout
from fulmen.connectors.files.owners import family
from support.connectors.file_spouts import SpoutLives

LATER = 1e10
"""By this clock no file was written to just now."""


def as_lines(numbers):
    return "".join(f"{n}\n" for n in numbers).encode()


def as_gzip(numbers):
    return gzip.compress(as_lines(numbers), mtime=0)


def as_parquet(numbers):
    data = io.BytesIO()
    pq.write_table(pa.table({"n": list(numbers)}), data, compression="none", use_dictionary=False)
    return data.getvalue()


KINDS = {
    "log": (FileSpout, as_lines, {}),
    "gz": (FileSpout, as_gzip, {}),
    "parquet": (ParquetSpout, as_parquet, {"fields": ["n"]}),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["just now", "long ago"])
def _clock(request, monkeypatch):
    """Whether files were written to so recently that their times say nothing."""
    if request.param:
        monkeypatch.setattr(FileSpout, "today", lambda: LATER)
        monkeypatch.setattr(ParquetSpout, "today", lambda: LATER)


def lives(folder, kind, **config):
    spout, _, more = KINDS[kind]
    return SpoutLives(spout, path=str(folder / f"*.{kind}"), **more, **config)


def put(file, kind, numbers):
    """Write numbers into a file, in its place if it is there."""
    data = KINDS[kind][1](numbers)
    with file.open("r+b" if file.exists() else "wb") as out:
        out.truncate()
        out.write(data)
    return len(data)


def numbers(rows):
    return [int(value) for [value] in rows]


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("day_2", [range(200, 210), range(200, 230)], ids=["same size", "longer"])
def test_a_file_with_the_inode_of_a_removed_one_is_read(tmp_path, kind, day_2, kills):
    day_1 = tmp_path / f"1.{kind}"
    put(day_1, kind, range(100, 110))
    life = lives(tmp_path, kind)
    life.finish()
    day_1.rename(tmp_path / "away")
    life.batch()
    put(tmp_path / "away", kind, day_2)
    (tmp_path / "away").rename(tmp_path / f"2.{kind}")
    if kills:
        life.start()
    life.finish()
    assert numbers(life.values()) == [*range(100, 110), *day_2]
    assert life.collector.reported == []


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("pending", [False, True], ids=["all acked", "none acked"])
def test_a_file_that_is_written_again_in_its_place_is_read_again(tmp_path, kind, pending):
    file = tmp_path / f"1.{kind}"
    size = put(file, kind, range(100, 110))
    life = lives(tmp_path, kind)
    assert numbers(life.batch()) == list(range(100, 110))
    if not pending:
        life.finish()
    assert put(file, kind, range(200, 210)) == size
    assert numbers(life.batch()[-10:]) == list(range(200, 210))
    life.finish()
    assert life.batch() == []


@pytest.mark.usefixtures("_clock")
def test_a_file_whose_end_alone_is_other_is_another_one(tmp_path):
    file = tmp_path / "1.log"
    put(file, "log", range(1000, 2000))
    life = lives(tmp_path, "log")
    life.finish()
    put(file, "log", [*range(1000, 1999), 5000])
    assert numbers(life.batch()) == [*range(1000, 1999), 5000]


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("kills", [False, True])
def test_a_file_that_was_only_touched_is_not_read_again(tmp_path, kind, kills):
    file = tmp_path / f"1.{kind}"
    put(file, kind, range(1000, 2000))
    life = lives(tmp_path, kind)
    life.finish()
    os.utime(file, (1000, 1000))
    file.rename(tmp_path / f"2.{kind}")
    if kills:
        life.start()
    for _ in range(3):
        assert life.batch() == []
    assert life.collector.reported == []
    assert life.spout.progress.positions == {}


def test_files_that_nobody_has_written_to_are_not_opened_again(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(FileSpout, "today", lambda: LATER)
    monkeypatch.setattr(ParquetSpout, "today", lambda: LATER)
    for i in range(10):
        put(tmp_path / f"{i}.{kind}", kind, range(i + 1))
    life = lives(tmp_path, kind)
    life.finish()
    monkeypatch.setattr(life.spout.source, "open", None)
    assert life.batch() == []


def test_what_is_appended_to_a_compressed_file_is_read(tmp_path):
    file = tmp_path / "1.gz"
    put(file, "gz", range(10))
    life = lives(tmp_path, "gz")
    life.finish()
    with file.open("ab") as more:
        more.write(as_gzip(range(10, 20)))
    life.finish()
    assert numbers(life.values()) == list(range(20))


def test_files_are_forgotten_while_their_folder_is_empty(tmp_path, kind):
    for i in range(10):
        put(tmp_path / f"{i}.{kind}", kind, range(i + 1))
    life = lives(tmp_path, kind)
    life.finish()
    assert len(life.author.state) == 10
    for file in tmp_path.iterdir():
        file.unlink()
    life.start()
    life.batch()
    assert len(life.author.state) == 0


def test_a_file_that_is_removed_half_read_is_told_though_its_folder_is_empty(tmp_path):
    put(tmp_path / "1.log", "log", range(10))
    life = lives(tmp_path, "log", follow=False)
    life.batch(calls=4)
    life.start()
    (tmp_path / "1.log").unlink()
    [[data, reason, where]] = life.batch(acks=list(life.pending))
    assert (data, where) == (b"", f"{tmp_path}/1.log:8")
    assert reason == (
        f"{tmp_path}/1.log was removed. It was read up to byte 8, and the rest is lost"
    )
    assert life.collector.reported == [reason]
    assert life.spout.is_exhausted()


def test_an_unfinished_line_that_is_cut_off_is_told(tmp_path):
    file = tmp_path / "1.log"
    file.write_text("one\ntw")
    life = lives(tmp_path, "log")
    life.finish()
    file.write_text("1\n")
    rows = life.batch()
    assert rows[-1] == ["1"]
    [[_, reason, _]] = rows[:-1]
    assert "It was read up to byte 4, and the rest is lost" in reason


def test_the_inode_of_another_tasks_file_does_not_have_a_file_read_twice(tmp_path, kind):
    tasks = [lives(tmp_path, kind, tasks=2, index=i) for i in range(2)]
    names = [str(tmp_path / f"{n}.{kind}") for n in range(100)]
    owner = next(task for task in tasks if task.spout.source._owns(family(names[0])))
    others = (name for name in names if not owner.spout.source._owns(family(name)))
    first, other = tmp_path / names[0], tmp_path / next(others)
    put(first, kind, range(100, 110))
    for life in tasks:
        life.finish()
    put(first, kind, range(200, 220))
    first.rename(other)
    for life in tasks:
        life.finish()
    assert sorted(n for life in tasks for n in numbers(life.values())) == [
        *range(100, 110),
        *range(200, 220),
    ]
    assert [life.collector.reported for life in tasks] == [[], []]
    assert len(owner.author.state) == 0


def test_what_is_appended_to_a_compressed_file_after_its_end_was_seen_is_read(tmp_path):
    file = tmp_path / "1.gz"
    put(file, "gz", range(10))
    life = lives(tmp_path, "gz")
    life.collector.room = 1000
    life.spout.next_tuple()
    assert len(life.collector.take()) == 10
    with file.open("ab") as more:
        more.write(as_gzip(range(10, 20)))
    rows = [row for _ in range(2) for row in life.batch()]
    assert numbers(rows) == list(range(10, 20))


def test_a_file_that_is_written_again_while_it_is_looked_at_is_read_from_its_start(
    tmp_path, kind, monkeypatch
):
    file = tmp_path / f"1.{kind}"
    put(file, kind, range(100, 110))
    life = lives(tmp_path, kind)
    life.finish()
    put(file, kind, range(100, 115))
    begin = life.spout._opened.mark_begin

    def written_meanwhile(*args):
        monkeypatch.undo()
        put(file, kind, range(200, 230))
        begin(*args)

    monkeypatch.setattr(life.spout._opened, "mark_begin", written_meanwhile)
    rows = [row for _ in range(3) for row in life.batch() if len(row) == 1]
    assert numbers(rows) == list(range(200, 230))


def test_a_compressed_file_with_the_inode_of_a_removed_log_has_lost_nothing(tmp_path):
    put(tmp_path / "1.log", "log", range(100, 110))
    life = SpoutLives(FileSpout, path=[str(tmp_path / "*.log"), str(tmp_path / "*.gz")])
    life.finish()
    put(tmp_path / "1.log", "gz", range(200, 210))
    (tmp_path / "1.log").rename(tmp_path / "2.gz")
    assert numbers(life.batch()) == list(range(200, 210))
    assert life.collector.reported == []


def test_a_file_that_no_pattern_matches_is_not_read_for_the_inode_of_an_emptied_one(tmp_path):
    file = tmp_path / "1.log"
    put(file, "log", range(100, 110))
    life = lives(tmp_path, "log")
    life.finish()
    put(file, "log", [])
    life.finish()
    put(file, "log", range(200, 210))
    file.rename(tmp_path / "1.other")
    assert life.batch() == []
    assert life.collector.reported == []


def test_a_file_that_is_removed_when_its_last_row_was_emitted_has_lost_nothing(tmp_path, kind):
    put(tmp_path / f"1.{kind}", kind, range(10))
    life = lives(tmp_path, kind)
    life.collector.room = 1000
    life.spout.next_tuple()
    emitted = life.collector.take()
    assert len(emitted) == 10
    life.commit(SimpleNamespace(emitted=emitted, acks=(), fails=()))
    life.start()
    (tmp_path / f"1.{kind}").unlink()
    life.finish()
    assert numbers(life.values()) == list(range(10))
    assert not [text for text in life.collector.reported if "the rest is lost" in text]
