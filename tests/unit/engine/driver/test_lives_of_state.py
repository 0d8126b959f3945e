"""State through a life: whatever is done to a checkpoint, in any order, its counts are a dict's."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder, own_files
from fulmen.checkpoint import CommitLog
from fulmen.checkpoint.savepoints.exports import export, opened
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import GONE, StateWriter
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.driver.edits.restoring import copied, go_back
from fulmen.engine.driver.edits.undo import undo
from fulmen.engine.state.committed_entries import entries_in
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import ListSpout, run
from support.runs.engine_runs import A_PERSON, new_store
from support.stores.savepoints import pinned

KEYS = [f"k{i}" for i in range(12)]


class Counts(BasicBolt):
    """Counts keys."""

    outputs = ("key", "count")

    def execute(self, tup, collector):
        key = tup["key"]
        self.state[key] = self.state.get(key, 0) + 1
        collector.emit([key, self.state[key]])


class Life:
    """A topology and what its state is to be."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count()
        self.store = new_store()
        self.fed, self.counts = [], {}
        self.names, self.tasks, self.backend = ["count0"], 2, "memory"
        self.renames = {}
        self.started = None  # with these names and so many tasks
        self.savepoints, self.edits = {}, []

    def topology(self):
        before, name = self.started[0][-1] if self.started else "", self.names[-1]
        if before and before != name:
            self.renames = {before: name}
        elif name not in self.renames.values():
            self.renames = {}
        builder = TopologyBuilder("life", renames=self.renames)
        builder.set_spout("source", ListSpout(self.fed, fields=["key"]))
        bolt = builder.set_bolt(self.names[-1], Counts, self.tasks)
        bolt.fields_grouping("source", ["key"]).set_keyed_state(self.backend)
        return builder.build().with_each(lambda one: {"num_tasks": one.tasks})

    def go_on(self, fault=None):
        run(self.topology(), checkpoint=self.store, end_of_input=False, fault=fault)
        self.started = [*self.names], self.tasks

    def check(self):
        by_task = read_state(self.store, self.names[-1]).tasks
        found = [item for of_one in by_task.values() for item in of_one.items()]
        assert sorted(found) == sorted(self.counts.items())

    # What happens

    def feed(self, keys):
        self.fed = [*self.fed, *keys]
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1
        self.go_on()

    def crash(self, keys, at):
        self.fed = [*self.fed, *keys]
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1
        calls = itertools.count()

        def fault(*_):
            if next(calls) == at:
                raise Crash

        self.go_on(fault)

    def rescale(self, tasks):
        self.tasks = tasks

    def rename(self):
        self.names.append(f"count{len(self.names)}")

    def rename_back(self):
        if len(self.names) > 1:
            self.names.pop()

    def move(self):
        self.backend = "disk" if self.backend == "memory" else "memory"

    def savepoint(self):
        name = f"s{next(self.numbers)}"
        pinned(self.store, name)
        self.savepoints[name] = self.said()

    def said(self):
        return [*self.fed], {**self.counts}, [*self.edits], *self.started

    def go_back(self, which, keeps_shape):
        if not self.savepoints:
            return
        name = sorted(self.savepoints)[which % len(self.savepoints)]
        log = CommitLog(self.store, "life", "a person")
        log.claim()
        go_back(log, self.store, name, 9.0)
        fed, counts, edits, names, tasks = self.savepoints[name]
        self.fed, self.counts, self.edits = [*fed], {**counts}, [*edits]
        self.started = names, tasks
        if not keeps_shape:
            self.names, self.tasks, self.renames = [*names], tasks, {}
        self.go_on()

    def copy(self, which):
        if not self.savepoints:
            return
        name = sorted(self.savepoints)[which % len(self.savepoints)]
        target = str(self.folder / f"{next(self.numbers)}.tar")
        export(self.store, name, target)
        self.store = new_store()
        with opened(target) as savepoint:
            copied(savepoint, self.store, "life", "a person")
        fed, counts, edits, names, tasks = self.savepoints[name]
        self.fed, self.counts, self.edits = [*fed], {**counts}, [*edits]
        self.names, self.tasks, self.started = [*names], tasks, (names, tasks)
        self.savepoints, self.renames = {}, {}
        self.go_on()

    def edit(self, key, value):
        self.go_on()
        edit = Edit(self.store, A_PERSON)
        name = self.names[-1]
        there = [e for e in entries_in(self.store, edit.manifest, name, "state") if e.key == key]
        if there:
            [entry] = there
            task, before = entry.task, entry.value
        else:
            task, before = Owners(self.store, edit.manifest, name, "state").task_of(key), GONE
            if task is None or value is None:
                return
        assert before == self.counts.get(key, GONE)
        writer = StateWriter(edit, name, "state")
        writer.write(task, key, GONE if value is None else value, before)
        writer.commit("set")
        self.edits.append((edit.number, key, before, value))
        self._set(key, GONE if value is None else value)

    def _set(self, key, value):
        if value is GONE:
            self.counts.pop(key, None)
        else:
            self.counts[key] = value

    def undo(self, which):
        if not self.edits:
            return
        number, key, before, _ = self.edits[which % len(self.edits)]
        self.edits.remove(self.edits[which % len(self.edits)])
        self.go_on()
        undo(self.store, number, A_PERSON, anyway=True)
        self._set(key, before)


SOME = st.lists(st.sampled_from(KEYS), min_size=1, max_size=15)
N = st.integers(0, 5)
OF_THE_TOPOLOGY = st.one_of(
    st.tuples(st.just("rescale"), st.integers(1, 5)),
    st.tuples(st.sampled_from(["rename", "rename_back", "move"])),
)
OF_THE_CHECKPOINT = st.one_of(
    st.tuples(st.just("feed"), SOME),
    st.tuples(st.just("crash"), SOME, st.integers(0, 20)),
    st.tuples(st.just("savepoint")),
    st.tuples(st.just("go_back"), N, st.booleans()),
    st.tuples(st.just("copy"), N),
    st.tuples(st.just("edit"), st.sampled_from(KEYS), st.none() | st.integers(0, 99)),
    st.tuples(st.just("undo"), N),
)
STEPS = st.tuples(st.lists(OF_THE_TOPOLOGY, max_size=2), OF_THE_CHECKPOINT)


@settings(max_examples=3, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=8))
@example([([("rename",), ("rescale", 3)], ("undo", 0)), ([("move",)], ("go_back", 0, True))])
@example([([("rename",), ("rescale", 5)], ("savepoint",)), ([("move",), ("rename",)], ("copy", 0))])
def test_counts_are_those_of_a_dict(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("life")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(own_files.STATE_FOLDER, str(folder))
        live(folder, steps)


def live(folder, steps):
    """Go through a life. At first it has all that can be gone back to."""
    life = Life(folder)
    life.feed(KEYS)
    life.edit(KEYS[0], 50)
    life.savepoint()
    for changes, (name, *arguments) in steps:
        for change, *how in changes:
            getattr(life, change)(*how)
        getattr(life, name)(*arguments)
        life.go_on()
        life.check()
