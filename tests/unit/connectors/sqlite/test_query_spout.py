"""Growing tables in SQLite as a source: each row once, whatever is lost."""

import json
import pickle
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import ValidationError

from fulmen.api import Stream
from fulmen.connectors.sql import growing
from fulmen.connectors.sqlite import SqliteQueryOptions, SqliteQuerySpout
from fulmen.services.errors import StoreRefused
from fulmen.services.pools import close_all
from support.connectors.sql_sources import Task
from support.suite.seeds import generator, several


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "file.db")

    def run(*statements):
        with closing(sqlite3.connect(path)) as db, db:
            return [[], *(db.execute(statement).fetchall() for statement in statements)][-1]

    run("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, word text, at real)")
    run.path = path
    yield run
    close_all()


def task(file, **options):
    how = {"path": file.path, "table": "t", "column": "id", "fields": ["word"], "follow": False}
    return Task(SqliteQuerySpout, **{**how, **options})


def insert(file, words, at="NULL"):
    file(*(f"INSERT INTO t (word, at) VALUES ('{word}', {at})" for word in words))


def test_rows_are_emitted_in_the_order_of_the_column(file):
    insert(file, "abcde")
    one = task(file, fetch_size=2)
    assert one.spout.outputs_for(one.context.options)["default"] == Stream(("word",))
    one.batch()
    assert list(one.pending.values()) == [(letter,) for letter in "abcde"]
    assert {one.spout.part_of(msg_id) for msg_id in one.pending} == {"t"}
    one.until_exhausted()
    insert(file, "fg")
    one.until_exhausted()
    assert one.acked == {(letter,): 1 for letter in "abcdefg"}


@pytest.mark.parametrize("seed", several(3))
def test_each_row_is_acked_once_whatever_fails_or_is_lost(file, seed):
    with generator(seed) as rng:
        one, expected = task(file, fetch_size=rng.randint(1, 7)), []
        for _ in range(40):
            words = [f"w{len(expected) + i}" for i in range(rng.randint(0, 5))]
            insert(file, words)
            expected += words
            one.batch(
                fail=lambda _: rng.random() < 0.3,
                most=rng.randint(1, 8),
                is_lost=rng.random() < 0.3,
                ends=rng.random() < 0.7,
                room=rng.randint(1, 8),
            )
            one.clock.advance(1.0)
        one.until_exhausted()
        assert one.acked == {(word,): 1 for word in expected}
        assert not one.spout.state


def test_a_row_that_fails_does_not_keep_those_it_was_emitted_with(file):
    insert(file, "abcde")
    one = task(file)
    one.batch(room=5)
    [block] = one.spout.state.values()
    assert pickle.loads(block) == [[letter] for letter in "abcde"]
    ids = list(one.pending)
    one.batch(fail=lambda msg_id: msg_id in (ids[0], ids[2]))
    one.batch(ends=False)
    assert sorted(one.spout.state.values()) == [["a"], ["c"]]
    one.until_exhausted()
    assert one.acked == {(letter,): 1 for letter in "abcde"}
    assert (one.spout.state, one.spout.blocks) == ({}, {})


def test_rows_of_another_type_are_told_beside_others_of_their_call(file):
    insert(file, ["1", "x", "3", "y"])
    one = task(file, fields={"word": "int64"})
    one.batch(room=4)
    one.batch(fail=lambda _: True, room=4)
    one.until_exhausted()
    assert {one.acked[(n,)] for n in (1, 3)} == {1}
    assert [json.loads(data)["word"] for data, *_ in one.collector.told] == ["x", "y", "x", "y"]


def test_rows_of_one_value_are_emitted_together_however_many(file):
    insert(file, "abc", at=1.0)
    insert(file, "d", at=2.0)
    one = task(file, column="at", fetch_size=2)
    one.batch(most=1)
    assert sorted(one.pending.values()) == [("a",), ("b",), ("c",)]
    one.restore()
    one.until_exhausted()
    assert one.acked == {(letter,): 1 for letter in "abcd"}


def test_rows_whose_values_only_the_database_takes_for_equal_are_emitted_together(file):
    file(
        "CREATE TABLE words (word TEXT COLLATE NOCASE)",
        "INSERT INTO words VALUES ('a'), ('B'), ('A'), ('b'), ('a')",
    )
    for fetch_size in (1, 2, 10):
        one = task(file, table="words", column="word", fetch_size=fetch_size)
        one.batch(most=1)
        assert sorted(one.pending.values()) == [("A",), ("a",), ("a",)]
        one.restore()
        one.until_exhausted()
        assert one.acked == {("a",): 2, ("A",): 1, ("b",): 1, ("B",): 1}


