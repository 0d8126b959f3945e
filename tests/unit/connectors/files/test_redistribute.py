"""Files go to the tasks that their names belong to when the number of tasks changes."""

import pickle
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import Kept
from fulmen.connectors.files import FileSpout
from fulmen.connectors.files.positions import FileProgress, Position, message_id
from fulmen.engine.driver.checkpoints.redistribution import redistributed
from fulmen.engine.state.journals import FAILED
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.testing import ManualClock
from support.connectors.file_spouts import SpoutLives

NAMES = [f"{folder}/{name}.log" for folder in "xy" for name in ("app", "web", "db", "mail")]


class World:
    """Logs that grow and are rotated, and tasks that read them."""

    def __init__(self, folder, rng):
        self.folder, self.rng, self.clock = folder, rng, ManualClock(100.0)
        self.written, self.read, self.rotated = [], [], 0
        self.seen = Counter()
        for name in "xy":
            (folder / name).mkdir(parents=True)
        self.lives = [self.life(1, 0)]

    def life(self, tasks, index):
        path = str(self.folder / "*" / "*.log*")
        return SpoutLives(FileSpout, path=path, tasks=tasks, index=index, clock=self.clock)

    def write(self):
        name = self.rng.choice(NAMES)
        for _ in range(self.rng.randint(1, 5)):
            line = f"{name} {len(self.written)}"
            self.written.append(line)
            with (self.folder / name).open("a") as file:
                file.write(f"{line}\n")

    def rotate(self):
        file = self.folder / self.rng.choice(NAMES)
        if file.exists():
            self.rotated += 1
            file.rename(f"{file}.{self.rotated}")

    def ends(self, life, share):
        ended = [i for i in life.pending if self.rng.random() < share]
        at = self.rng.randint(0, len(ended))
        return ended[:at], ended[at:]

    def batch(self):
        life = self.rng.choice(self.lives)
        if self.rng.random() < 0.2:
            life.attempt(self.rng.randint(0, 9), *self.ends(life, 0.5))
            life.start()
        life.batch(self.rng.randint(0, 9), *self.ends(life, 0.5))

    def change(self):
        """All trees end; of those that have failed, their spout may not have heard yet."""
        resting, kept = {}, []
        for life in self.lives:
            acks, fails = self.ends(life, 1.0)
            rest = [i for i in fails if self.rng.random() < 0.5]
            life.batch(0, acks, [i for i in fails if i not in rest])
            life.end()
            changes = [(n, 0.0, msg_id, "a reason", 1) for n, msg_id in enumerate(rest)]
            resting |= {i: life.pending.pop(i) for i in rest}
            kept.append(life.journals | {FAILED: [pickle.dumps((changes, []))]})
            self.seen += Counter(resting=len(rest), again=len(life.spout.progress.again))
        self.look()
        tasks, number = self.rng.randint(1, 4), max(life.number for life in self.lives) + 1
        dealt = redistributed(FileSpout, kept, tasks, number)
        self.seen["finished"] += sum("state" in name for one in dealt for name in one)
        self.lives = [self.life(tasks, index) for index in range(tasks)]
        for life, records in zip(self.lives, dealt, strict=True):
            life.number = number
            life.journals = {journal: [data] for journal, (data, _) in records.items()}
            told = FailedMessages.restore(life.journals)
            life.journals.pop(FAILED, None)
            life.start()
            mine = [change[2] for change in told.everything()[0]]
            life.pending = {i: resting.pop(i) for i in mine}
            life.batch(0, fails=mine)
        assert not resting

    def look(self):
        for life in self.lives:
            assert all(stream == "default" for stream, _ in [*life.acked, *life.untracked])
            assert not life.collector.reported
            self.read += [values[0] for _, values in life.acked]
            life.acked.clear()

    def finish(self):
        for life in self.lives:
            life.finish()
            life.finish()
        self.look()


