"""Sinks in a file of SQLite: what every sink does, and what only a file can do."""

import datetime
import decimal
import sqlite3
import uuid
from contextlib import closing

import pytest

from fulmen.api import ServiceUnavailable
from fulmen.connectors.sqlite import SqliteSink
from fulmen.services.errors import StoreRefused
from fulmen.services.pools import close_all
from fulmen.services.sql import sqlite
from fulmen.testing.sinks import CASES, Subject
from support.connectors import sql_sinks
from support.connectors.sql_sinks import EXACTLY, all_rows, mark, prepared, written
from support.suite.seeds import generator, several


class Target:
    def __init__(self, folder):
        self.path = str(folder / "file.db")
        self.run("PRAGMA user_version = 1")

    def sink(self, **options):
        return prepared(SqliteSink(), path=self.path, **options)

    def run(self, *statements):
        with closing(sqlite3.connect(self.path)) as db, db:
            return [db.execute(statement).fetchall() for statement in statements][-1]


@pytest.fixture
def target(tmp_path):
    yield Target(tmp_path)
    close_all()


@pytest.mark.parametrize("case", sql_sinks.CASES, ids=lambda case: case.__name__)
def test_a_sink_in_sqlite_does_what_every_sink_does(case, target):
    case(target)


@pytest.mark.parametrize("seed", several(2))
def test_random_histories_in_sqlite_are_exact(target, seed):
    with generator(seed) as rng:
        sql_sinks.random_histories_are_exact(target, rng)


# ---- a file that does not take it ----------------------------------------------------------------


def test_a_disk_that_is_full_is_waited_for_and_nothing_is_half_written(target, monkeypatch):
    target.run(sql_sinks.TABLE)
    limits = [20]
    make = sqlite.SqliteConnection.__init__

    def small(self, file):
        make(self, file)
        self.db.execute(f"PRAGMA max_page_count = {limits[0]}")

    monkeypatch.setattr(sqlite.SqliteConnection, "__init__", small)
    sink = target.sink(table="t", guarantee=EXACTLY)
    values = [[i, "x" * 1000, 1] for i in range(200)]
    with pytest.raises(ServiceUnavailable, match="the disk is full"):
        written(sink, values, mark(1))
    assert all_rows(target) == []
    assert target.run("SELECT * FROM fulmen_sink_marks") == []
    limits[0] = 1000
    assert written(sink, values, mark(1)) == {}
    assert len(all_rows(target)) == 200


