"""Sinks of SQL databases as the engine calls them, and what every one of them has to do.

A target has `sink(**options)`, which makes one and prepares it for the fields of FIELDS, and
`run(*statements)`, which gives the rows of the last one. Its database is empty.
"""

import pickle
from dataclasses import replace
from itertools import count

import pytest

from fulmen.api import Mark, Rows, StoreMismatch, Stream, TopologyContext
from fulmen.api.marks import Point
from fulmen.connectors.sql.tables import MARKS
from fulmen.services.errors import StoreRefused

FIELDS = ("id", "word", "n")
TABLE = "CREATE TABLE t (id integer PRIMARY KEY, word text NOT NULL, n integer CHECK (n < 1000))"
EXACTLY, AT_LEAST = "exactly-once", "at-least-once"


def context(options, fields=FIELDS, tasks=1):
    """What a sink behind one source is told."""
    return TopologyContext(
        "t",
        "sink",
        task_id=1,
        task_index=0,
        worker=0,
        component_tasks={"sink": range(1, 1 + tasks)},
        streams={"source": {"default": Stream(tuple(fields))}},
        sources=(("source", "default"),),
        options=options,
    )


def prepared(sink, fields=FIELDS, **options):
    """A sink that was made anew."""
    sink.prepare({}, context(sink.config_model(**options), fields))
    return sink


def written(sink, values, mark=None, fields=FIELDS):
    """Write a batch. Returns the reasons of the rows that failed, by position."""
    rows = Rows(fields, values)
    items = sink.encode(rows)
    kept = [i for i in range(len(rows)) if i not in rows.failed]
    if not kept:
        return rows.failed
    later = Rows(fields, pickle.loads(pickle.dumps([items[i] for i in kept])))
    sink.write(later, mark)
    return rows.failed | {kept[i]: reason for i, reason in later.failed.items()}


def mark(number, tag=None, sink="a", after=None):
    """That of a commit, behind that of commit `after`; 0: behind none."""
    after = number - 1 if after is None else after
    previous = Point(after, f"tag {after}") if after else None
    return Mark(sink, number, tag or f"tag {number}", "t/sink/0", previous)


def all_rows(target, table="t"):
    return sorted(tuple(row) for row in target.run(f"SELECT id, word, n FROM {table}"))


# ---- guarantees ----------------------------------------------------------------------------------