PLACELESS = "null, infinite, or of another type than others, which has no place in a growing order"


@pytest.mark.parametrize(
    ("before", "placeless", "after"),
    [
        pytest.param("1, 2.5", "-9e999, 9e999", "3", id="infinity"),
        pytest.param("1, 2", "'z', x'ff'", "3", id="text-and-blobs-among-numbers"),
        pytest.param("'a', CAST(x'ff' AS TEXT)", "x'00'", "CAST(x'ff61' AS TEXT)", id="texts"),
        pytest.param("x'00', x'61'", "NULL", "x'ff'", id="blobs"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"delay_seconds": 5, "fetch_size": 1}])
def test_values_without_a_place_are_told_and_hide_no_rows_that_come_later(
    file, before, placeless, after, options
):
    def put(values):
        for i, value in enumerate(values.split(", ")):
            file(f"INSERT INTO v VALUES ({value}, {i})")

    file("CREATE TABLE v (at, n)")
    put(placeless)
    put(before)
    one = task(file, table="v", column="at", fields=["n"], **options)
    one.until_exhausted()
    many = placeless.count(",") + 1
    rows = "a row" if many == 1 else f"{many} rows"
    assert [said for _, said, _ in one.collector.told] == [
        f"{rows} can't be emitted: 'at' is {PLACELESS}"
    ]
    put(after)
    one.clock.advance(5)
    one.until_exhausted()
    assert one.acked == {(0,): 2, (1,): 1}
    assert (one.lag, len(one.collector.told)) == (0, 1)


def test_rows_without_a_value_in_the_column_are_told_of_once(file):
    insert(file, "ab")
    insert(file, "c", at=1.0)
    one = task(file, column="at")
    one.batch()
    reason = f"2 rows can't be emitted: 'at' is {PLACELESS}"
    assert one.collector.told == [[None, reason, "t.at"]]
    assert one.collector.errors == [f"t: {reason}"]
    one.restore()
    insert(file, "d")
    one.until_exhausted()
    assert [told[1] for told in one.collector.told] == [reason.replace("2 rows", "a row")]
    assert one.acked == {("c",): 1}


def test_a_row_that_fails_is_emitted_as_it_was(file):
    insert(file, "a")
    one = task(file)
    one.batch()
    file("DELETE FROM t")
    one.batch(fail=lambda _: True)
    assert list(one.pending.values()) == [("a",)]


TYPED = {
    "n": "int64",
    "x": "float64",
    "yes": "bool",
    "at": "timestamp",
    "d": "decimal",
    "b": "binary",
}


def typed_rows(file, *rows):
    file("CREATE TABLE v (id INTEGER PRIMARY KEY, n INTEGER, x REAL, yes BOOL, at, d, b)")
    file(*(f"INSERT INTO v (n, x, yes, at, d, b) VALUES ({row})" for row in rows))
    return task(file, table="v", fields=TYPED)


def test_values_have_the_types_that_fields_are_declared_with(file):
    one = typed_rows(
        file,
        "1, 2, 1, '2026-01-31T12:00:00+00:00', 1.25, x'ff'",
        "'7', NULL, 0, NULL, '1.10', 'text'",
    )
    one.until_exhausted()
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert list(one.acked) == [
        (1, 2.0, True, at, Decimal("1.25"), b"\xff"),
        (7, None, False, None, Decimal("1.10"), b"text"),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("'abc', 1, 1, NULL, 1, NULL", "field 'n': 'abc' is no int64"),
        ("1, 'x', 1, NULL, 1, NULL", "field 'x': 'x' is no float64"),
        ("1, 1, 2, NULL, 1, NULL", "field 'yes': 2 is no bool"),
        ("1, 1, 1, 1700000000, 1, NULL", "field 'at': 1700000000 is no timestamp"),
        ("x'ff', 1, 1, NULL, 1, NULL", "field 'n': b'\\xff' is no int64"),
    ],
)
def test_a_value_of_another_type_is_its_rows_fault_alone(file, row, reason):
    one = typed_rows(file, "1, 1, 1, NULL, 1, NULL", row, "3, 1, 1, NULL, 1, NULL")
    one.batch()
    one.batch(fail=lambda msg_id: msg_id == 2)
    one.restore()
    one.until_exhausted()
    assert [values[0] for values in one.acked if len(values) > 3] == [1, 3]
    [(data, said, position)] = [values for values in one.acked if len(values) == 3]
    assert (said, position) == (reason, "v.id=2")
    assert json.loads(data).keys() == TYPED.keys()
    assert not one.spout.state


