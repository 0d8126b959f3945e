"""Event time of files: each has times of its own, and one that is not read yet is waited for."""

import os
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.connectors.files import FileSpout, ParquetSpout
from fulmen.testing import run
from support.connectors.file_spouts import SpoutLives

TIMES = [60_000 * minute for minute in range(120)]


class Watching(BasicBolt):
    """Keeps each time, and the watermark that it saw with it."""

    transient: ClassVar = ("context",)

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        self.state[len(self.state)] = tup["at"], self.context.batch.watermark


def write(folder, kind, name, times):
    """A file; each one is newer than those before."""
    path = folder / name
    if kind is FileSpout:
        path.write_text("".join(f'{{"at": {at}}}\n' for at in times))
    else:
        pq.write_table(pa.table({"at": times}), path)
    moment = 1000 + len(list(folder.iterdir()))
    os.utime(path, (moment, moment))


def seen(folder, kind, tasks=1, **config):
    """How many tuples there were, how many of them were late, and the watermarks in between."""
    builder = TopologyBuilder(max_spout_pending=10)
    of_kind = {"format": {"type": "json", "fields": ["at"]}} if kind is FileSpout else {}
    of_kind = of_kind or {"fields": ["at"], "batch_rows": 10}
    spout = builder.set_spout("files", kind, tasks)
    spout.set_config({"path": f"{folder}/*", "follow": False, **of_kind, **config})
    spout.set_event_time("at", unit="ms", lag="1m")
    builder.set_bolt("watch", Watching).global_grouping("files")
    state = run(builder).state("watch")
    found = [state[i] for i in range(len(state))]
    marks = [mark for _, mark in found if mark is not None]
    assert marks == sorted(marks)
    late = sum(mark is not None and at < mark for at, mark in found)
    return len(found), late, marks


@pytest.mark.parametrize("kind", [FileSpout, ParquetSpout])
@pytest.mark.parametrize("tasks", [1, 3])
def test_files_of_the_same_times_have_nothing_late(tmp_path, kind, tasks):
    for name in ("a", "b", "c"):
        write(tmp_path, kind, name, TIMES)
    number, late, marks = seen(tmp_path, kind, tasks)
    assert (number, late) == (360, 0)
    assert marks, "the last file is followed"


def test_a_file_that_is_read_to_its_end_holds_nothing_up(tmp_path):
    write(tmp_path, FileSpout, "old", TIMES[:1])
    write(tmp_path, FileSpout, "new", TIMES)
    _, late, marks = seen(tmp_path, FileSpout)
    assert late == 0
    assert marks[-1] >= TIMES[90]


def test_files_that_follow_one_another_in_time_are_followed_one_by_one(tmp_path):
    for start in (0, 40, 80):
        write(tmp_path, FileSpout, f"{start:03}", TIMES[start : start + 40])
    number, late, marks = seen(tmp_path, FileSpout, inOrder=True)
    assert (number, late) == (120, 0)
    assert min(marks) < TIMES[40]
    _, _, marks = seen(tmp_path, FileSpout)
    assert min(marks) >= TIMES[80], "without inOrder, the last one is waited for"


def unread(life):
    return life.spout.unread_parts()


def test_what_is_unread_is_the_file_that_is_read_and_the_next_one(tmp_path):
    for name in ("a", "b", "c"):
        write(tmp_path, FileSpout, name, TIMES[:2])
    options = {"path": f"{tmp_path}/*", "follow": True, "poll_seconds": 1000}
    life = SpoutLives(FileSpout, **options)
    assert unread(life) == ["files that are not looked for yet"]
    life.attempt(calls=1)
    assert unread(life) == [f"{tmp_path}/a", f"{tmp_path}/b (not begun)"]
    number = next(iter(life.spout.progress.positions))
    assert life.spout.part_of(number << 40) == f"{tmp_path}/a"
    life.attempt(calls=100)
    assert unread(life) == []


def test_a_file_that_waits_holds_the_watermark_behind_one_that_is_read_on(tmp_path):
    """After a restart the file that was being read is the first in the queue, and has a time."""
    for name in ("a", "b"):
        write(tmp_path, FileSpout, name, TIMES[:5])
    life = SpoutLives(FileSpout, path=f"{tmp_path}/*", format={"type": "json", "fields": ["at"]})
    first = life.attempt(calls=2)
    life.commit(first)
    life.start()
    life.attempt(calls=1, fails=[first.emitted[0][2]])  # which comes before all else
    begun = {life.spout.part_of(msg_id) for _, _, msg_id in first.emitted}
    assert set(unread(life)) - begun, "no part is waited for"


def test_the_times_of_lines_that_come_later_count_when_all_are_read(tmp_path):
    """A file that is followed is at its end after each batch: the newest time counts then."""
    write(tmp_path, FileSpout, "a", TIMES[:50])
    builder = TopologyBuilder()
    spout = builder.set_spout("files", FileSpout)
    spout.set_config({"path": f"{tmp_path}/*", "format": {"type": "json", "fields": ["at"]}})
    spout.set_event_time("at", unit="ms")
    builder.set_bolt("watch", Watching).global_grouping("files")
    first = run(builder, batches=5)
    with (tmp_path / "a").open("a") as more:
        more.write('{"at": 7}\n')
    second = run(builder, batches=5, checkpoint=first)
    assert second.state("watch")[50] == (7, TIMES[49])
