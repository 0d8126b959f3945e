"""Lookups that ask a table of SQLite for the keys that tuples have."""

import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from fulmen import TopologyBuilder
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.lookup import asked
from fulmen.connectors.sqlite import SqliteLookup
from fulmen.errors import ValidationFailed
from fulmen.testing import PAUSE, BoltHarness, CollectBolt, ListSpout, run


@pytest.fixture
def table(tmp_path):
    """A table, and a function that changes it."""
    path = str(tmp_path / "prices.db")

    def change(*statements):
        with closing(sqlite3.connect(path)) as db, db:
            for statement in statements:
                db.execute(statement)

    change("CREATE TABLE prices (code, price)", "CREATE INDEX by_code ON prices (code)")
    return path, change


def config(path, **more):
    known = {"path": path, "table": "prices", "columns": ["code", "price"], "key": ["code"]}
    return known | {"fields": ["code"], "read": "keys"} | more


def asked_for(bolt, *codes):
    bolt.emitted.clear()
    bolt.bolt._context.batch.attempt += "."
    for code in codes:
        bolt.execute([code])
    return [one.values[1] for one in bolt.emitted]


def test_a_key_finds_what_python_takes_for_equal(table):
    path, change = table
    change("INSERT INTO prices VALUES ('7', 1), (7, 2), (7.5, 3), (x'37', 4), (NULL, 5), ('', 6)")
    bolt = BoltHarness(SqliteLookup, fields=["code"], conf=config(path))
    keys = ["7", 7, 7.5, b"7", None, "", 7.0, Decimal(7), Decimal("7.5"), 2**70, float("nan")]
    assert asked_for(bolt, *keys) == [1, 2, 3, 4, None, 6, 2, 2, 3, None, None]


def test_more_keys_than_one_statement_has_are_found(table):
    path, change = table
    below = "WITH n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
    change(f"INSERT INTO prices {below} SELECT i, 10 * i FROM n WHERE i % 3")
    builder = TopologyBuilder()
    rows = [[n] for n in [*range(1000), *range(500)]]
    builder.set_spout("rows", ListSpout([*rows, PAUSE], fields=["code"]))
    builder.set_bolt("lookup", SqliteLookup).shuffle_grouping("rows").set_config(config(path))
    builder.set_bolt("out", CollectBolt).shuffle_grouping("lookup")
    found = {tuple(row) for row in run(builder).collected("out")}
    assert found == {(n, 10 * n if n % 3 else None) for n in range(1000)}


def test_what_is_remembered_is_that_of_the_last_commit_of_any_program(table, monkeypatch):
    path, change = table
    change("INSERT INTO prices VALUES ('a', 1), ('b', 2)")
    monkeypatch.setattr(asked, "MOST_KEYS", 2)
    bolt = BoltHarness(SqliteLookup, fields=["code"], conf=config(path))
    assert asked_for(bolt, "a", "b", "c", "a") == [1, 2, None, 1]
    assert bolt.bolt._holder.size == 2
    asks = bolt.bolt._holder.loads
    assert asked_for(bolt, "a", "c") == [1, None]
    assert bolt.bolt._holder.loads == asks, "they are remembered"
    change("UPDATE prices SET price = 3", "INSERT INTO prices VALUES ('c', 4)")
    assert asked_for(bolt, "a", "c") == [3, 4]


def test_a_table_that_is_away_is_waited_for_and_nothing_of_it_is_remembered(table, tmp_path):
    path, change = table
    change("INSERT INTO prices VALUES ('a', 1)")
    bolt = BoltHarness(SqliteLookup, fields=["code"], conf=config(path))
    assert asked_for(bolt, "a") == [1]
    (tmp_path / "prices.db").rename(tmp_path / "away.db")
    with pytest.raises(ServiceUnavailable) as error:
        asked_for(bolt, "a")
    assert str(error.value).startswith(
        f"table 'prices' in SQLite file '{path}' can't be used: [Err"
    )
    (tmp_path / "away.db").rename(path)
    change("UPDATE prices SET price = 2")
    assert asked_for(bolt, "a") == [2]


def test_nothing_is_remembered_of_a_file_that_was_broken_in_its_place(table, tmp_path):
    path, change = table
    change("INSERT INTO prices VALUES ('a', 1)")
    change("UPDATE prices SET price = 2")
    good = (tmp_path / "prices.db").read_bytes()
    change("UPDATE prices SET price = 1")
    bolt = BoltHarness(SqliteLookup, fields=["code"], conf=config(path))
    assert asked_for(bolt, "a") == [1]
    (tmp_path / "prices.db").write_bytes(b"x" * len(good))
    with pytest.raises(ServiceUnavailable, match="file is not a database"):
        asked_for(bolt, "a", "b")
    (tmp_path / "prices.db").write_bytes(good)
    assert asked_for(bolt, "a") == [2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": {"code": "price"}, "add": []}, "it has no index on its key, so each key would be"),
        ({"columns": ["code", "nope"]}, "it has no column 'nope', only ['code', 'price']"),
        ({"table": None, "query": "SELECT code, price FROM prices WHERE price > 1"}, None),
        ({"table": None, "query": "SELECT code, max(price) AS price FROM prices GROUP BY 1"}, "no"),
        ({"table": None, "query": "SELECT code || '' AS code, price FROM prices"}, "no index on"),
    ],
)
def test_a_table_that_can_not_be_asked_by_its_key_says_why(table, options, said):
    path, change = table
    change("INSERT INTO prices VALUES ('a', 1), ('a', 2)")
    made = {k: v for k, v in config(path, **options).items() if v is not None}
    if said is None:
        assert asked_for(BoltHarness(SqliteLookup, fields=["code"], conf=made), "a") == [2]
        return
    with pytest.raises(ServiceUnavailable) as error:
        BoltHarness(SqliteLookup, fields=["code"], conf=made)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"matches": "last"}, "matches is 'last', but rows that are asked for"),
        ({"columns": {"code": "decimal", "price": "int64"}}, "column 'code' is decimal, which"),
    ],
)
def test_what_rows_of_single_keys_can_not_say_is_refused(table, options, said):
    with pytest.raises(ValidationFailed) as error:
        BoltHarness(SqliteLookup, fields=["code"], conf=config(table[0], **options))
    assert said in str(error.value)
