"""Transactional spouts: what a transaction has, again and again, and after new beginnings."""

import errno
import os
import pickle
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.api import FailedException, TopologyContext, output_streams
from fulmen.topology.builder import TopologyBuilder
from fulmen.transactional import (
    FileTransactionalSpout,
    MemoryTransactionalSpout,
    OpaqueFileTransactionalSpout,
)
from fulmen.transactional.conformance import at
from fulmen.transactional.spouts import files as files_module
from fulmen.transactional.spouts.lines import Shortened, end_of_lines, lines


class Collector:
    """Keeps what is emitted, and what is reported."""

    def __init__(self):
        self.rows, self.errors = [], []

    def emit(self, values, stream="default"):
        self.rows.append(list(values))

    def report_error(self, error):
        self.errors.append(error)


def context_of(task=0, tasks=1):
    return TopologyContext(
        "shop", "lines", task + 1, task, 0, component_tasks={"lines": range(1, tasks + 1)}
    )


def emitted(spout, metadata, tasks=1, conf=None):
    """The rows of a transaction, of each task."""
    attempt, found = at(1), []
    for task in range(tasks):
        collector = Collector()
        emitter = spout.get_emitter(conf or {}, context_of(task, tasks))
        emitter.emit_batch(attempt, metadata, collector)
        assert all(row[0] == attempt for row in collector.rows)
        found.append([row[1:] for row in collector.rows])
    return found


# ---- rows in memory ------------------------------------------------------------------------------

DATA = {0: [["a"], ["b"], ["c"]], 1: [["d"]], 5: [["e"], ["f"]]}


class Words(MemoryTransactionalSpout):
    data = DATA
    fields = ("word",)
    take_amount = 2


@pytest.mark.parametrize(
    "spout", [Words(), MemoryTransactionalSpout(DATA, ["word"], 2)], ids=["derived", "object"]
)
def test_a_transaction_takes_at_most_so_many_rows_of_each_partition(spout):
    coordinator = spout.get_coordinator({}, context_of())
    first = coordinator.initialize_transaction(1, None)
    assert emitted(spout, first) == [[["a"], ["b"], ["d"], ["e"], ["f"]]]
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        True,
        False,
        1,
    )
    second = coordinator.initialize_transaction(2, first)
    assert emitted(spout, second) == [[["c"]]]
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        False,
        True,
        0,
    )
    assert emitted(spout, first) == [[["a"], ["b"], ["d"], ["e"], ["f"]]]
    assert emitted(spout, coordinator.initialize_transaction(3, second)) == [[]]


def test_a_new_coordinator_goes_on_where_the_last_transaction_ended():
    first = Words().get_coordinator({}, context_of()).initialize_transaction(1, None)
    coordinator = Words().get_coordinator({}, context_of())
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        True,
        False,
        None,
    )
    assert emitted(Words(), coordinator.initialize_transaction(2, first)) == [[["c"]]]


def test_tasks_share_the_partitions():
    first = Words().get_coordinator({}, context_of()).initialize_transaction(1, None)
    assert emitted(Words(), first, tasks=2) == [[["a"], ["b"], ["e"], ["f"]], [["d"]]]
    assert emitted(Words(), first, tasks=4) == [[["a"], ["b"]], [["d"]], [["e"], ["f"]], []]


def test_the_first_field_is_the_attempt():
    assert output_streams(Words())["default"].fields == ("tx", "word")
    assert output_streams(Words)["default"].fields == ("tx", "word")


def test_spouts_can_be_given_to_a_builder():
    spouts = {
        "words": MemoryTransactionalSpout(DATA, ["word"], 2),
        "lines": FileTransactionalSpout("/data/*", 10, follow=False),
        "other": OpaqueFileTransactionalSpout("/data/*"),
    }
    builder = TopologyBuilder()
    for name, spout in spouts.items():
        again = pickle.loads(pickle.dumps(spout))
        assert vars(again) == vars(spout)
        builder.set_spout(name, spout)


def test_a_transaction_of_no_rows_is_refused():
    with pytest.raises(ValueError, match="take_amount is 0, but must be 1 or more"):
        MemoryTransactionalSpout(DATA, ["word"], 0)