def test_a_file_that_somebody_else_has_locked_is_waited_for(target, monkeypatch):
    target.run(sql_sinks.TABLE)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    sink = target.sink(table="t", guarantee=EXACTLY)
    with closing(sqlite3.connect(target.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ServiceUnavailable, match="locked by another process"):
            written(sink, [[1, "a", 1]], mark(1))
    assert written(sink, [[1, "a", 1]], mark(1)) == {}


def test_a_table_that_is_gone_meanwhile_is_waited_for_instead_of_failing_rows(target):
    target.run(sql_sinks.TABLE)
    sink = target.sink(table="t")
    target.run("ALTER TABLE t RENAME TO kept")
    with pytest.raises(ServiceUnavailable, match="no such table: t"):
        written(sink, [[1, "a", 1]])
    target.run("ALTER TABLE kept RENAME TO t")
    assert written(sink, [[1, "a", 1]]) == {}


def test_a_column_that_is_gone_meanwhile_is_waited_for_instead_of_failing_rows(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    sink = target.sink(table="t")
    assert written(sink, [[1, "a", 1]]) == {}
    target.run("ALTER TABLE t DROP COLUMN n")
    with pytest.raises(ServiceUnavailable, match="no column named n"):
        written(sink, [[2, "b", 2]])
    target.run("ALTER TABLE t ADD COLUMN n integer")
    assert written(sink, [[2, "b", 2]]) == {}
    assert all_rows(target) == [(1, "a", None), (2, "b", 2)]


def test_a_row_that_breaks_a_function_of_an_index_fails_alone(target):
    """It is no IntegrityError, but it is the row's fault all the same."""
    target.run(
        "CREATE TABLE t (id integer, word text, n integer)",
        "CREATE INDEX by_name ON t (json_extract(word, '$.name'))",
    )
    sink = target.sink(table="t")
    values = [[1, "{}", 1], [2, "no JSON", 1], [3, "{}", 1]]
    failed = written(sink, values)
    assert list(failed) == [1]
    assert "malformed JSON" in failed[1]
    assert [row[0] for row in all_rows(target)] == [1, 3]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_row_that_a_trigger_refuses_behind_its_insert_does_not_stay(target, mode):
    """FAIL ends the statement, and takes nothing back."""
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)",
        "CREATE TRIGGER behind AFTER INSERT ON t WHEN new.n = 1"
        " BEGIN SELECT RAISE(FAIL, 'not 1'); END",
    )
    for guarantee, number in (("at-least-once", None), (EXACTLY, mark(1))):
        key = {"key": ["id"]} if mode == "upsert" else {}
        sink = target.sink(table="t", mode=mode, guarantee=guarantee, **key)
        first = 10 if number else 0
        rows = [[first + 1, "a", 0], [first + 2, "b", 1], [first + 3, "c", 0], [first + 4, "d", 1]]
        assert written(sink, rows, number) == {1: "not 1", 3: "not 1"}
    assert [row[0] for row in all_rows(target)] == [1, 3, 11, 13]


def test_a_trigger_refuses_rows_by_abort_and_by_a_rollback_of_all(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    for n, action in ((1, "ABORT"), (2, "ROLLBACK")):
        target.run(
            f"CREATE TRIGGER refuse_{n} BEFORE INSERT ON t WHEN new.n = {n}"
            f" BEGIN SELECT RAISE({action}, 'not {n}'); END"
        )
    sink = target.sink(table="t")
    assert written(sink, [[1, "a", 0], [2, "b", 1], [3, "c", 0]]) == {1: "not 1"}
    values = [[n, "x", n % 4] for n in range(4, 1004)]
    marked = target.sink(table="t", guarantee=EXACTLY)
    expected = {i: f"not {n}" for i, (_, _, n) in enumerate(values) if n in (1, 2)}
    for _ in range(2):
        assert dict(sorted(written(marked, values, mark(1)).items())) == expected
    wanted = [1, 3, *(row[0] for row in values if row[2] not in (1, 2))]
    assert [row[0] for row in all_rows(target)] == wanted


def test_a_constraint_that_rolls_back_fails_its_rows_and_costs_few_transactions(target):
    target.run("CREATE TABLE t (id integer UNIQUE ON CONFLICT ROLLBACK, word text, n integer)")
    sink, begun = target.sink(table="t"), []
    with sink._table.transaction() as transaction:
        transaction._db.set_trace_callback(lambda said: begun.append(said.startswith("BEGIN")))
        failed = transaction.write([(7, "x", i) for i in range(500)] + [(8, "y", 1)])
        transaction._db.set_trace_callback(None)
    assert sorted(failed) == list(range(1, 500))
    assert all_rows(target) == [(7, "x", 0), (8, "y", 1)]
    assert sum(begun) < 600


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nothing.db", "there is no such file"),
        ("folder/x.db", "there is no folder"),
        ("text.db", "the file is damaged or none of SQLite's"),
    ],
)
def test_a_wrong_path_is_told_when_the_sink_is_prepared(tmp_path, path, said):
    (tmp_path / "text.db").write_text("no database " * 100)
    create = {"create": {"id": "integer", "word": "text", "n": "integer"}} if "/" in path else {}
    with pytest.raises(StoreRefused, match=said):
        prepared(SqliteSink(), path=str(tmp_path / path), table="t", **create)