def lived(folder, seed):
    rng = random.Random(seed)
    world = World(folder, rng)
    steps = [world.write, world.write, world.batch, world.batch, world.rotate, world.change]
    for _ in range(40):
        rng.choice(steps)()
    world.finish()
    assert Counter(world.read) == Counter(world.written)
    SpoutLives.end_all()
    return world.seen


def test_each_line_is_read_once_whatever_the_number_of_tasks(tmp_path):
    seen = sum((lived(tmp_path / str(seed), seed) for seed in range(15)), Counter())
    assert min(seen["resting"], seen["again"], seen["finished"]) > 10


FILES = st.dictionaries(st.integers(0, 30), st.integers(0, 3), max_size=8)


def task(folders, inodes, files, *, before, index):
    """A task that has files open: by inode, how many messages of each have failed."""
    progress = FileProgress({}, len(files), folders, inodes)
    for n, (inode, failed) in enumerate(files.items()):
        number = n * before + index
        key = inode % len(folders), inode
        position = Position(key, f"{folders[key[0]]}/{inode}.log.3", offset=9, in_flight=failed)
        progress.positions[number] = position
        progress.again.extend(message_id(number, i) for i in range(failed))
    return Kept({"progress": progress})


@given(FILES, FILES, st.integers(1, 5))
def test_folders_and_numbers_of_two_tasks_become_one(ones, others, tasks):
    others = {inode: n for inode, n in others.items() if inode not in ones}
    kept = [
        task(["/a", "/b"], {0: 1, 1: 2}, ones, before=2, index=0),
        task(["/c", "/b", "/a"], {0: 3, 1: 5, 2: 1}, others, before=2, index=1),
    ]
    found = {}
    for index, one in enumerate(FileSpout.redistribute(kept, tasks)):
        progress = one.fields["progress"]
        assert progress.folders == ["/a", "/b", "/c"]
        assert progress.inodes == {0: 1, 2: 3}, "/b is another one to each task"
        for number, position in progress.positions.items():
            folder = progress.folders[position.key[0]]
            assert position.path == f"{folder}/{position.key[1]}.log.3"
            assert number < progress.next_number * tasks + index
            again = [i for i in progress.again if i >> 40 == number]
            assert len(again) == position.in_flight
            found[position.key[1]] = len(again)
    assert found == ones | others


def test_what_was_kept_before_a_file_was_renamed_goes_where_it_is_read_now():
    kept = task(["/a"], {0: 1}, {7: 0}, before=1, index=0)
    before = Position((0, 7), "/a/first.log", offset=5)
    assert before.owner % 5 != kept.fields["progress"].positions[0].owner % 5
    kept.state[0, 7] = before.summary()
    for one in FileSpout.redistribute([kept], 5):
        assert bool(one.state) == bool(one.fields["progress"].positions)


def twice(failed):
    """A file was renamed: the task that has read it knows it, and the one of its new name."""
    kept = [
        task(["/a"], {0: 1}, {7: 0}, before=2, index=0),
        task(["/a"], {0: 1}, {7: failed}, before=2, index=1),
    ]
    kept[0].fields["progress"].positions[0].stamp = 5
    kept[1].fields["progress"].positions[1].stamp = 3
    return kept


def test_of_a_file_that_two_tasks_have_the_latest_look_counts():
    (one,) = FileSpout.redistribute(twice(failed=0), 1)
    assert [p.stamp for p in one.fields["progress"].positions.values()] == [5]


def test_a_file_that_two_tasks_have_waits_for_its_messages():
    with pytest.raises(ValueError, match="try again when they are"):
        FileSpout.redistribute(twice(failed=1), 1)


def test_fields_of_a_derived_class_are_not_lost():
    class Own(FileSpout):
        pass

    with pytest.raises(ValueError, match="has the field 'seen' of its own"):
        Own.redistribute([Kept({"seen": 7})], 2)
    with pytest.raises(ValueError, match="has the key 'mine', which is no file's"):
        Own.redistribute([Kept({}, {"mine": 7})], 2)