def rows_are_written_again_under_at_least_once(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    sink = target.sink(table="t")
    for _ in range(2):
        assert written(sink, [[1, "a", None], [2, "é'\"\\,{}\t\n", -5]]) == {}
    assert all_rows(target) == sorted(2 * [(1, "a", None), (2, "é'\"\\,{}\t\n", -5)], key=str)


def rows_of_a_mark_that_is_written_are_not_written_again(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    assert written(target.sink(table="t", guarantee=EXACTLY), [[1, "a", 1]], mark(3, after=0)) == {}
    again = target.sink(table="t", guarantee=EXACTLY)
    assert written(again, [[1, "a", 1]], mark(3, after=0)) == {}
    assert written(again, [[2, "b", 2]], mark(7, after=3)) == {}
    assert written(again, [[9, "other task", 2]], mark(2, sink="b", after=0)) == {}
    assert all_rows(target) == [(1, "a", 1), (2, "b", 2), (9, "other task", 2)]
    kept = target.run(f"SELECT sink, number, tag, label, refused FROM {MARKS} ORDER BY sink")
    assert [tuple(row) for row in kept] == [
        ("a", 7, "tag 7", "t/sink/0", "[]"),
        ("b", 2, "tag 2", "t/sink/0", "[]"),
    ]


def a_repetition_fails_the_same_rows(target):
    target.run(TABLE)
    values = [[1, "a", 1], [1, "twice", 2], [2, "b", 1000], [3, None, 3], [4, "d", 4]]
    first = written(target.sink(table="t", guarantee=EXACTLY), values, mark(1))
    assert sorted(first) == [1, 2, 3]
    again = target.sink(table="t", guarantee=EXACTLY)
    assert written(again, values, mark(1)) == first
    assert all_rows(target) == [(1, "a", 1), (4, "d", 4)]


def a_driver_that_was_superseded_writes_nothing(target):
    target.run(TABLE)
    sink = target.sink(table="t", guarantee=EXACTLY)
    written(sink, [[1, "a", 1]], mark(5, after=0))
    late = target.sink(table="t", guarantee=EXACTLY)
    for old in (mark(4), mark(5, "another tag"), mark(6, after=0)):
        with pytest.raises(StoreMismatch, match="the checkpoint is older than the store"):
            written(late, [[2, "late", 1]], old)
    assert all_rows(target) == [(1, "a", 1)]
    assert written(late, [[3, "c", 1]], mark(6)) == {}


def a_database_that_was_set_back_takes_nothing(target):
    target.run(TABLE)
    sink = target.sink(table="t", guarantee=EXACTLY)
    with pytest.raises(StoreMismatch, match="the store has no commit"):
        written(sink, [[1, "a", 1]], mark(5))
    written(sink, [[1, "a", 1]], mark(3, after=0))
    with pytest.raises(StoreMismatch, match="the store is older than the checkpoint"):
        written(sink, [[2, "b", 1]], mark(5))
    assert all_rows(target) == [(1, "a", 1)]


def a_table_of_another_name_like_marks_is_refused_and_not_touched(target):
    target.run(TABLE, f"CREATE TABLE {MARKS} (id integer, mine text)")
    target.run(f"INSERT INTO {MARKS} VALUES (1, 'x')")
    with pytest.raises(StoreRefused, match="that Fulmen has not made: it has the columns 'id'"):
        target.sink(table="t", guarantee=EXACTLY)
    assert [tuple(row) for row in target.run(f"SELECT * FROM {MARKS}")] == [(1, "x")]
    assert written(target.sink(table="t"), [[1, "a", 1]]) == {}


# ---- rows that are refused -----------------------------------------------------------------------


def refused_rows_are_found_among_many(target):
    target.run(TABLE)
    values = [[i, f"w{i}", i % 1000] for i in range(3000)]
    bad = {7: [7, "too large", 1000], 1500: [3, "twice", 1], 2998: [2998, None, 1]}
    for i, row in bad.items():
        values[i] = row
    failed = written(target.sink(table="t"), values)
    assert sorted(failed) == sorted(bad)
    assert all(reason and "\n" not in reason for reason in failed.values())
    assert [row[0] for row in all_rows(target)] == [i for i in range(3000) if i not in bad]


def a_value_that_is_of_no_use_fails_before_anything_is_written(target):
    target.run(TABLE)
    sink = target.sink(table="t")
    for value in (object(), 3j, 2**70, "lone \ud800"):
        rows = Rows(FIELDS, [[1, "a", 1], [2, "b", value]])
        sink.encode(rows)
        assert list(rows.failed) == [1], value
        assert "column 'n'" in rows.failed[1]


# ---- modes ---------------------------------------------------------------------------------------


def an_upsert_replaces_the_row_of_the_same_key(target):
    target.run(TABLE)
    sink = target.sink(table="t", mode="upsert", key=["id"])
    assert written(sink, [[1, "a", 1], [2, "b", 2], [1, "later", 3]]) == {}
    assert written(sink, [[2, "b", None], [3, "c", 3]]) == {}
    assert all_rows(target) == [(1, "later", 3), (2, "b", None), (3, "c", 3)]


def an_upsert_that_is_refused_leaves_the_row_before_it(target):
    """As if rows came one by one."""
    target.run(TABLE)
    sink = target.sink(table="t", mode="upsert", key=["id"])
    values = [[1, "a", 1], [1, "b", 2], [1, "too large", 1000], [2, "too large", 1000], [3, "c", 1]]
    assert sorted(written(sink, values)) == [2, 3]
    assert all_rows(target) == [(1, "b", 2), (3, "c", 1)]


def an_upsert_takes_a_key_of_several_columns_and_nothing_else(target):
    target.run("CREATE TABLE t (id integer, word text, n integer, PRIMARY KEY (word, id))")
    sink = target.sink(
        table="t", mode="upsert", key=["id", "word"], columns={"id": "id", "word": "word"}
    )
    assert written(sink, [[1, "a", 0], [1, "b", 0], [1, "a", 0]]) == {}
    assert all_rows(target) == [(1, "a", None), (1, "b", None)]


def keys_that_are_null_equal_nothing(target):
    target.run("CREATE TABLE t (id integer UNIQUE, word text, n integer)")
    sink = target.sink(table="t", mode="upsert", key=["id"])
    assert written(sink, [[None, "a", 1], [5, "b", 2], [None, "c", 3], [5, "d", 4]]) == {}
    found = sorted(tuple(row) for row in target.run("SELECT word, n FROM t"))
    assert found == [("a", 1), ("c", 3), ("d", 4)]


def a_row_that_is_deleted_goes_and_may_come_again(target):
    target.run(TABLE.replace("integer PRIMARY KEY", "integer UNIQUE"))
    fields = (*FIELDS, "gone")
    options = {"table": "t", "mode": "upsert", "key": ["id"], "deletedField": "gone"}
    sink = target.sink(fields=fields, **options)
    values = [[i, f"w{i}", i, False] for i in range(5)]
    values += [[1, None, None, True], [2, "ignored", "x", True], [9, None, None, True]]
    values += [[2, "again", 7, None], [None, None, None, True], [3, "a", 1, "yes"]]
    values += [[4, None, None, True], [4, "last", 8, False], [4, None, None, True]]
    failed = written(sink, values, fields=fields)
    assert failed == {
        9: "the row deletes a key whose column 'id' is null",
        10: "field 'gone' tells whether a row is deleted, and is 'yes', which is not true, false"
        " or null",
    }
    assert all_rows(target) == [(0, "w0", 0), (2, "again", 7), (3, "w3", 3)]
    sink = target.sink(fields=fields, guarantee=EXACTLY, **options)
    for _ in range(2):
        assert written(sink, [[0, None, None, True], [5, "b", 5, False]], mark(1), fields) == {}
        assert all_rows(target) == [(2, "again", 7), (3, "w3", 3), (5, "b", 5)]


def what_a_row_has_written_can_be_deleted(target):
    """Also where the key has a null, which only the row itself is like."""
    target.run("CREATE TABLE t (id integer, word text, n integer, UNIQUE (id, word))")
    sink = target.sink(table="t", mode="upsert", key=["word", "id"])
    assert sink.key_fields == ["id", "word"]
    values = [[1, "a", 1], [1, None, 2], [2, None, 3], [2, "a", 4]]
    assert written(sink, values) == {}
    items = [sink.deletion(item) for item in sink.encode(Rows(FIELDS, values[:2]))]
    later = Rows(
        FIELDS, [*pickle.loads(pickle.dumps(items)), *sink.encode(Rows(FIELDS, [[3, "c", 5]]))]
    )
    sink.write(later, None)
    assert later.failed == {}
    found = {tuple(row) for row in target.run("SELECT id, word, n FROM t")}
    assert found == {(2, None, 3), (2, "a", 4), (3, "c", 5)}
    assert target.sink(table="t").key_fields == ()


def a_deletion_that_is_refused_fails_alone(target):
    target.run(
        TABLE,
        "CREATE TABLE child (t_id integer REFERENCES t (id))",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        "INSERT INTO child VALUES (2)",
    )
    fields = (*FIELDS, "gone")
    sink = target.sink(fields=fields, table="t", mode="upsert", key=["id"], deletedField="gone")
    failed = written(sink, [[i, None, None, True] for i in (1, 2, 3)], fields=fields)
    left = [(2, "b", 2)] if failed else []  # SQLite refuses only where foreign keys are switched on
    assert (sorted(failed), all_rows(target)) == ([1] * len(left), left)


# ---- names ---------------------------------------------------------------------------------------


def fields_go_to_the_columns_that_options_name(target):
    target.run('CREATE TABLE "Odd ""name" ("a%b" integer, "order" text, rest text)')
    sink = target.sink(table='Odd "name', columns={"n": "a%b", "word": "order"})
    assert written(sink, [[1, "a", 5]]) == {}
    assert written(sink, [[6, 1, "b"]], fields=("n", "id", "word")) == {}
    found = target.run('SELECT "a%b", "order", rest FROM "Odd ""name" ORDER BY 1')
    assert [tuple(row) for row in found] == [(5, "a", None), (6, "b", None)]


def a_table_is_made_if_that_is_asked_for(target):
    create = {"id": "integer", "word": "text NOT NULL", "n": "integer", "at": "text"}
    options = {"table": "made", "create": create, "key": ["id"], "mode": "upsert"}
    for n in (1, 2):
        assert written(target.sink(**options), [[1, "a", n]]) == {}
    assert all_rows(target, "made") == [(1, "a", 2)]


MISTAKES = [
    ({"table": "nothing"}, "there is no such table"),
    ({"columns": {"word": "wrod"}}, "it has no column 'wrod' that can be written, only 'id'"),
    ({"columns": {"wrod": "word"}}, "columns has the field 'wrod', but there is only ['id'"),
    ({"columns": {"id": "id"}}, "column 'word' is NOT NULL, has no default, and no field goes"),
    ({"mode": "upsert", "key": ["n"]}, "ON CONFLICT"),
    ({"mode": "upsert", "key": ["x"]}, "key has the column 'x', but no field goes there"),
]


def mistakes_are_told_when_the_sink_is_prepared(target):
    target.run(TABLE)
    for options, said in MISTAKES:
        with pytest.raises(StoreRefused) as raised:
            target.sink(**{"table": "t", **options})
        assert said in str(raised.value)
        assert str(raised.value).startswith(f"table {options.get('table', 't')!r}")


# ---- random histories ----------------------------------------------------------------------------


def random_histories_are_exact(target, rng):
    """Batches that are written, repeated, written late, and lost before they were written."""
    target.run("CREATE TABLE t (id integer, word text, n integer CHECK (n < 90))")
    ids, expected, numbers = count(), [], {"a": 0, "b": 0}
    last = {}
    for _ in range(60):
        name = rng.choice("ab")
        sink = target.sink(table="t", guarantee=EXACTLY)
        if name in last and rng.random() < 0.4:
            values, old, failed = last[name]
            assert written(sink, values, old) == failed
            late = replace(old, number=old.number - rng.randint(0, 1), tag="late")
            with pytest.raises(StoreMismatch):
                written(sink, [[next(ids), "late", 1]], late)
            continue
        numbers[name] += rng.randint(1, 3)
        values = [[next(ids), name, rng.randint(0, 99)] for _ in range(rng.randint(1, 40))]
        new = mark(numbers[name], str(rng.random()), name, after=0)
        if name in last:
            before = last[name][1]
            new = replace(new, previous=Point(before.number, before.tag))
        failed = written(sink, values, new)
        assert sorted(failed) == [i for i, row in enumerate(values) if row[2] >= 90]
        expected += [tuple(row) for row in values if row[2] < 90]
        last[name] = values, new, failed
    assert all_rows(target) == sorted(expected)


CASES = [
    rows_are_written_again_under_at_least_once,
    rows_of_a_mark_that_is_written_are_not_written_again,
    a_repetition_fails_the_same_rows,
    a_driver_that_was_superseded_writes_nothing,
    a_database_that_was_set_back_takes_nothing,
    a_table_of_another_name_like_marks_is_refused_and_not_touched,
    refused_rows_are_found_among_many,
    a_value_that_is_of_no_use_fails_before_anything_is_written,
    an_upsert_replaces_the_row_of_the_same_key,
    an_upsert_that_is_refused_leaves_the_row_before_it,
    an_upsert_takes_a_key_of_several_columns_and_nothing_else,
    keys_that_are_null_equal_nothing,
    a_row_that_is_deleted_goes_and_may_come_again,
    a_deletion_that_is_refused_fails_alone,
    what_a_row_has_written_can_be_deleted,
    fields_go_to_the_columns_that_options_name,
    a_table_is_made_if_that_is_asked_for,
    mistakes_are_told_when_the_sink_is_prepared,
]