def test_a_file_is_made_with_its_table(tmp_path):
    create = {"id": "integer", "word": "text", "n": "integer"}
    path = str(tmp_path / "new.db")
    sink = prepared(SqliteSink(), path=path, table="t", create=create, guarantee=EXACTLY)
    assert written(sink, [[1, "a", 1]], mark(1)) == {}


def test_a_table_that_is_gone_is_not_made_again_and_the_cures_are_told(tmp_path):
    """It may have been renamed, or its database was not restored yet."""
    create = {"id": "integer", "word": "text", "n": "integer"}
    options = {"path": str(tmp_path / "new.db"), "table": "t", "create": create}
    sink = prepared(SqliteSink(), **options)
    cure = "It was there before. Restore it, or, to go on with an empty one, make the table."
    with closing(sqlite3.connect(options["path"])) as db:
        db.execute("DROP TABLE t")
        with pytest.raises(StoreRefused, match=f"there is no such table. {cure}"):
            prepared(sink, **options)
        db.execute("CREATE TABLE t (id integer, word text, n integer)")
    assert written(prepared(sink, **options), [[1, "a", 1]]) == {}


# ---- values --------------------------------------------------------------------------------------


def test_values_that_sqlite_has_no_type_for_are_written_as_text(target):
    target.run("CREATE TABLE t (id integer, word, n)")
    sink = target.sink(table="t")
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    values = [
        [1, moment, True],
        [2, decimal.Decimal("1.50"), 2**63 - 1],
        [3, uuid.UUID(int=7), 0.5],
        [4, {"a": [1, None]}, b"\0\xff"],
        [5, (1, "é"), -(2**63)],
        [6, "a\0b", float("inf")],
    ]
    assert written(sink, values) == {}
    assert target.run("SELECT word, n FROM t ORDER BY id") == [
        ("2026-01-02T03:04:05+00:00", 1),
        ("1.50", 2**63 - 1),
        ("00000000-0000-0000-0000-000000000007", 0.5),
        ('{"a":[1,null]}', b"\0\xff"),
        ('[1,"é"]', -(2**63)),
        ("a\0b", float("inf")),
    ]


def test_numbers_that_a_column_would_round_are_refused(target):
    target.run("CREATE TABLE t (r DOUBLE, n DECIMAL(9,2), i INTEGER, t TEXT)")
    long, whole = decimal.Decimal("0.1234567890123456789"), decimal.Decimal(2**53 + 1)
    good = [[0.1, decimal.Decimal("1.10"), whole, long], [2**53, whole, 2**63 - 1, str(long)]]
    bad = [[long, 1, 1, "r"], [2**53 + 1, 1, 1, "r"], [1, long, 1, "n"], [1, 1, long, "i"]]
    sink = prepared(SqliteSink(), "rnit", path=target.path, table="t")
    failed = written(sink, good + bad, fields=tuple("rnit"))
    said = [(i, reason.partition("'")[2].partition("'")[0]) for i, reason in failed.items()]
    assert sorted(said) == [(i + 2, row[-1]) for i, row in enumerate(bad)]
    assert target.run("SELECT * FROM t") == [
        (0.1, 1.1, 2**53 + 1, str(long)),
        (float(2**53), 2**53 + 1, 2**63 - 1, str(long)),
    ]


@pytest.mark.parametrize("guarantee", [EXACTLY, "at-least-once"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_sink_in_sqlite_passes_the_tests_that_authors_have(case, guarantee, target):
    target.run("CREATE TABLE t (id integer, word text, n integer CHECK (n < 1000))")
    case(
        Subject(
            SqliteSink,
            {"path": target.path, "table": "t", "guarantee": guarantee},
            fields=sql_sinks.FIELDS,
            row=lambda i: [i, f"word {i}", 7],
            read=lambda: target.run("SELECT id, word, n FROM t"),
            refused=[[0, "too large", 1000]],
        )
    )
