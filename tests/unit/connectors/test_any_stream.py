"""One sink for streams whose fields differ: what is left over of a whole topology."""

import json
import sqlite3
from contextlib import closing

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.files import FileSink, RollingFileSink
from fulmen.connectors.sqlite import SqliteSink
from fulmen.errors import ValidationFailed
from fulmen.testing import ListSpout, run

LEFT = [
    {"component": "letters", "stream": "default", "values": {"letter": "a", "at": 1.5}},
    {"component": "numbers", "stream": "default", "values": {"n": 1}},
]
COLUMNS = {"component": "TEXT", "stream": "TEXT", "values": "TEXT"}


def topology(cls, config):
    builder = TopologyBuilder()
    builder.set_spout("letters", ListSpout([["a", 1.5]], ["letter", "at"], replays=False))
    builder.set_spout("numbers", ListSpout([[1]], ["n"], replays=False))
    bolt = builder.set_bolt("sink", cls).set_config(config)
    bolt.shuffle_grouping("letters").fields_grouping("numbers", ["n"])
    return builder


@pytest.mark.parametrize("cls", [FileSink, RollingFileSink])
def test_a_file_has_where_each_tuple_is_from_and_its_values_by_name(cls, tmp_path):
    config = {"path": str(tmp_path), "format": {"type": "json"}, "anyStream": True}
    result = run(topology(cls, config))
    assert (result.trees["acked"], result.errors) == (2, [])
    lines = [line for file in tmp_path.glob("[!.]*") for line in file.read_text().splitlines()]
    assert sorted(map(json.loads, lines), key=str) == LEFT


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_table_has_where_each_tuple_is_from_and_its_values_as_json(guarantee, tmp_path):
    path = str(tmp_path / "left.db")
    config = {"path": path, "table": "left", "create": COLUMNS, "guarantee": guarantee}
    built = topology(SqliteSink, config)
    with pytest.raises(ValidationFailed, match=r"\['n'\]: with anyStream: true it takes both"):
        run(built)
    result = run(topology(SqliteSink, config | {"anyStream": True}))
    assert (result.trees["acked"], result.errors) == (2, [])
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute('SELECT component, stream, "values" FROM left').fetchall()
    found = [dict(zip(COLUMNS, (*row[:2], json.loads(row[2])), strict=True)) for row in rows]
    assert sorted(found, key=str) == LEFT