# ---- whole lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "start", "at_most", "follows", "complete"),
    [
        (b"", 0, 10, 0, 0),
        (b"ab\ncd\n", 0, 10, 6, 6),
        (b"ab\ncd\n", 0, 6, 6, 6),
        (b"ab\ncd\n", 0, 5, 3, 3),
        (b"ab\ncd\n", 3, 5, 6, 6),
        (b"ab\ncd\n", 6, 5, 6, 6),
        (b"ab\ncd", 0, 10, 3, 5),
        (b"ab\ncd", 0, 5, 3, 3),
        (b"ab\ncd", 3, 1, 3, 5),
        (b"a" * 200_000 + b"\nb\n", 0, 1, 200_001, 200_001),
        (b"a" * 200_000, 0, 1, 0, 200_000),
    ],
)
def test_lines_are_taken_whole(content, start, at_most, follows, complete, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert end_of_lines(str(file), start, at_most, is_complete=False) == follows
    assert end_of_lines(str(file), start, at_most, is_complete=True) == complete


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(
    content=st.binary(max_size=40).map(lambda data: data.replace(b"\r", b"\n")),
    at_most=st.integers(1, 12),
    is_complete=st.booleans(),
)
def test_all_lines_come_in_their_order_and_none_comes_twice(content, at_most, is_complete):
    path = f"/dev/shm/fulmen-lines-{os.getpid()}"
    with open(path, "wb") as file:
        file.write(content)
    try:
        found, at_byte = [], 0
        while (end := end_of_lines(path, at_byte, at_most, is_complete)) > at_byte:
            found += lines(path, at_byte, end)
            at_byte = end
    finally:
        os.unlink(path)
    parts = content.split(b"\n")
    wanted = parts if is_complete and parts[-1] else parts[:-1]
    assert found == [line.decode(errors="replace") for line in wanted]


def test_a_file_that_became_shorter_is_said(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"ab\n")
    message = f"file '{file}' has 3 bytes, but 4 were there before: it was cut or replaced"
    with pytest.raises(Shortened, match=message):
        end_of_lines(str(file), 4, 10, is_complete=False)
    with pytest.raises(Shortened, match=message):
        list(lines(str(file), 0, 4))


def test_line_ends_of_windows_and_foreign_bytes_are_understood(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"a\r\n\xff\n\n")
    assert list(lines(str(file), 0, 6)) == ["a", "�", ""]


# ---- files, again exactly as they were -----------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for name in ("b", "d"):
        (tmp_path / f"{name}.log").write_text("".join(f"{name}{n}\n" for n in range(3)))
    return tmp_path


def test_a_partition_is_a_file_whose_number_stays(folder):
    spout = FileTransactionalSpout(f"{folder}/*.log", max_bytes=6)
    coordinator = spout.get_coordinator({}, context_of())
    first = coordinator.initialize_transaction(1, None)
    assert emitted(spout, first, tasks=2) == [[["b0"], ["b1"]], [["d0"], ["d1"]]]
    (folder / "a.log").write_text("a0\n")
    (folder / "c.log").write_text("c0\n")
    second = coordinator.initialize_transaction(2, first)
    assert [file.removeprefix(f"{folder}/") for file, _, _ in second] == [
        *("b.log", "d.log", "a.log", "c.log")
    ]
    assert emitted(spout, second, tasks=2) == [[["b2"], ["a0"]], [["d2"], ["c0"]]]
    assert emitted(spout, first, tasks=2) == [[["b0"], ["b1"]], [["d0"], ["d1"]]]


def test_lines_that_are_appended_come_when_they_are_whole(folder):
    spout = FileTransactionalSpout(f"{folder}/b.log")
    coordinator = spout.get_coordinator({}, context_of())
    assert coordinator.is_ready()
    first = coordinator.initialize_transaction(1, None)
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        False,
        False,
        0,
    )
    with open(folder / "b.log", "a") as file:
        file.write("half")
        file.flush()
        assert not coordinator.is_ready()
        file.write(" and half\n")
    assert (coordinator.is_ready(), coordinator.lag()) == (True, None)
    second = coordinator.initialize_transaction(2, first)
    assert emitted(spout, second) == [[["half and half"]]]


