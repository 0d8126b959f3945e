"""From a table to a table under exactly-once: each row once, whatever is lost."""

import sqlite3
from contextlib import closing

import pytest

from fulmen.connectors.sqlite import SqliteQuerySpout, SqliteSink
from fulmen.transactional.stores.pools import close_all
from support import sql_topologies
from support.seeds import several


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


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", several(4))
def test_each_row_of_a_table_is_copied_once_whatever_is_lost(tmp_path, seed):
    target = Target(tmp_path)
    source = {"path": target.path, "table": "rows", "column": "id", "fields": ["id"]}
    sink = SqliteSink, {"path": target.path}
    sql_topologies.copy(target, seed, SqliteQuerySpout, {**source, "fetchSize": 30}, sink)
    close_all()
