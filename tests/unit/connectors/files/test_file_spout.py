"""Lines of files, by position: what is emitted, acked and known again after a kill."""

import bz2
import gzip
import os
import random
import resource

import pytest
from pydantic import ValidationError

from fulmen.api import ServiceUnavailable, Stream
from fulmen.connectors.files import FileSpout
from fulmen.connectors.files.options import FileSpoutOptions
from fulmen.connectors.files.places import local
from fulmen.connectors.files.places.local import BadPlace
from fulmen.connectors.files.positions import REST_SECONDS
from support.connectors.file_spouts import SpoutLives

CSV = {"type": "csv", "fields": ["b", "a"]}


def lives(path, **config):
    return SpoutLives(FileSpout, **{"path": str(path), **config})


def test_lines_of_all_files_are_emitted_and_the_spout_ends(tmp_path):
    (tmp_path / "a.log").write_text("one\ntwo\n")
    (tmp_path / "b.log").write_bytes(b"three\r\nfour")
    life = lives(tmp_path / "*.log", follow=False)
    assert not life.spout.is_exhausted()
    assert sorted(life.batch()) == [["four"], ["one"], ["three"], ["two"]]
    assert life.spout.is_exhausted()
    assert life.spout.knows_its_end


@pytest.mark.parametrize("follow", [True, False])
def test_the_age_of_what_is_not_read_grows_while_it_is_being_read(tmp_path, monkeypatch, follow):
    for name, moment in (("b", 2000), ("a", 1000)):
        (tmp_path / f"{name}.log").write_text("1\n2\n3\n")
        os.utime(tmp_path / f"{name}.log", (moment, moment))
    life = lives(tmp_path / "*.log", follow=follow, poll_seconds=1000)
    monkeypatch.setattr(FileSpout, "today", lambda: 3000 + life.clock.now)
    ages = []
    for _ in range(7):
        life.batch(calls=1)
        ages.append(life.context.signals.take_lag().seconds - life.clock.now)
    assert ages[:3] == [2000, 2000, 2000]
    assert ages[4:6] == [1000, 1000]
    life.batch()
    assert life.context.signals.take_lag() == (0, 0.0)


def test_a_file_that_comes_later_is_found_when_the_interval_is_over(tmp_path):
    life = lives(tmp_path / "*.log", poll_seconds=10)
    assert life.attempt().emitted == []
    (tmp_path / "a.log").write_text("one\n")
    life.clock.advance(9.9)
    assert life.attempt().emitted == []
    life.clock.advance(0.2)
    assert [values for _, values, _ in life.attempt().emitted] == [["one"]]


