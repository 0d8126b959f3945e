"""A store of a committer, or the checkpoint, is set back: it is told, and a command decides."""

import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from fulmen import BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.api.marks import Point
from fulmen.checkpoint import Store
from fulmen.engine.driver.edits.decisions import accept_store
from fulmen.engine.driver.edits.read_again import SetBack, read_again
from fulmen.errors import CheckpointError, TopologyFailed
from fulmen.services.pools import close_all
from fulmen.testing import run
from fulmen.transactional import MemoryTransactionalSpout, SqliteMap, plus
from support.runs.engine_runs import A_PERSON
from support.stores.savepoints import pinned


class Sum(BatchBolt, Committer):
    """Counts rows by their first letter."""

    name = "sums"

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.partials = attempt, {}
        self.map = SqliteMap(conf["file"], self.name, context, value="integer")

    def execute(self, tup):
        self.partials[tup[1][0]] = self.partials.get(tup[1][0], 0) + 1

    def finish_batch(self):
        self.map.update(self.attempt, self.partials, plus)


class Other(Sum):
    name = "others"


class Forgetful(Sum):
    def finish_batch(self):
        if "c" in self.partials:
            super().finish_batch()


class Life:
    """A topology with a checkpoint and a file of SQLite, both of which can be set back."""

    def __init__(self, folder):
        self.folder, self.checkpoint, self.file = folder, folder / "ck", folder / "x.db"

    @property
    def store(self):
        return Store.open(f"file://{self.checkpoint}?fsync=false")

    def run(self, to, *others, bolt=Sum, tasks=None):
        """Have `to` rows of each partition counted, ten in a transaction."""
        data = {p: [[f"{letter}{i}"] for i in range(to)] for p, letter in enumerate("ab")}
        spout = MemoryTransactionalSpout(data, ["row"], 10)
        builder = TransactionalTopologyBuilder("t", "rows", spout, max_spout_pending=2)
        for name, kind in [("sum", bolt), *others]:
            made = builder.set_bolt(name, kind).set_config({"file": str(self.file)})
            if tasks is None:
                made.global_grouping("rows")
            else:
                made.set_num_tasks(tasks).fields_grouping("rows", ["row"])
        result = run(builder, checkpoint=self.store, at_most=100)
        close_all()
        return result

    def refused(self, to, **how):
        before = self.read()
        with pytest.raises(TopologyFailed) as e:
            self.run(to, **how)
        close_all()
        assert self.read() == before
        return str(e.value)

    def accept(self, above=0):
        accept_store(self.store, "rows", above, A_PERSON)

    def keep(self, path):
        copy = self.folder / f"kept-{path.name}"
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
        return copy

    def put_back(self, path):
        if path.is_dir():
            shutil.rmtree(path)
        shutil.move(self.folder / f"kept-{path.name}", path)

    def read(self, table="sums"):
        with closing(sqlite3.connect(self.file)) as db:
            return dict(db.execute(f"SELECT key, value FROM {table}"))


@pytest.fixture
def life(tmp_path):
    yield Life(tmp_path)
    close_all()


def test_a_store_that_was_set_back_is_told_and_goes_on_when_it_is_accepted(life):
    life.run(100)
    life.keep(life.file)
    life.run(150)
    life.put_back(life.file)
    said = life.refused(200)
    assert "the store has transaction 10 (" in said
    assert "by the checkpoint it should have transaction 15 (" in said
    assert (
        "or go on without what the store lacks: fulmen state accept-store CHECKPOINT rows" in said
    )
    life.accept()
    life.run(200)
    assert life.read() == {"a": 150, "b": 150}


def test_an_empty_store_of_an_old_checkpoint_is_told(life):
    life.run(100)
    life.file.unlink()
    with pytest.raises(TopologyFailed, match="the store has no transaction, and by the checkpoint"):
        life.run(200)


