"""State on disk is read ahead for another number of tasks, while spouts still emit."""

import threading
from collections import Counter
from itertools import count

import pytest

from fulmen import BasicBolt, TopologyBuilder, own_files
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.state.entries.disk_journals import TaskSegments
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import NotFound
from fulmen.testing import ListSpout, ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store, state_of

KEYS = [[f"key {i if i < 400 else i % 20}"] for i in range(2400)]


class Counts(BasicBolt):
    """Counts keys, and knows for a while, until a timer, that one came."""

    outputs = ("key",)
    transient = ("context",)

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        key = tup["key"]
        self.state[key, "n"] = self.state.get((key, "n"), 0) + 1
        if (key, "came") not in self.state:
            self.state[key, "came"] = True
            self.context.timers.set_after(("forget", key), 0.02)

    def on_timer(self, key, at, collector):
        del self.state[key[1], "came"]


class Told(Silent):
    """What a person is told."""

    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


class Life:
    """A running topology whose bolt gets other numbers of tasks."""

    def __init__(self, fault=None):
        self.store, self.told, self.clock = new_store(), Told(), ManualClock()
        self.start(2, fault)
        for _ in range(8):
            self.driver.step()

    def start(self, tasks, fault=None):
        jobs = Steady(self.clock, fault=fault, store=self.store)
        self.driver = make_driver(
            self.topology(tasks), store=self.store, observer=self.told, jobs=jobs, clock=self.clock
        ).start()

    def topology(self, tasks, limit="10Gi"):
        builder = TopologyBuilder(max_spout_pending=60, keyed_state={"diskLimit": limit})
        builder.set_spout("source", ListSpout(KEYS, fields=["key"]))
        bolt = builder.set_bolt("counts", Counts, tasks).set_keyed_state("disk")
        bolt.fields_grouping("source", ["key"])
        return builder.build().with_each(lambda one: {"num_tasks": one.tasks})

    def change(self, tasks):
        stop = Stop(topology=self.topology(tasks))
        while stop.topology is not None:
            self.driver.follow(stop)
            self.driver.step()
        assert len(self.driver.plan.tasks("counts")) == tasks

    def end(self):
        """Run to the end: all is as if nothing had happened."""
        self.driver.run(Stop(when_drained=True))
        there = state_of(self.driver, "counts").items()
        self.driver.close()
        assert {k: n for (k, what), n in there if what == "n"} == Counter(k for [k] in KEYS)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(own_files.STATE_FOLDER, str(tmp_path))
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """What is read of the checkpoint: whether ahead, by which task, which journal."""
    found, main, before = [], threading.current_thread(), TaskSegments.read

    def noted(self, journals):
        is_ahead = threading.current_thread() is not main
        found.extend((is_ahead, self._task, journal) for journal in journals)
        return before(self, journals)

    monkeypatch.setattr(TaskSegments, "read", noted)
    return found


def test_what_was_read_ahead_is_not_read_again_by_the_tasks_to_come(read):
    life = Life()
    read.clear()
    life.change(5)
    ahead = Counter(one[1:] for one in read if one[0])
    after = Counter(one[1:] for one in read if not one[0])
    assert {task for task, _ in ahead} == {f"counts/{i}" for i in range(5)}
    assert max(ahead.values()) == 1  # the second round reads what the first has not
    there = {(task, j) for task, refs in life.driver.log.manifest.tasks.items() for j in refs}
    assert len(there & ahead.keys()) > 5
    assert not ahead & after
    note = "state of 'counts' is read ahead, then the number of tasks changes"
    assert life.told.notes.count(note) == 1
    life.change(3)
    life.end()


def test_it_is_read_ahead_at_a_restart_as_well_if_trees_are_pending(read):
    life = Life()
    read.clear()
    life.start(5)
    assert life.driver.coordinator.active
    life.end()
    assert len(life.driver.plan.tasks("counts")) == 5
    ahead = {(task, journal) for is_ahead, task, journal in read if is_ahead}
    assert "state of 'counts' is read ahead" in life.told.notes[0]
    assert ahead


@pytest.mark.parametrize("at", [1, 30])
def test_a_worker_that_dies_meanwhile_begins_anew(at):
    life, calls, is_on = None, count(), False

    def fault(*_):
        if is_on and next(calls) == at:
            raise Crash

    life = Life(fault)
    is_on = True
    life.change(4)
    life.end()


def test_a_checkpoint_that_has_gone_on_meanwhile_is_read_as_it_is_now(monkeypatch):
    life, left, read = Life(), [3], TaskSegments._read

    def gone(self, journals):
        if left and threading.current_thread() is not threading.main_thread():
            left[0] -= 1
            if not left[0]:
                left.clear()
            raise NotFound("store", "an object")
        return read(self, journals)

    monkeypatch.setattr(TaskSegments, "_read", gone)
    life.change(3)
    assert not left
    life.end()


def test_a_task_that_finds_objects_gone_keeps_no_other_from_reading_ahead(read, monkeypatch):
    life, before = Life(), TaskSegments._read
    read.clear()

    def gone(self, journals):
        is_ahead = threading.current_thread() is not threading.main_thread()
        if is_ahead and not {task for _, task, _ in read} - {"counts/0"}:
            raise NotFound("store", "an object")
        return before(self, journals)

    monkeypatch.setattr(TaskSegments, "_read", gone)
    life.change(3)
    tasks = [task for is_ahead, task, _ in read if is_ahead]
    assert tasks.index("counts/1") < len(tasks) - 1 - tasks[::-1].index("counts/0")
    assert not [one for one in read if not one[0] and one[1] == "counts/1"]
    life.end()


def test_a_disk_without_room_for_both_changes_the_number_all_the_same(read):
    life = Life()
    life.topology = lambda tasks: Life.topology(life, tasks, "1Ki")
    life.change(2)
    read.clear()
    life.change(3)
    assert not [one for one in read if one[0]]
    [note] = [note for note in life.told.notes if "can't be read ahead" in note]
    assert note.endswith("MB, and diskLimit has no room for twice that meanwhile")
    life.end()


def test_a_change_that_is_taken_back_leaves_nothing_on_disk(folder):
    life = Life()
    life.driver.follow(Stop(topology=life.topology(7)))
    while not list(folder.glob("*/*/7")):
        life.driver.step()
    life.driver.follow(Stop())
    life.driver.step()
    assert not list(folder.glob("*/*/7"))
    life.end()