def test_a_last_line_waits_for_its_line_feed(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("one\ntw")
    life = lives(file)
    assert life.batch() == [["one"]]
    with file.open("a") as more:
        more.write("o\nthree\n")
    assert life.batch() == [["two"], ["three"]]


@pytest.mark.parametrize("kills", [False, True])
def test_a_renamed_file_is_read_to_its_end_before_the_new_one(tmp_path, kills):
    file = tmp_path / "app.log"
    file.write_text("1\n2\n")
    life = lives(file)
    assert life.batch() == [["1"], ["2"]]
    writer = file.open("a")
    file.rename(tmp_path / "app.log.1")
    writer.write("3\n")
    writer.close()
    os.utime(tmp_path / "app.log.1", (1000, 1000))
    file.write_text("4\n")
    if kills:
        life.start()
    assert life.batch() == [["3"], ["4"]]
    life.finish()
    assert sorted(life.values()) == [["1"], ["2"], ["3"], ["4"]]


def test_a_pattern_that_matches_renamed_files_repeats_nothing(tmp_path):
    file = tmp_path / "app.log"
    file.write_text("1\n")
    tasks = [
        SpoutLives(FileSpout, path=str(tmp_path / "app.log*"), tasks=3, index=i) for i in range(3)
    ]
    seen = [values for task in tasks for values in task.batch()]
    for name, text in [("app.log.1", "2\n"), ("app.log-20260131", "3\n")]:
        file.rename(tmp_path / name)
        file.write_text(text)
        for task in tasks:
            task.start()
            seen += task.batch()
    assert seen == [["1"], ["2"], ["3"]]


def test_the_last_line_of_a_renamed_file_counts_when_it_does_not_grow(tmp_path):
    file = tmp_path / "app.log"
    file.write_text("1\n2")
    life = lives(file)
    assert life.batch() == [["1"]]
    file.rename(tmp_path / "app.log.1")
    assert life.batch() == []
    life.clock.advance(REST_SECONDS)
    assert life.batch() == [["2"]]
    assert life.batch() == []


def test_a_file_that_is_cut_is_read_from_its_start(tmp_path):
    file = tmp_path / "app.log"
    file.write_text("1\n2\n3\n")
    life = lives(file)
    life.finish()
    file.write_text("4\n")
    assert life.batch() == [["4"]]
    assert life.collector.reported == []


@pytest.mark.parametrize("kills", [False, True])
def test_a_file_that_is_cut_and_has_grown_beyond_its_old_end_is_noticed(tmp_path, kills):
    file = tmp_path / "app.log"
    file.write_text("1\n")
    life = lives(file)
    life.finish()
    file.write_text("2\n3\n4\n")
    if kills:
        life.start()
    assert life.batch() == [["2"], ["3"], ["4"]]


def test_lines_that_were_cut_off_unacked_are_told(tmp_path):
    file = tmp_path / "app.log"
    file.write_text("1\n2\n")
    life = lives(file)
    life.batch()
    first = min(life.pending)
    file.write_text("3\n")
    [[_, told, _], *rows] = life.batch()
    assert rows == [["3"]]
    assert told.endswith("It was read up to byte 4. Messages not acked yet: 2")
    assert life.collector.reported == [told]
    [[data, reason, position]] = life.batch(fails=[first])
    assert (data, position) == (b"", f"{file}:0")
    assert "before the message was acked" in reason
    life.finish()
    assert sorted(life.values()) == [["2"], ["3"]]
    assert len(life.values("errors")) == 1


@pytest.mark.parametrize("change", ["nothing", "renamed", "removed, but open"])
def test_a_failed_message_is_read_again(tmp_path, change):
    file = tmp_path / "a.log"
    file.write_text("1\n2\n3\n")
    life = lives(file)
    life.batch()
    ids = sorted(life.pending)
    if change == "renamed":
        life.start()
        life.batch()
        file.rename(tmp_path / "other")
    elif change != "nothing":
        file.unlink()
    assert life.batch(fails=[ids[1]]) == [["2"]]
    assert sorted(life.pending) == ids


def test_a_failure_outlives_its_process_before_it_is_emitted_again(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("1\n2\n")
    life = lives(file)
    life.batch()
    life.batch(calls=0, fails=[min(life.pending)])
    life.start()
    assert life.batch() == [["1"]]


def test_nothing_is_kept_of_lines_and_little_of_finished_files(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_RECENT_SECONDS", 1e9)  # else what is kept changes when they rest
    for i in range(200):
        (tmp_path / f"{i}.log").write_text(f"{'x' * 1000}\n")
    life = lives(tmp_path / "*.log")
    life.finish()
    assert life.spout.progress.positions == {}
    assert len(life.author.state) == 200
    (tmp_path / "new.log").write_text("y\n")
    life.batch()
    life.batch(acks=list(life.pending))
    assert life.written < 1000


def test_a_removed_file_is_forgotten_while_its_folder_is_there(tmp_path):
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("1\n")
    life = lives(tmp_path / "*.log")
    life.finish()
    (tmp_path / "a.log").unlink()
    life.batch()
    assert len(life.author.state) == 1


def test_files_of_a_volume_that_is_away_for_a_while_are_not_read_again(tmp_path):
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "a.log").write_text("1\n")
    life = lives(folder / "*.log")
    life.finish()
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    assert life.batch() == []
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    assert life.batch() == []


def test_bad_lines_go_to_errors_and_the_others_go_on(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"a": 1}\n{"a"\n{"a": 2}\n' + b"x" * 100 + b"\n")
    life = lives(file, format={"type": "json", "fields": ["a"]}, max_line_bytes=50)
    life.finish()
    assert life.values() == [[1], [2]]
    (bad, why, where), (long, reason, _) = life.values("errors")
    assert (bad, where) == (b'{"a"', f"{file}:9")
    assert why.startswith("it is not JSON")
    assert (long, reason) == (b"x" * 50, "it has more than 50 bytes")


def test_csv_with_a_header_is_read_by_name_also_after_a_kill(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('\ufeffa,b,c\n1,"two\nlines",3\n4,5,6\n7\n9,10,11\n')
    life = lives(file, format=CSV, header=True)
    assert life.batch(calls=1) == [["two\nlines", "1"]]
    life.start()
    assert life.batch(calls=1) == [["5", "4"]]
    assert life.batch(fails=[min(life.pending)], calls=1) == [["two\nlines", "1"]]
    life.finish()
    assert sorted(life.values()) == [["10", "9"], ["5", "4"], ["two\nlines", "1"]]
    assert life.values("errors") == [[b"7", "it has 1 value, not 3", f"{file}:31"]]


def test_what_is_told_of_a_file_whose_name_is_no_unicode_can_be_written_down(tmp_path):
    path = f"{tmp_path}/a\udcff.json"
    with open(path, "wb") as file:
        file.write(b'{"id": 1}\nbad\n{"id": 2}\n')
    form = {"type": "json", "fields": ["id"]}
    life = lives(tmp_path / "*", format=form, fileField="file")
    life.batch()
    shown = f"{tmp_path}/a\\udcff.json"
    assert [life.spout.part_of(one) for one in life.pending] == [shown] * 3
    life.finish()
    assert life.values() == [[1, shown], [2, shown]]
    [(_, _, position)] = life.values("errors")
    assert position == f"{shown}:10"
    os.unlink(path)
    life.batch()
    with open(path, "wb") as file:
        file.write(b"gone")
    assert life.batch() == []  # a last line without a line feed
    os.unlink(path)
    life.batch()
    texts = [text for _, values in life.untracked for text in values if isinstance(text, str)]
    assert [text for text in texts if shown in text and text.isprintable()] == texts != []


def test_a_header_that_is_still_being_written_is_waited_for(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,")
    life = lives(file, format=CSV, header=True)
    assert life.batch() == []
    file.write_text("a,b\n1,2\n")
    assert life.batch() == [["2", "1"]]


def test_a_header_without_a_field_makes_the_records_of_its_file_malformed(tmp_path):
    (tmp_path / "a.csv").write_text("a,x\n1,2\n")
    life = lives(tmp_path / "a.csv", format=CSV, header=True)
    life.finish()
    assert life.values("errors") == [
        [b"1,2", "the file's header has no 'b', only ['a', 'x']", f"{tmp_path}/a.csv:4"]
    ]


def test_a_quote_that_is_never_closed_spoils_one_record(tmp_path):
    (tmp_path / "a.csv").write_text('1,"2\n3,4\n5,6\n')
    life = lives(tmp_path / "a.csv", format=CSV, follow=False)
    life.finish()
    assert life.values() == [["3", "4"], ["5", "6"]]
    assert [data for data, *_ in life.values("errors")] == [b'1,"2']


def test_compressed_files_are_read_on_and_again(tmp_path):
    file = tmp_path / "a.log.gz"
    file.write_bytes(gzip.compress(b"1\n2\n3\n4"))
    life = lives(tmp_path / "*.gz")
    assert life.batch(calls=2) == [["1"], ["2"]]
    life.start()
    assert life.batch(fails=[min(life.pending)]) == [["1"], ["3"], ["4"]]
    life.finish()
    life.start()
    assert life.batch() == []
    assert sorted(life.values()) == [["1"], ["2"], ["3"], ["4"]]


def test_a_compressed_file_that_is_still_written_is_waited_for(tmp_path):
    whole = gzip.compress(os.urandom(3000).hex().encode() + b"\nlast\n")
    file = tmp_path / "a.gz"
    file.write_bytes(whole[:1000])
    life = lives(file)
    assert life.batch() == []
    file.write_bytes(whole)
    assert life.batch()[1:] == [["last"]]


def test_lines_before_the_place_where_a_gzip_is_damaged_are_emitted(tmp_path):
    lines = [os.urandom(500).hex() for _ in range(100)]
    whole = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) // 2])
    life = lives(tmp_path / "a.gz", follow=False)
    life.finish()
    good = [value for (value,) in life.values()]
    assert 20 < len(good) < 80
    assert good == lines[: len(good)]
    [(stream, (data, reason, _))] = life.untracked
    assert (stream, data) == ("errors", b"")
    assert reason.startswith("it is not gzip")


def test_long_lines_are_read_a_megabyte_at_once(tmp_path):
    (tmp_path / "a.log").write_bytes(b"".join(b"x" * 100_000 + b"\n" for _ in range(40)))
    life = lives(tmp_path / "a.log")
    life.collector.room = 1000
    life.spout.next_tuple()
    assert len(life.collector.take()) == 11


@pytest.mark.parametrize(
    ("name", "pack"),
    [("A.GZ", gzip.compress), ("a.bz2", bz2.compress), ("a.log.1.BZ2", bz2.compress)],
)
def test_files_that_are_packed_are_unpacked_by_their_names(tmp_path, name, pack):
    data = b"".join(b"%d\n" % i for i in range(2000))
    (tmp_path / name).write_bytes(pack(data) + pack(b"more\n"))
    (tmp_path / f"half-{name}").write_bytes(pack(os.urandom(300).hex().encode())[:-100])
    (tmp_path / f"none-{name}").write_bytes(b"not packed at all")
    life = lives(tmp_path / "*", follow=False)
    life.batch(calls=1)
    life.batch(fails=list(life.pending))
    life.finish()
    assert sorted(life.values()) == sorted([[line] for line in data.decode().split()] + [["more"]])
    said = "it is not bzip2" if "bz" in name.lower() else "it is not gzip"
    assert [values[1].partition(":")[0] for _, values in life.untracked] == [said, said]


def test_files_that_can_not_be_unpacked_are_told(tmp_path):
    (tmp_path / "a.csv.ZST").write_bytes(b"\x28\xb5\x2f\xfd")
    life = lives(tmp_path / "*", follow=False, format={"type": "bytes"})
    life.finish()
    [(_, (_, said, _))] = life.untracked
    assert said == "files that end in '.zst' can't be unpacked. Compress them as .gz or .bz2"


def test_what_is_no_gzip_goes_to_errors_as_a_whole(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"no gzip at all")
    life = lives(tmp_path / "a.gz")
    [[data, reason, _]] = life.batch()
    assert data == b""
    assert reason.startswith("it is not gzip")
    assert life.batch() == []


def test_the_files_name_is_a_field_if_it_is_asked_for(tmp_path):
    (tmp_path / "a.log").write_text("1\n")
    life = lives(tmp_path / "a.log", file_field="file")
    assert life.batch() == [["1", f"{tmp_path}/a.log"]]
    assert life.spout.outputs_for(life.context.options) == {
        "default": Stream(("value", "file")),
        "errors": Stream(("data", "reason", "position")),
    }


def test_each_file_is_read_by_one_task(tmp_path):
    for i in range(40):
        (tmp_path / f"{i}-of.log").write_text(f"{i}\n")
    path = str(tmp_path / "*.log")
    parts = [SpoutLives(FileSpout, path=path, tasks=4, index=i).batch() for i in range(4)]
    assert sorted(int(v) for part in parts for [v] in part) == list(range(40))
    assert all(parts)


def test_a_file_that_is_named_and_missing_is_a_mistake_unless_it_may_come(tmp_path):
    lives(tmp_path / "a.log")
    with pytest.raises(BadPlace, match=r"there is no file '.*/a\.log'\. Check the path"):
        lives(tmp_path / "a.log", follow=False)


def test_a_folder_of_a_pattern_that_is_missing_is_a_mistake_unless_it_may_come(tmp_path):
    """Such as that of a relative path, of a job that cron starts in another folder."""
    lives(tmp_path / "in" / "2026-*" / "*.log")
    with pytest.raises(BadPlace, match=r"there is no folder '.*/in'\. Check the path"):
        lives(tmp_path / "in" / "2026-*" / "*.log", follow=False)
    (tmp_path / "in").mkdir()
    assert lives(tmp_path / "in" / "2026-*" / "*.log", follow=False).batch() == []


@pytest.mark.parametrize("follow", [True, False])
def test_a_folder_that_is_named_as_a_file_is_told_with_what_to_write(tmp_path, follow):
    (tmp_path / "a.log").write_text("a line\n")
    with pytest.raises(BadPlace, match=r"config\.path: '.*' is a folder\. Name its files, such as"):
        lives(f"{tmp_path}/", follow=follow)


def test_a_file_that_can_not_be_opened_for_now_means_that_the_source_is_away(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.log").write_text("a line\n")
    life = lives(tmp_path / "*.log", poll_seconds=10)
    assert life.batch(calls=1) == [["a line"]]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    away = pytest.raises(ServiceUnavailable, match=r"\*\.log can't be read: .*Too many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with away:
            life.attempt()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert life.batch() == []  # it is not asked again at once
    life.clock.advance(10)
    assert life.batch() == [["a line"]]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"format": {"type": "csv"}}, "format.fields is missing"),
        ({"header": True}, "header is for the format csv only"),
        ({"file_field": "value"}, "the format has a field 'value' already"),
        ({"path": []}, "at least 1 item"),
        ({"poll_seconds": 0}, "greater than 0"),
        ({"pollSecond": 1}, "Extra inputs"),
    ],
)
def test_mistakes_in_the_config_are_found(config, message):
    with pytest.raises(ValidationError, match=message):
        FileSpoutOptions(**{"path": "x", **config})


class World:
    """A writer of numbered lines, whose files are renamed, cut and removed; and a spout's lives."""

    def __init__(self, folder, seed):
        self.rng, self.folder, self.file = random.Random(seed), folder, folder / "app.log"
        self.finds_renamed = bool(seed % 2)
        self.life = lives(folder / "app.log*" if self.finds_renamed else self.file)
        self.written, self.begun, self.faults = 0, "", 0

    def write_whole(self):
        with self.file.open("a") as out:
            for _ in range(self.rng.randint(1, 30)):
                out.write(f"line {self.written}\n"[len(self.begun) :])
                self.begun = ""
                self.written += 1

    def write(self):
        self.write_whole()
        with self.file.open("a") as out:
            if self.rng.random() < 0.3:
                self.begun = f"line {self.written}\n"[: self.rng.randint(1, 6)]
                out.write(self.begun)

    def rename(self):
        if self.begun or not self.file.exists():
            return
        if not self.finds_renamed:  # then it must have been seen under its first name
            self.life.batch()
            self.write_whole()
        for i in range(9, 0, -1):
            if (old := self.folder / f"app.log.{i}").exists():
                old.rename(self.folder / f"app.log.{i + 1}")
        self.file.rename(self.folder / "app.log.1")
        self.faults += 1

    def cut(self):
        if self.begun or not self.file.exists():
            return
        self.life.finish()
        with self.file.open("r+") as out:
            out.truncate()
        self.faults += 1

    def remove(self):
        self.life.finish()
        for old in self.folder.glob("app.log.*"):
            old.unlink()
            self.faults += 1

    def kill(self):
        self.life.attempt(self.rng.randint(0, 40), *self.ends())
        self.life.start()
        self.faults += 1

    def batch(self):
        self.life.batch(self.rng.randint(0, 40), *self.ends())

    def ends(self):
        ended = [i for i in self.life.pending if self.rng.random() < 0.5]
        at = self.rng.randint(0, len(ended))
        return ended[:at], ended[at:]

    def step(self):
        steps = [self.write] * 4 + [self.batch] * 6 + [self.kill] * 3
        self.rng.choice([*steps, self.rename, self.rename, self.cut, self.remove])()


@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", range(12))
def test_each_line_is_acked_once_whatever_happens_to_files_and_processes(tmp_path, seed):
    world = World(tmp_path, seed)
    while world.faults < 60:
        world.step()
    world.write_whole()
    world.life.clock.advance(100)
    world.life.finish()
    world.life.finish()
    seen = [value for [value] in world.life.values()]
    whole = [f"line {i}" for i in range(world.written)]
    assert sorted(seen) == sorted(whole)
    assert world.life.values("errors") == []


def test_failed_lines_of_a_compressed_file_are_read_in_their_order_and_once(tmp_path):
    file = tmp_path / "a.log.gz"
    file.write_bytes(gzip.compress("".join(f"{i}\n" for i in range(400)).encode()))
    life = lives(file)
    life.batch()
    ids = sorted(life.pending)
    bad = ids[::-7]
    expected = [[str(i)] for i in range(400) if ids[i] in set(bad)]
    assert life.batch(fails=bad) == expected
    file.write_bytes(b"x" * file.stat().st_size)  # in its place: it can't be read any more
    assert life.batch(fails=bad)[: len(expected)] == expected


def test_new_lines_are_read_on_while_failed_ones_are_read_again(tmp_path):
    file = tmp_path / "a.log"
    file.write_text("".join(f"{i}\n" for i in range(50)))
    life = lives(file)
    first = life.batch(calls=1)
    again = life.batch(calls=1, fails=[min(life.pending)])
    rest = life.batch()
    assert [*first, *again, *rest].count(["0"]) == 2
    assert sorted({int(v) for [v] in [*first, *rest]}) == list(range(50))