def test_a_text_that_is_no_utf_8_stops_nothing(file):
    file("INSERT INTO t (word) VALUES ('a'), (CAST(x'ff61' AS TEXT)), ('b')")
    one = task(file)
    one.until_exhausted()
    assert list(one.acked) == [("a",), (b"\xffa",), ("b",)]
    two = task(file, fields={"word": "string"})
    two.until_exhausted()
    assert [said[1] for said in two.collector.told] == ["field 'word': b'\\xffa' is no string"]


@pytest.mark.parametrize("start", [2, "2"])
def test_it_begins_after_start(file, start):
    insert(file, "abc")
    one = task(file, start=start)
    one.until_exhausted()
    assert one.acked == {("c",): 1}


def test_a_query_may_be_the_source(file):
    insert(file, ["a", "b?", "100%"])
    query = "SELECT id AS n, upper(word) AS up FROM t WHERE word <> '?';"
    one = task(file, table=None, query=query, column="n", fields=["up", "n"])
    one.until_exhausted()
    assert one.acked == {("A", 1): 1, ("B?", 2): 1, ("100%", 3): 1}


def test_with_a_delay_a_row_that_is_committed_late_is_not_missed(file):
    """The second writer commits a lower value after a higher one can be seen."""
    insert(file, "a")
    one = task(file, delay_seconds=5)
    file("INSERT INTO t (id, word) VALUES (10, 'high')")
    one.batch()
    assert not one.pending
    assert not one.spout.is_exhausted()
    assert one.spout.knows_its_end  # so that a run waits for these rows
    one.clock.advance(3)
    file("INSERT INTO t (id, word) VALUES (9, 'late')")
    one.batch()
    assert not one.pending
    one.clock.advance(2)
    one.batch()
    assert list(one.pending.values()) == [("a",), ("late",), ("high",)]
    insert(file, "b")
    one.until_exhausted()
    assert one.acked[("b",)] == 1


def test_it_looks_for_new_rows_when_it_is_time(file):
    one = task(file, poll_seconds=10, follow=True)
    one.batch()
    insert(file, "a")
    one.clock.advance(9.9)
    one.batch()
    assert not one.pending
    one.clock.advance(0.2)
    one.batch()
    assert list(one.pending.values()) == [("a",)]
    assert not one.spout.is_exhausted()
    assert not one.spout.knows_its_end  # since it follows


def test_it_says_how_far_it_is_behind(file, monkeypatch):
    insert(file, "abc")
    one = task(file, start=1)
    one.batch(most=1)
    assert one.lag == 2
    insert(file, "d")
    one.clock.advance(4.9)
    one.batch()
    assert one.lag == 2
    one.clock.advance(0.2)
    one.batch()
    one.clock.advance(5)
    one.batch()
    assert one.lag == 0
    monkeypatch.setattr(growing, "MOST_COUNTED", 1)
    insert(file, "ef")
    one.clock.advance(5)
    one.batch()
    assert one.lag == 1


def test_it_says_how_far_it_is_behind_while_it_has_rows_to_emit(file):
    insert(file, "abcdef")
    one = task(file)
    one.batch(most=1)
    assert one.lag == 6
    one.clock.advance(5)
    one.batch(most=1)
    assert one.lag == 5


def test_a_source_that_has_come_to_its_end_is_not_behind(file):
    insert(file, "abc")
    one = task(file)
    one.batch()
    assert one.lag == 3
    one.until_exhausted()
    assert one.lag == 0


def test_the_path_is_not_in_the_checkpoint(file):
    insert(file, "a")
    one = task(file)
    one.batch()
    assert file.path.encode() not in one.checkpoint
    assert pickle.loads(one.checkpoint)[0]["position"] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "nothing"}, "no such table: nothing"),
        ({"path": "/nowhere.db"}, "there is no such file"),
    ],
)
def test_a_mistake_is_told_when_it_is_opened(file, options, said):
    with pytest.raises(StoreRefused, match=said):
        task(file, **options)


def test_a_column_that_is_not_there_is_a_mistake_and_not_a_text(file):
    """SQLite takes a name in double quotes that is no column for a text."""
    for options in ({"fields": ["wrod"]}, {"column": "idd"}):
        with pytest.raises(StoreRefused, match=r"it has no column '(wrod|idd)', only 'id', 'word'"):
            task(file, **options)


def test_only_one_task_can_read_in_order(file):
    with pytest.raises(StoreRefused, match="more than one task"):
        task(file, tasks=2)


@pytest.mark.parametrize("sources", [{}, {"table": "t", "query": "SELECT 1"}])
def test_it_needs_either_a_table_or_a_query(sources):
    with pytest.raises(ValidationError, match="it needs table or query, and not both"):
        SqliteQueryOptions(path="x", column="id", fields=["word"], **sources)