def test_a_source_that_does_not_follow_ends(folder):
    (folder / "b.log").write_text("b0\nb1")
    spout = FileTransactionalSpout(f"{folder}/*.log", follow=False)
    coordinator = spout.get_coordinator({}, context_of())
    assert not coordinator.is_exhausted()
    first = coordinator.initialize_transaction(1, None)
    assert emitted(spout, first) == [[["b0"], ["b1"], ["d0"], ["d1"], ["d2"]]]
    assert coordinator.is_exhausted()


def test_a_file_that_is_away_is_waited_for_and_left_out_of_new_transactions(folder):
    spout = FileTransactionalSpout(f"{folder}/*.log", max_bytes=6)
    coordinator = spout.get_coordinator({}, context_of())
    first = coordinator.initialize_transaction(1, None)
    (folder / "b.log").rename(folder / "b.away")
    with pytest.raises(FailedException, match=f"{folder}/b.log"):
        emitted(spout, first)
    second = coordinator.initialize_transaction(2, first)
    assert emitted(spout, second) == [[["d2"]]]
    (folder / "b.away").rename(folder / "b.log")
    assert emitted(spout, first) == [[["b0"], ["b1"], ["d0"], ["d1"]]]
    assert emitted(spout, coordinator.initialize_transaction(3, second)) == [[["b2"]]]


def test_a_file_that_was_cut_stops_new_transactions(folder):
    spout = FileTransactionalSpout(f"{folder}/*.log")
    coordinator = spout.get_coordinator({}, context_of())
    first = coordinator.initialize_transaction(1, None)
    (folder / "b.log").write_text("b0\n")
    assert coordinator.is_ready()
    with pytest.raises(FailedException, match=r"b.log' has 3 bytes, but 9 were there before"):
        coordinator.initialize_transaction(2, first)
    with pytest.raises(FailedException, match=r"b.log' has 3 bytes, but 9 were there before"):
        emitted(spout, first)


class Numbers(FileTransactionalSpout):
    outputs = ("tx", "letter", "number")

    def row(self, line):
        return None if line.endswith("1") else (line[0], int(line[1:]))


def test_lines_can_be_taken_apart_and_left_out(folder):
    conf = {"files": f"{folder}/b.log", "maxBytes": 100, "follow": False}
    metadata = Numbers().get_coordinator(conf, context_of()).initialize_transaction(1, None)
    assert emitted(Numbers(), metadata, conf=conf) == [[["b", 0], ["b", 2]]]


@pytest.mark.parametrize("spout", [FileTransactionalSpout(), OpaqueFileTransactionalSpout()])
@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({}, r"spout 'lines': config.files is ''. Write a pattern, such as /data/\*.log."),
        ({"files": "/tmp"}, r"config.files is a folder. Name its files, such as /tmp/\*."),
        ({"files": "*", "maxBytes": 0}, "config.maxBytes is 0. Write a number from 1 on."),
        ({"files": "*", "follow": "no"}, "config.follow is 'no'. Write true or false."),
    ],
)
def test_mistakes_in_the_config_are_said(spout, conf, message):
    with pytest.raises(ValueError, match=message):
        spout.get_coordinator(conf, context_of())
    with pytest.raises(ValueError, match=message):
        spout.get_emitter(conf, context_of())


# ---- files, without what is away -----------------------------------------------------------------


def said_of_lag(context):
    lag = context.signals.take_lag()
    return None if lag is None else (lag.messages, lag.seconds)


@pytest.fixture
def at_noon(folder, monkeypatch):
    """Files of 20 and 10 seconds ago."""
    monkeypatch.setattr(files_module.time, "time", lambda: 1_000.0)
    os.utime(folder / "b.log", (980, 980))
    os.utime(folder / "d.log", (990, 990))


@pytest.mark.usefixtures("at_noon")
def test_the_lag_is_the_age_of_the_oldest_file_with_lines_in_no_transaction(folder):
    (folder / "e.log").write_text("no whole line")
    context = context_of()
    spout = FileTransactionalSpout(f"{folder}/*.log", max_bytes=6)
    coordinator = spout.get_coordinator({}, context)
    found, metadata = [(coordinator.lag(), said_of_lag(context))], None
    for txid in (1, 2):
        metadata = coordinator.initialize_transaction(txid, metadata)
        found.append((coordinator.lag(), said_of_lag(context)))
    assert found == [(None, None), (None, (None, 20.0)), (0, (0, 0.0))]