@pytest.mark.parametrize("back", [1, 5], ids=["by one transaction", "by five"])
def test_a_checkpoint_that_was_set_back_is_told_and_the_map_stays(life, back):
    life.run(100)
    life.keep(life.checkpoint)
    life.run(100 + 10 * back)
    life.put_back(life.checkpoint)
    said = life.refused(200)
    assert "the checkpoint is older than the store" in said
    assert f"fulmen state accept-store CHECKPOINT rows --because TEXT --above {10 + back}" in said
    life.accept(above=10 + back)
    life.run(200)
    assert life.read() == {"a": 200 + 10 * back, "b": 200 + 10 * back}


def test_another_checkpoint_is_told_and_adds_to_the_map_when_that_is_accepted(life):
    life.run(10)
    shutil.rmtree(life.checkpoint)
    said = life.refused(30)
    assert "another checkpoint has written to the store: this one was begun anew" in said
    life.accept(above=1)
    life.run(30)
    assert life.read() == {"a": 40, "b": 40}


def test_a_map_that_is_new_to_an_old_checkpoint_begins_empty(life):
    life.run(50)
    life.run(100, ("other", Other))
    assert life.read() == {"a": 100, "b": 100}
    assert life.read("others") == {"a": 50, "b": 50}


def test_a_transaction_that_does_not_write_to_a_map_has_nothing_for_it(life):
    life.run(20)
    life.run(40, bolt=Forgetful)
    life.run(60)
    assert life.read() == {"a": 40, "b": 40}


def test_only_what_has_a_mark_can_be_accepted(life):
    life.run(10)
    with pytest.raises(CheckpointError, match="'sum' is neither a sink that has written"):
        accept_store(life.store, "sum", 0, A_PERSON)


class Whole(Sum):
    """Counts whole rows."""

    def execute(self, tup):
        self.partials[tup[1]] = 1

    def finish_batch(self):
        if self.partials:
            super().finish_batch()


def whole(to):
    return {f"{letter}{i}": 1 for letter in "ab" for i in range(to)}


@pytest.mark.parametrize("tasks", [(1, 4), (4, 1), (4, 2, 5)])
def test_a_store_that_is_older_than_another_number_of_tasks_is_told(life, tasks):
    *before, last = tasks
    for n, number in enumerate(before, 1):
        life.run(20 * n, bolt=Whole, tasks=number)
        life.keep(life.file) if n == 1 else None
    life.run(60, bolt=Whole, tasks=before[-1])
    life.put_back(life.file)
    assert "the store is older than the checkpoint" in life.refused(80, bolt=Whole, tasks=last)
    life.accept()
    life.run(80, bolt=Whole, tasks=last)
    assert life.read() == {**whole(20)} | {k: 1 for k in whole(80) if int(k[1:]) >= 60}


def test_marks_of_tasks_that_were_gone_for_a_while_are_no_hindrance(life):
    for n, tasks in enumerate((3, 1, 3, 2, 4), 1):
        life.run(20 * n, bolt=Whole, tasks=tasks)
    assert life.read() == whole(100)


@pytest.mark.parametrize("tasks", [(1, 1, 1), (3, 2, 4)])
def test_sources_read_again_what_an_older_store_of_a_map_lacks(life, tasks):
    life.run(30, bolt=Whole, tasks=tasks[0])
    pinned(life.store, "old")
    life.keep(life.file)
    life.run(70, bolt=Whole, tasks=tasks[1])
    pinned(life.store, "newer")
    life.put_back(life.file)
    said = life.refused(80, bolt=Whole, tasks=tasks[1])
    [(number, branch)] = re.findall(
        r"fulmen state read-again CHECKPOINT rows --store-has (\d+):(\S+) --because TEXT", said
    )
    back = SetBack("rows", 0, Point(int(number), branch))
    assert "savepoint 'old'" in read_again(life.store, back, A_PERSON, 9.0)
    life.run(100, bolt=Whole, tasks=tasks[2])
    assert life.read() == whole(100)
