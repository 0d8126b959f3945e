"""The morning after: a database was restored from a copy, and the topology stops and says so."""

import json
import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import CommitLog, Store, new_tag
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_in, pins_section
from fulmen.connectors.sqlite import SqliteSink
from fulmen.errors import TopologyFailed
from fulmen.services.pools import close_all
from fulmen.testing import ListSpout, run

WHY = "--because", "the database was restored"


class Shop:
    """Sinks, each with a real database, and the copies of these.

    Attributes:
        options: Of the sinks, besides those that all have.
    """

    def __init__(self, folder):
        self.folder = folder
        self.store = Store.open((folder / "kept").as_uri())
        self.options = {"create": {"value": "INTEGER"}}

    def go_on(self, rows, *names):
        """Go on until the source has given so many rows."""
        builder = TopologyBuilder("shop")
        builder.set_spout("source", ListSpout(range(rows)))
        for name in names or ("sink",):
            sink = builder.set_bolt(name, SqliteSink).shuffle_grouping("source")
            own = {"path": str(self.folder / f"{name}.db"), "table": "rows"}
            sink.set_config({**own, "guarantee": "exactly-once", **self.options})
        try:
            run(builder, checkpoint=self.store, end_of_input=False)
        finally:
            close_all()

    def refused(self, rows, *names):
        """The command that reads again, of the message with which it stops."""
        with pytest.raises(TopologyFailed, match="the store is older than the checkpoint") as told:
            self.go_on(rows, *names)
        [command] = re.findall(
            r"fulmen (state read-again CHECKPOINT [^;]*) --because", str(told.value)
        )
        return command.replace("CHECKPOINT", "kept").split(" ")

    def savepoint(self, name):
        log = CommitLog(self.store, "shop", "a person")
        log.claim()
        pins = pins_in(log.manifest.sections.get(PINS))
        section = pins_section({**pins, name: Pin(log.manifest.number + 1, 5.0)})
        log.commit(
            log.draft(tag=new_tag(), clock=0.0, transient={}, sections={PINS: section}, full=True)
        )

    def copy(self, name="sink"):
        shutil.copy(self.folder / f"{name}.db", self.folder / f"{name}.copy")

    def put_back(self, name="sink"):
        shutil.copy(self.folder / f"{name}.copy", self.folder / f"{name}.db")

    def rows(self, name="sink"):
        with closing(sqlite3.connect(self.folder / f"{name}.db")) as db:
            return [value for (value,) in db.execute("SELECT value FROM rows ORDER BY value")]


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def test_from_a_savepoint_of_the_same_age_what_is_missing_is_read_again_and_each_row_is_there_once(
    fulmen, shop
):
    shop.go_on(10)
    shop.savepoint("night")
    shop.copy()
    shop.go_on(20)
    shop.savepoint("later")
    shop.put_back()
    command = shop.refused(30)
    assert shop.rows() == [*range(10)]
    result = fulmen(*command, *WHY)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "went back to savepoint 'night', the state of commit" in result.stderr
    shop.go_on(30)
    assert shop.rows() == [*range(30)]
    [change] = json.loads(fulmen("state", "log", "kept", "-o", "json").stdout)
    assert (change["action"], change["component"]) == ("read-again", "sink")
    assert change["because"] == "the database was restored"


def test_without_a_state_that_fits_it_is_refused_and_what_is_missing_can_be_left_out(fulmen, shop):
    shop.go_on(10)
    shop.savepoint("night")
    shop.go_on(15)
    shop.copy()
    shop.go_on(20)
    shop.put_back()
    command = shop.refused(25)
    result = fulmen(*command, *WHY)
    assert result.exit_code == 1
    assert "there is no state left in which the store of 'sink' has" in result.stderr
    assert "Of the savepoints, 'night' expects " in result.stderr
    assert fulmen("state", "accept-store", "kept", "sink", *WHY).exit_code == 0
    shop.go_on(25)
    assert shop.rows() == [*range(15), *range(20, 25)]


def test_rows_that_replace_one_another_may_be_written_again_from_an_older_savepoint(fulmen, shop):
    shop.options = {"create": {"value": "INTEGER"}, "mode": "upsert", "key": ["value"]}
    shop.go_on(10)
    shop.savepoint("night")
    shop.go_on(15)
    shop.copy()
    shop.go_on(20)
    shop.put_back()
    result = fulmen(*shop.refused(25), "--replaces", *WHY)
    assert (result.exit_code, result.stdout) == (0, "")
    shop.go_on(25)
    assert shop.rows() == [*range(25)]


def test_other_stores_that_have_written_since_are_named_unless_they_were_set_back_too(fulmen, shop):
    both = "sink", "other"
    shop.go_on(10, *both)
    shop.savepoint("night")
    shop.copy("sink")
    shop.copy("other")
    shop.go_on(20, *both)
    shop.put_back("sink")
    command = shop.refused(30, *both)
    refused = fulmen(*command, *WHY)
    assert refused.exit_code == 1
    assert "savepoint 'night' fits the store of 'sink', but 'other' have written" in refused.stderr
    shop.put_back("other")
    assert fulmen(*command, "--also", "other", *WHY).exit_code == 0
    shop.go_on(30, *both)
    assert shop.rows("sink") == shop.rows("other") == [*range(30)]


@pytest.mark.parametrize("has", ["", "31", "31:", "x:5f2c"])
def test_a_mark_that_is_none_is_told(fulmen, shop, has):
    shop.go_on(1)
    result = fulmen("state", "read-again", "kept", "sink", "--store-has", has, *WHY)
    assert result.exit_code == 2
    assert f"--store-has {has}: neither `none` nor a number with its tag" in result.stderr