@pytest.mark.usefixtures("at_noon")
def test_the_opaque_spout_tells_it_for_the_files_of_each_task(folder, monkeypatch):
    (folder / "e.log").write_text("no whole line")
    monkeypatch.setattr(files_module, "LAG_SECONDS", -1.0)
    spout = OpaqueFileTransactionalSpout(f"{folder}/*.log", max_bytes=6)
    found = {}
    for task in range(3):
        context, metadata = context_of(task, 3), None
        emitter = spout.get_emitter({}, context)
        for _ in range(2):
            _, metadata = part_of(emitter, task, metadata)
            found.setdefault(task, []).append(said_of_lag(context))
    wanted = {task: [(0, 0.0), (0, 0.0)] for task in range(3)}
    for name, age in (("d", 10.0), ("b", 20.0)):
        wanted[zlib.crc32(f"{folder}/{name}.log".encode()) % 3][0] = (None, age)
    assert found == wanted


@pytest.mark.usefixtures("at_noon")
def test_a_file_that_is_left_out_is_behind(folder):
    context = context_of()
    emitter = OpaqueFileTransactionalSpout(f"{folder}/*.log").get_emitter({}, context)
    part_of(emitter, 0, {f"{folder}/b.log": 100})
    assert said_of_lag(context) == (None, 20.0)


def part_of(emitter, partition, last, collector=None):
    collector = collector or Collector()
    metadata = emitter.emit_partition_batch(at(1), collector, partition, last)
    return [row[1] for row in collector.rows], metadata


def test_each_file_belongs_to_one_partition(folder):
    spout = OpaqueFileTransactionalSpout(f"{folder}/*.log")
    context = context_of(tasks=3)
    assert spout.get_coordinator({}, context).num_partitions() == 3
    emitter = spout.get_emitter({}, context)
    found = {partition: part_of(emitter, partition, None)[0] for partition in range(3)}
    wanted = {partition: [] for partition in range(3)}
    for name in ("b", "d"):
        partition = zlib.crc32(f"{folder}/{name}.log".encode()) % 3
        wanted[partition] += [f"{name}{n}" for n in range(3)]
    assert found == wanted


def test_an_attempt_begins_where_the_last_transaction_ended(folder):
    spout = OpaqueFileTransactionalSpout(f"{folder}/*.log", max_bytes=6)
    emitter = spout.get_emitter({}, context_of())
    rows, first = part_of(emitter, 0, None)
    assert rows == ["b0", "b1", "d0", "d1"]
    assert part_of(emitter, 0, first)[0] == ["b2", "d2"]
    (folder / "c.log").write_text("c0\n")
    (folder / "b.log").rename(folder / "b.away")
    rows, second = part_of(emitter, 0, first)
    assert rows == ["c0", "d2"]
    (folder / "b.away").rename(folder / "b.log")
    assert part_of(emitter, 0, second)[0] == ["b2"]


def test_what_is_wrong_with_a_file_is_reported_once_and_others_go_on(folder, monkeypatch):
    emitter = OpaqueFileTransactionalSpout(f"{folder}/*.log").get_emitter({}, context_of())
    _, first = part_of(emitter, 0, None)
    (folder / "b.log").write_text("b0\n")
    (folder / "d.log").write_text("d0\nd1\nd2\nd3\n")
    collector = Collector()
    rows, second = part_of(emitter, 0, first, collector)
    rows_again, _ = part_of(emitter, 0, second, collector)
    assert (rows, rows_again) == (["d3"], ["d3"])
    assert collector.errors == [
        f"file '{folder}/b.log' has 3 bytes, but 9 were there before: it was cut or replaced."
        " Restore it, or give it another name. It is left out until then"
    ]

    def refuse(file, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)

    monkeypatch.setattr(files_module, "end_of_lines", refuse)
    rows, third = part_of(emitter, 0, second, collector)
    assert (rows[1:], third) == ([], second)
    assert "Permission denied" in collector.errors[-1]
