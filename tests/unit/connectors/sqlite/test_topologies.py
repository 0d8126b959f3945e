"""From a table to a table under exactly-once: each row once, whatever is lost."""

import sqlite3
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.sqlite import SqliteQuerySpout, SqliteSink
from fulmen.services.pools import close_all
from support.connectors import sql_topologies
from support.runs.engine_runs import make_driver
from support.suite.seeds import several


class Target:
    def __init__(self, folder):
        self.path = str(folder / "file.db")
        self.run(
            "CREATE TABLE rows (id INTEGER PRIMARY KEY)",
            "CREATE TABLE copied (id INTEGER)",
            "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n"
            f" WHERE id < {sql_topologies.ROWS}) INSERT INTO rows SELECT id FROM n",
        )

    def run(self, *statements):
        with closing(sqlite3.connect(self.path)) as db, db:
            return [db.execute(statement).fetchall() for statement in statements][-1]


MENDED = {
    "table": ("ALTER TABLE copied RENAME TO kept", "ALTER TABLE kept RENAME TO copied"),
    "column": (
        "ALTER TABLE copied RENAME COLUMN id TO kept",
        "ALTER TABLE copied RENAME COLUMN kept TO id",
    ),
}


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("what", MENDED)
def test_rows_wait_for_a_table_that_was_right_and_is_not_made_anew(tmp_path, what, guarantee):
    target = Target(tmp_path)
    break_it, mend_it = MENDED[what]
    builder = TopologyBuilder("copy", max_spout_pending=100)
    source = {"path": target.path, "table": "rows", "column": "id", "fields": ["id"]}
    builder.set_spout("source", SqliteQuerySpout).set_config({**source, "fetchSize": 100})
    sink = {"path": target.path, "table": "copied", "guarantee": guarantee}
    made = builder.set_bolt("sink", SqliteSink).shuffle_grouping("source")
    made.set_config({**sink, "create": {"id": "INTEGER"}})
    running = make_driver(builder).start()
    for _ in range(3):
        running.step()
    target.run(break_it)
    for _ in range(6):
        running.step()
    assert "sink" in running.totals.waits.away
    target.run(mend_it)
    for _ in range(30):
        running.step()
    running.close()
    close_all()
    assert target.run("SELECT count(*), count(DISTINCT id) FROM copied") == [(400, 400)]
    assert running.totals.trees.failed == 0


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", several(4))
def test_each_row_of_a_table_is_copied_once_whatever_is_lost(tmp_path, seed):
    target = Target(tmp_path)
    source = {"path": target.path, "table": "rows", "column": "id", "fields": ["id"]}
    sink = SqliteSink, {"path": target.path}
    sql_topologies.copy(target, seed, SqliteQuerySpout, {**source, "fetchSize": 30}, sink)
    close_all()
