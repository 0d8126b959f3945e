"""Files and folders that can't be read: told, passed over, and read when they can be."""

import gzip
import os
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fulmen.connectors.files import FileSpout, ParquetSpout
from fulmen.connectors.files.places.patterns import files_of
from fulmen.connectors.files.reading.troubles import LONGEST_PAUSE, Troubles
from support.connectors.file_spouts import SpoutLives


def lives(path, **config):
    return SpoutLives(FileSpout, **{"path": str(path), **config})


@pytest.fixture
def nobody():
    """Rights count, even if root runs the tests."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder(tmp_path_factory, request, monkeypatch):
    """A folder that everybody may write to. By the clock no file was written to just now."""
    for kind in (FileSpout, ParquetSpout):
        monkeypatch.setattr(kind, "today", lambda: 1e10)
    path = tmp_path_factory.mktemp("open")
    os.chmod(path.parent, 0o755)
    for parent in path.parents:
        if parent.owner() == "root" and os.geteuid() == 0 and len(parent.parts) > 2:
            os.chmod(parent, 0o755)
    path.chmod(0o777)
    request.getfixturevalue("nobody")
    return path


def write(kind, file, text):
    if kind == "parquet":
        pq.write_table(pa.table({"value": text.split()}), file)
    else:
        data = text.encode()
        file.write_bytes(gzip.compress(data) if kind == "gz" else data)


@pytest.mark.parametrize("kind", ["log", "gz", "parquet"])
def test_a_file_that_can_not_be_read_holds_up_no_other(folder, kind):
    bad, good = folder / f"a.{kind}", folder / f"b.{kind}"
    write(kind, bad, "secret\n")
    write(kind, good, "public\n")
    os.utime(bad, (1000, 1000))
    bad.chmod(0)
    path = str(folder / f"*.{kind}")
    if kind == "parquet":
        life = SpoutLives(ParquetSpout, path=path, fields=["value"])
    else:
        life = lives(path)
    [[_, reason, where], row] = life.batch()
    assert reason == "the file can't be read: Permission denied. It is tried again later"
    assert where == f"{bad}:0"
    assert life.collector.reported == [f"{where}: {reason}"]
    assert row == ["public"]
    life.clock.advance(1000)
    assert life.batch() == []  # it is told once
    bad.chmod(0o600)
    assert life.batch() == [["secret"]]
    life.finish()
    assert life.spout.progress.positions == {}


def test_a_source_that_does_not_follow_ends_though_a_file_can_not_be_read(folder):
    (folder / "a.log").write_text("secret\n")
    (folder / "a.log").chmod(0)
    life = lives(folder / "*.log", follow=False)
    [[_, reason, _]] = life.batch()
    assert reason.startswith("the file can't be read")
    assert life.spout.is_exhausted()
    (folder / "a.log").chmod(0o600)
    life.start()
    assert life.batch() == [["secret"]]


def test_failed_messages_of_a_file_that_can_not_be_read_wait_for_it(folder):
    bad, good = folder / "a.log", folder / "b.log"
    bad.write_text("1\n2\n")
    good.write_text("3\n")
    life = lives(folder / "*.log")
    life.batch()
    bad.chmod(0)
    life.start()
    [[_, reason, _], *rows] = life.batch(fails=list(life.pending))
    assert reason.startswith("the file can't be read")
    assert rows == [["3"]]
    life.start()
    bad.chmod(0o600)
    assert sorted(life.batch()) == [["1"], ["2"]]
    life.finish()
    assert sorted(life.values()) == [["1"], ["2"], ["3"]]


def test_a_folder_that_can_not_be_listed_is_told_and_the_others_are_read(folder):
    for name in ("closed", "open"):
        (folder / name).mkdir()
        (folder / name / "a.log").write_text(f"{name}\n")
    (folder / "closed").chmod(0)
    life = lives(folder / "*" / "*.log")
    [[_, reason, where], row] = life.batch()
    assert (reason, where) == (
        "the folder can't be listed: Permission denied", str(folder / "closed")
    )  # fmt: skip
    assert row == ["open"]
    (folder / "closed").chmod(0o700)
    assert life.batch() == [["closed"]]


@pytest.mark.parametrize("pattern", ["closed/*.log", "**/*.log", "closed/a.log"])
def test_a_folder_that_can_be_listed_and_not_entered_is_told(folder, pattern):
    (folder / "closed").mkdir()
    (folder / "closed" / "a.log").write_text("closed\n")
    (folder / "closed").chmod(0o400)
    life = lives(folder / pattern)
    [[_, reason, where]] = life.batch()
    assert reason == "it can't be looked at: Permission denied"
    assert where.startswith(str(folder / "closed"))
    (folder / "closed").chmod(0o700)
    assert life.batch() == [["closed"]]


def test_a_file_that_is_removed_before_its_turn_is_told_though_nothing_is_waited_for(folder):
    for name in "abc":
        (folder / f"{name}.log").write_text(f"{name}\n")
    life = lives(folder / "*.log", follow=False)
    assert life.batch(calls=1) == [["a"]]
    (folder / "b.log").unlink()
    text = f"{folder}/b.log was removed. It was read up to byte 0, and the rest is lost"
    assert life.batch() == [["c"], [b"", text, f"{folder}/b.log:0"]]
    assert life.spout.is_exhausted()


def test_links_that_lead_in_a_circle_end(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("1\n")
    (tmp_path / "a" / "b").symlink_to(tmp_path)
    (tmp_path / "a" / "c").symlink_to(tmp_path / "a")
    (tmp_path / "d").symlink_to("d")
    life = lives(tmp_path / "**" / "*.txt")
    assert life.batch() == [["1"]]


def test_what_is_no_file_is_left_out(tmp_path):
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "nowhere.txt").symlink_to("nothing")
    (tmp_path / "1.txt").write_text("1\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "s.txt"))
    assert files_of(f"{tmp_path}/*.txt") == [f"{tmp_path}/1.txt"]


FILES = ["1.txt", "a/1.txt", "a/b/1.txt", "a/b/2.log", ".hidden/1.txt", "a/.1.txt", "c/[x].txt"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", ["1.txt"]),
        ("*/*.txt", ["a/1.txt", "c/[x].txt"]),
        ("**/*.txt", ["1.txt", "a/1.txt", "a/b/1.txt", "c/[x].txt"]),
        ("**", ["1.txt", "a/1.txt", "a/b/1.txt", "a/b/2.log", "c/[x].txt"]),
        ("a/**/**/1.txt", ["a/1.txt", "a/b/1.txt"]),
        ("**/b/?.[a-l]*", ["a/b/2.log"]),
        ("a/../a/1.txt", ["a/../a/1.txt"]),
        (".*/1.txt", [".hidden/1.txt"]),
        ("[!1c]/.*", ["a/.1.txt"]),
        ("c/[[]x].txt", ["c/[x].txt"]),
        ("a/1.txt", ["a/1.txt"]),
        ("no/*.txt", []),
        ("1.txt/*", []),
    ],
)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_patterns_are_those_of_glob(tmp_path, monkeypatch, pattern, expected, is_absolute):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    begin = f"{tmp_path}/" if is_absolute else ""
    assert files_of(begin + pattern) == [begin + name for name in expected]


def test_pauses_grow_and_end_with_a_change():
    troubles = Troubles(1.0)
    assert troubles.is_over("a", 0)
    assert troubles.met("a", "why", 0, stamp=1)
    assert not troubles.is_over("a", 0.9, 1)
    assert troubles.is_over("a", 0.9, 2)
    assert not troubles.met("a", "why", 1, stamp=1)
    assert not troubles.is_over("a", 2.9, 1)
    for _ in range(20):
        troubles.met("a", "why", 10, 1)
    assert troubles.is_over("a", 10 + LONGEST_PAUSE, 1)
    assert troubles.met("a", "another reason", 10, 1)
    troubles.forget("a")
    assert troubles.is_over("a", 0)
