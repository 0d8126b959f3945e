"""Sinks in a real PostgreSQL: exact, whatever happens to the server or connections."""

import datetime
import decimal
import itertools
import threading
import uuid

import psycopg
import pytest

from fulmen import TopologyBuilder
from fulmen.api import ServiceUnavailable
from fulmen.connectors.postgres import PostgresSink, writing
from fulmen.connectors.postgres.writing import ENDS
from fulmen.services.errors import StoreRefused
from fulmen.services.pools import close_all
from fulmen.services.sql import postgres as postgres_service
from fulmen.testing import ListSpout
from fulmen.testing.sinks import CASES, Subject
from support.connectors import sql_sinks
from support.connectors.sql_sinks import AT_LEAST, EXACTLY, all_rows, mark, prepared, written
from support.runs.engine_runs import make_driver
from support.runs.spark_runs import wait_until
from support.servers.cut_proxy import cut_proxy
from support.servers.postgres import PASSWORD, USER
from support.servers.postgres_target import Target
from support.suite.seeds import generator, several

SECRETS = (PASSWORD, "s3cret%2Fword")


@pytest.fixture
def target(postgres):
    yield Target(postgres)
    close_all()


@pytest.mark.parametrize("case", sql_sinks.CASES, ids=lambda case: case.__name__)
def test_a_sink_in_postgresql_does_what_every_sink_does(case, target):
    case(target)


@pytest.mark.parametrize("seed", several(2))
def test_random_histories_in_postgresql_are_exact(target, seed):
    with generator(seed) as rng:
        sql_sinks.random_histories_are_exact(target, rng)


@pytest.mark.parametrize("guarantee", [EXACTLY, "at-least-once"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_sink_in_postgresql_passes_the_tests_that_authors_have(case, guarantee, target):
    target.run("CREATE TABLE t (id integer, word text, n integer CHECK (n < 1000))")
    case(
        Subject(
            PostgresSink,
            {"dsn": target.dsn, "table": "t", "guarantee": guarantee},
            fields=sql_sinks.FIELDS,
            row=lambda i: [i, f"word {i}", 7],
            read=lambda: target.run("SELECT id, word, n FROM t"),
            refused=[[0, "too large", 1000]],
        )
    )


# ---- modes and tables ----------------------------------------------------------------------------


def test_copy_writes_what_insert_writes(target):
    target.run("CREATE TABLE t (id integer PRIMARY KEY, word text, n integer CHECK (n < 1000))")
    values = [[1, "a\tb\nc\rd\\e\\N", 1], [2, None, None], [3, "\\N", 1], [4, "", 1000], [1, "", 1]]
    failed = written(target.sink(table="t", mode="copy", guarantee=EXACTLY), values, mark(1))
    assert sorted(failed) == [3, 4]
    assert "violates check constraint" in failed[3]
    assert "Key (id)=(1) already exists" in failed[4]
    assert all_rows(target) == [(1, "a\tb\nc\rd\\e\\N", 1), (2, None, None), (3, "\\N", 1)]


@pytest.mark.parametrize("mode", ["insert", "copy"])
def test_values_of_all_types_are_as_they_were(target, mode):
    types = {
        "a": ("smallint", -(2**15)),
        "b": ("numeric(6, 2)", decimal.Decimal("12.50")),
        "c": ("double precision", 1e-300),
        "d": ("boolean", True),
        "e": ("bytea", b"\0\\x\xff'"),
        "f": ("timestamptz", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
        "g": ("date", datetime.date(1999, 12, 31)),
        "h": ("interval", datetime.timedelta(days=2, seconds=3)),
        "i": ("uuid", uuid.UUID(int=5)),
        "j": ("jsonb", {"é": [1, None, 'a"\\']}),
        "k": ("integer[]", [1, None, 3]),
        "l": ("text[]", ['a"b', "c,d", "e\\f", "{}"]),
        "m": ("character varying(3)", "abc"),
        "n": ("character(3)", "xyz"),
        "o": ("mood", "sad"),
        "p": ("positive", 7),
        "q": ("json", [1, 2]),
        "s": ("jsonb[]", [{"a": "}"}, [1, [2]], "123", None]),
        "t": ("date[]", [datetime.date(2026, 1, 31), None]),
        "u": ("integer[]", [[1, 2], [3, 4]]),
        "v": ("bytea[]", [b"\xff\\", b""]),
        "w": ("jsonb", "null"),
        "x": ("box[]", ["(1,1),(0,0)", "(2,2),(1,1)"]),
        "r": ("inet", "10.0.0.1/24"),
    }
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    target.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS integer CHECK (value > 0)",
        f"CREATE TABLE t ({columns})",
    )
    sink = PostgresSink()
    prepared(sink, types, dsn=target.dsn, table="t", mode=mode)
    values = [value for _, value in types.values()]
    assert written(sink, [values, [None] * len(types)], fields=tuple(types)) == {}
    found, nulls = target.run("SELECT * FROM t ORDER BY a")
    assert [str(value) for value in found[:-1]] == [str(value) for value in values[:-1]]
    assert nulls == (None,) * len(types)
    too_long = [*values[:12], "abcd", *values[13:]]
    outside = [*values[:15], -7, *values[16:]]
    failed = written(sink, [too_long, outside], fields=tuple(types))
    assert "value too long for type character varying(3)" in failed[0]
    assert "violates check constraint" in failed[1]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("bytea", "text", "'text' is of type str, and the column is of type bytea"),
        ("integer", b"x", "b'x' is of type bytes, and the column is of type integer"),
        ("integer", 2**31, "2147483648 is out of the range of integer"),
        ("integer", True, "True is of type bool, and the column is of type integer"),
        ("integer", [1], "[1] is of type list, and the column is of type integer"),
        ("integer", {"a": 1}, "{'a': 1} is of type dict, and the column is of type integer"),
        ("text", "a\0b", "contains the character NUL or a lone surrogate"),
        ("jsonb", [3j], "complex 3j has no form in JSON"),
        ("integer[]", [object], "is of type type, and the column is of type integer"),
        ("integer", 2.0**31, "2147483648.0 is out of the range of integer"),
        ("bigint[]", [decimal.Decimal("1E+40")], "is out of the range of bigint"),
    ],
)
def test_a_value_of_a_wrong_type_fails_before_anything_is_written(target, kind, value, said):
    target.run(f"CREATE TABLE t (v {kind})")
    sink = prepared(PostgresSink(), ["v"], dsn=target.dsn, table="t")
    failed = written(sink, [[None], [value]], fields=("v",))
    assert list(failed) == [1]
    assert failed[1].startswith("column 'v': ")
    assert said in failed[1]


def test_values_that_a_column_would_change_are_refused_whatever_the_role_says(target):
    noon = datetime.datetime(2026, 1, 31, 12, 0, 0, 500_000)  # noqa: DTZ001 (has none)
    aware, cent = noon.replace(tzinfo=datetime.UTC), decimal.Decimal("1.234")
    kinds = {
        "timestamptz": (noon, aware),
        "timestamp": (noon, aware),
        "timestamp(0)[]": ([noon.replace(microsecond=0)], [noon]),
        "price": (decimal.Decimal("1.20"), cent),
        "numeric(6,2)[]": ([decimal.Decimal("1.20")], [cent]),
        "time(0) without time zone": (datetime.time(12), datetime.time(12, 0, 0, 5)),
        "interval(0)": (datetime.timedelta(1), datetime.timedelta(microseconds=5)),
    }
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
    target.run(
        "CREATE DOMAIN price AS numeric(6,2)",
        f"CREATE TABLE t (n integer, {columns})",
        f"ALTER ROLE {USER} SET timezone = 'Asia/Tokyo'",
    )
    fields = ("n", *(f"c{i}" for i in range(len(kinds))))
    rows = [[0, *(good for good, _ in kinds.values())]]
    for i, (_, bad) in enumerate(kinds.values()):
        rows.append([i + 1, *[None] * i, bad, *[None] * (len(kinds) - i - 1)])
    try:
        close_all()
        failed = written(
            prepared(PostgresSink(), fields, dsn=target.dsn, table="t"), rows, fields=fields
        )
        assert sorted(failed) == [2, 3, 4, 5, 6, 7]
        how = {"dsn": target.dsn, "table": "t", "timezone": "Asia/Tokyo", "round": True}
        assert written(prepared(PostgresSink(), fields, **how), rows[1:], fields=fields) == {}
    finally:
        target.run(f"ALTER ROLE {USER} RESET timezone")
        close_all()
    assert target.run("SELECT c0 AT TIME ZONE 'UTC' FROM t WHERE n = 0") == [(noon,)]
    found = target.run("SELECT c1, c3 FROM t WHERE n IN (2, 4) ORDER BY n")
    assert found == [(noon + datetime.timedelta(hours=9), None), (None, decimal.Decimal("1.23"))]


def test_text_that_is_no_number_fails_when_it_is_written(target):
    target.run("CREATE TABLE t (v integer)")
    sink = prepared(PostgresSink(), ["v"], dsn=target.dsn, table="t")
    failed = written(sink, [["12"], ["twelve"]], fields=("v",))
    assert failed == {1: 'invalid input syntax for type integer: "twelve"'}


KEYS = {
    "citext": ["Ann", "ann", "ANN", "bob"],
    "timestamptz": [
        "2026-01-02T00:00+00",
        "2026-01-02 01:00+01",
        "2026-01-01 23:00-01",
        "2027-1-1",
    ],
    "numeric": ["1.5", "1.50", "1.500", "2"],
    "numeric(4, 1)": ["1.5", "1.51", "1.49", "2"],
    "integer": ["1", "01", " 1", "2"],
    "character(3)": ["a", "a ", "a  ", "b"],
    'text COLLATE "any_case"': ["Ann", "ann", "ANN", "bob"],
}


@pytest.mark.parametrize("bad", [None, 2], ids=lambda bad: f"refused-{bad}")
@pytest.mark.parametrize("kind", KEYS)
def test_of_rows_whose_keys_are_equal_to_the_database_the_last_counts(target, kind, bad):
    target.run(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2',"
        " deterministic = false)",
        f"CREATE TABLE t (id {kind} PRIMARY KEY, word text, n integer CHECK (n < 1000))",
    )
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        keys = [*(KEYS[kind][i] for i in order), KEYS[kind][3]]
        values = [[key, f"{i}", 1000 if i == bad else i] for i, key in enumerate(keys)]
        target.run("TRUNCATE t")
        failed = written(target.sink(table="t", mode="upsert", key=["id"], round=True), values)
        assert list(failed) == ([] if bad is None else [bad])
        last = "1" if bad == 2 else "2"
        found = target.run("SELECT word FROM t ORDER BY word")
        assert [word for (word,) in found] == [last, "3"]


def test_keys_that_are_no_value_of_their_column_are_refused_beside_equal_ones(target):
    target.run("CREATE TABLE t (id numeric PRIMARY KEY, word text, n integer)")
    values = [["1.0", "a", 1], ["x", "b", 2], [None, "c", 3], ["1", "d", 4], ["y", "e", 5]]
    failed = written(target.sink(table="t", mode="upsert", key=["id"]), values)
    assert sorted(failed) == [1, 2, 4]
    assert 'invalid input syntax for type numeric: "x"' in failed[1]
    assert [row[1] for row in all_rows(target)] == ["d"]


def test_keys_that_a_trigger_makes_equal_are_upserted_in_their_order(target):
    target.run(
        "CREATE TABLE t (id text PRIMARY KEY, word text, n integer)",
        "CREATE FUNCTION low() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN new.id := lower(new.id); RETURN new; END $$",
        "CREATE TRIGGER low BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION low()",
    )
    sink = target.sink(table="t", mode="upsert", key=["id"])
    assert written(sink, [["b", "1", 1], ["a", "2", 2], ["B", "3", 3], ["A", "4", 4]]) == {}
    assert all_rows(target) == [("a", "4", 4), ("b", "3", 3)]


# ---- whose fault it is ---------------------------------------------------------------------------


RAISES = """
CREATE FUNCTION raises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF new.n < 0 THEN RAISE EXCEPTION 'negative amount' USING ERRCODE = new.word; END IF;
  IF new.n = 0 THEN INSERT INTO audit VALUES (new.id); END IF;
  RETURN new;
END $$
"""


def raising(target):
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)",
        RAISES,
        "CREATE TRIGGER raises BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION raises()",
    )


CODES = ["U0001", "42501", "0A000", "XX000", "25006", "42P01", "55006", "P0001", "HV000", "53200"]
CODES += ["08006", "40P01", "53100", "55P03", "57014", "57P01", "58030"]


@pytest.mark.parametrize("mode", ["insert", "upsert", "copy"])
def test_a_row_that_alone_is_refused_is_refused_whatever_the_code_says(target, mode):
    raising(target)
    keyed = {"key": ["id"]} if mode == "upsert" else {}
    values = [[i, f"w{i}", i] for i in range(1, 200)]
    for i, code in enumerate(CODES):
        values[10 * i] = [1000 + i, code, -1]
    failed = written(target.sink(table="t", mode=mode, guarantee=EXACTLY, **keyed), values, mark(1))
    assert failed == {10 * i: "negative amount" for i in range(len(CODES))}
    assert len(all_rows(target)) == 199 - len(CODES)


@pytest.mark.parametrize("code", ["U0001", "42501", "HV000", "08006", "40P01", "55P03", "57P01"])
def test_a_row_that_comes_alone_is_refused_if_a_statement_without_rows_is_taken(target, code):
    raising(target)
    target.run("CREATE ROLE writer LOGIN PASSWORD 's3cret/word'")
    try:
        target.run(
            "GRANT USAGE ON SCHEMA public TO writer",
            "CREATE TABLE rls (id integer, word text, n integer)",
            "ALTER TABLE rls ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON rls USING (true) WITH CHECK (word = 'acme')",
            "GRANT ALL ON rls, t TO writer",
        )
        dsn = target.server.dsn_of("writer")
        sink = prepared(PostgresSink(), dsn=dsn, table="rls")
        assert list(written(sink, [[1, "other", 1]])) == [0]
        failed = written(sink, [[i, "acme" if i % 2 else "other", 1] for i in range(9)])
        assert list(failed) == [0, 2, 4, 6, 8]
        assert "violates row-level security policy" in failed[0]
        if code != "42501":  # a trigger without a right lacks it for all rows
            assert written(target.sink(table="t"), [[1, code, -1]]) == {0: "negative amount"}
        target.run("REVOKE INSERT ON rls FROM writer")
        with pytest.raises(ServiceUnavailable, match="can't be used: permission denied for table"):
            written(sink, [[1, "acme", 1], [2, "other", 1]])
    finally:
        target.run("DROP OWNED BY writer", "DROP ROLE writer")


def test_what_a_trigger_lacks_for_all_rows_is_waited_for(target):
    raising(target)
    target.run("ALTER TABLE t RENAME TO lacking")  # nothing was ever written to it
    sink = target.sink(table="lacking", guarantee=EXACTLY)
    for values in ([[1, "a", 0]], [[1, "a", 0], [2, "b", 0]]):
        with pytest.raises(ServiceUnavailable, match='can\'t be used: relation "audit" does not'):
            written(sink, values, mark(1))
    assert list(written(sink, [[1, "a", 0], [2, "b", 1], [3, "c", 0]], mark(1))) == [0, 2]
    assert all_rows(target, "lacking") == [(2, "b", 1)]


@pytest.mark.parametrize("mode", ["insert", "upsert", "copy"])
def test_what_a_trigger_lacks_for_some_rows_is_their_fault_when_they_come_again_alone(target, mode):
    raising(target)
    sink = target.sink(table="t", mode=mode, **({"key": ["id"]} if mode == "upsert" else {}))
    assert list(written(sink, [[1, "a", 0], [2, "b", 1]])) == [0]
    assert written(sink, [[1, "a", 0]]) == {0: 'relation "audit" does not exist'}
    assert all_rows(target) == [(2, "b", 1)]
    target.run("ALTER TABLE t RENAME TO away")
    with pytest.raises(ServiceUnavailable, match='can\'t be used: relation "t" does not exist'):
        written(sink, [[1, "a", 0]])
    target.run("CREATE TABLE audit (id integer)", "ALTER TABLE away RENAME TO t")
    assert written(sink, [[1, "a", 0]]) == {}


def test_a_row_that_a_trigger_lacks_something_for_does_not_wait_for_others_for_ever(
    target, monkeypatch
):
    raising(target)
    target.run("ALTER TABLE t RENAME TO alone")  # nothing was ever written to it
    sink = target.sink(table="alone", guarantee=EXACTLY)
    lacking = 'relation "audit" does not exist'
    with pytest.raises(ServiceUnavailable, match=lacking):  # nobody knows whose fault it is
        written(sink, [[1, "a", 0]], mark(1))
    monkeypatch.setattr(writing, "ALONE_SECONDS", 0.0)
    several = f"{lacking}. It is so for all 2 rows, and no other tells whether they are to blame."
    with pytest.raises(ServiceUnavailable, match=several):  # of several, none is taken
        written(sink, [[2, "a", 0], [3, "b", 0]], mark(1))
    assert written(sink, [[2, "a", 0]], mark(1)) == {0: lacking}
    monkeypatch.undo()
    target.run("INSERT INTO alone VALUES (4, 'd', 4)")  # by others, and the trigger took it
    assert written(sink, [[5, "a", 0]], mark(2)) == {0: lacking}


def test_a_row_that_a_trigger_lacks_something_for_does_not_wait_for_rows_that_are_refused_anyway(
    target, monkeypatch
):
    raising(target)
    target.run("ALTER TABLE t RENAME TO alone", "ALTER TABLE alone ALTER word SET NOT NULL")
    monkeypatch.setattr(writing, "ALONE_SECONDS", 0.0)
    sink = target.sink(table="alone")
    assert written(sink, [[2, "a", 0], [3, None, 1]]).keys() == {0, 1}


@pytest.mark.parametrize("mode", ["insert", "upsert", "copy"])
def test_refused_rows_take_none_with_them_that_refer_to_rows_behind(target, mode):
    """Without the refused ones, one statement writes all of them, whatever their order is."""
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text NOT NULL, n integer REFERENCES t)"
    )
    sink = target.sink(table="t", mode=mode, **({"key": ["id"]} if mode == "upsert" else {}))
    rows = [[5, "e", 4], [4, "d", 3], [8, None, 4], [3, "c", 1], [9, "orphan", 77], [1, "a", None]]
    assert written(sink, rows).keys() == {2, 4}
    assert [row[0] for row in all_rows(target)] == [1, 3, 4, 5]


@pytest.mark.parametrize("mode", ["insert", "upsert", "copy"])
def test_what_a_last_trigger_lacks_for_all_rows_is_waited_for_though_keys_are_there(target, mode):
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)",
        "CREATE TABLE audit (id integer)",
        "CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO audit VALUES (new.id); RETURN new; END $$",
        "CREATE TRIGGER notes AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION notes()",
    )
    sink = target.sink(table="t", mode=mode, **({"key": ["id"]} if mode == "upsert" else {}))
    assert written(sink, [[1, "a", 1], [2, "b", 2]]) == {}
    target.run("DROP TABLE audit")
    for values in ([[3, "c", 3]], [[3, "c", 3], [4, "d", 4]]):
        with pytest.raises(ServiceUnavailable, match='relation "audit" does not exist'):
            written(sink, values)
    target.run("CREATE TABLE audit (id integer)")
    assert written(sink, [[3, "c", 3], [4, "d", 4]]) == {}


def test_what_only_the_server_can_be_in_is_no_row_s_fault(target):
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)",
        "CREATE FUNCTION loads() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF new.n < 0 THEN LOAD 'nothing'; END IF; RETURN new; END $$",
        "CREATE TRIGGER loads BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION loads()",
    )
    with pytest.raises(ServiceUnavailable, match='is away: could not access file "nothing"'):
        written(target.sink(table="t"), [[1, "a", 1], [2, "b", -1]])


@pytest.mark.parametrize(
    ("mode", "guarantee"), [("insert", EXACTLY), ("copy", AT_LEAST), ("upsert", EXACTLY)]
)
def test_a_row_that_ends_the_connection_is_found_and_refused(target, mode, guarantee):
    target.run(
        "CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)",
        """CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF new.n < 0 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
          RETURN new;
        END $$""",
        "CREATE TRIGGER ends BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION ends()",
    )
    keyed = {"key": ["id"]} if mode == "upsert" else {}
    sink = target.sink(table="t", mode=mode, guarantee=guarantee, **keyed)
    bad = (3, 57)
    values = [[i, f"{mode}{i}", -1 if i in bad else i] for i in range(100)]
    this = mark(1) if guarantee == EXACTLY else None
    for _ in range(ENDS):
        with pytest.raises(ServiceUnavailable, match="is away"):
            written(sink, values, this)
    failed = written(sink, values, this)
    assert sorted(failed) == list(bad)
    said = "ends when this row is written: terminating connection"
    assert all(said in reason for reason in failed.values())
    assert len(all_rows(target)) == 98
    if guarantee == EXACTLY:
        assert sorted(written(sink, values, this)) == list(bad)
    known = written(sink, [[100, "w", 1], values[3]], mark(2) if this else None)
    assert list(known) == [1]  # at once
    assert len(all_rows(target)) == 99


def test_many_refused_rows_cost_a_few_statements_each(target):
    raising(target)
    values = [[i, "U0001", -1 if i % 2 else 1] for i in range(200)]
    sink = target.sink(table="t", guarantee=EXACTLY)
    before = target.run("SELECT pg_current_xact_id()")[0][0]
    failed = written(sink, values, mark(1))
    assert sorted(failed) == [i for i in range(200) if i % 2]
    used = int(target.run("SELECT pg_current_xact_id()")[0][0]) - int(before)
    assert used < 450  # savepoints that have written


def test_a_deadlock_is_told_as_such_and_the_batch_is_tried_again(target):
    target.run("CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)")
    target.run("INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0)")
    upsert = {"mode": "upsert", "key": ["id"]}
    told, values = [], [[1, "new", 1], [2, "new", 1]]
    with psycopg.connect(target.dsn) as other:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("UPDATE t SET n = 9 WHERE id = 2")

        def write():
            try:
                told.append(written(target.sink(table="t", **upsert), values))
            except ServiceUnavailable as error:
                told.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: waiting(target), "the sink waits for row 2")
        other.execute("UPDATE t SET n = 9 WHERE id = 1")
        writer.join()
    (error,) = told
    assert "asks to try again: deadlock detected. Process" in str(error)
    assert "is away" not in str(error)
    assert written(target.sink(table="t", **upsert), values) == {}


def test_a_row_that_others_hold_for_good_is_refused_at_last(target, monkeypatch):
    target.run("CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)")
    target.run("INSERT INTO t VALUES (7, 'a', 0)")
    monkeypatch.setattr(postgres_service, "LOCK_SECONDS", 1)
    monkeypatch.setattr(writing, "MOST_MILLIS", 100)
    with psycopg.connect(target.dsn) as other:
        other.execute("UPDATE t SET n = 9 WHERE id = 7")
        values = [[i, "new", 1] for i in range(20)]
        failed = until_written(target, values, mark(1), mode="upsert", key=["id"])
    assert failed == {7: "canceling statement due to lock timeout"}
    assert len(all_rows(target)) == 20


def test_deferred_constraints_fail_rows_as_others_do(target):
    target.run(
        "CREATE TABLE t (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED, word text, n integer)"
    )
    sink = target.sink(table="t", guarantee=EXACTLY)
    assert list(written(sink, [[1, "a", 1], [1, "b", 1], [2, "c", 1]], mark(1))) == [1]


def test_a_trigger_may_give_a_column_its_value_and_refuse_rows(target):
    target.run(
        "CREATE TABLE t (id integer, word text, n integer, extra text NOT NULL)",
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF new.n = 13 THEN RAISE EXCEPTION 'no luck'; END IF;"
        " new.extra := 'x'; RETURN new; END $$",
        "CREATE TRIGGER fill BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fill()",
    )
    assert written(target.sink(table="t"), [[1, "a", 1], [2, "b", 13]]) == {1: "no luck"}


def test_tables_may_be_in_schemas_and_marks_are_beside_them(target):
    target.run("CREATE SCHEMA shop", "CREATE TABLE shop.t (id integer, word text, n integer)")
    try:
        sink = target.sink(table="shop.t", guarantee=EXACTLY)
        assert written(sink, [[1, "a", 1]], mark(1)) == {}
        assert all_rows(target, "shop.t") == [(1, "a", 1)]
        assert target.run("SELECT count(*) FROM shop.fulmen_sink_marks") == [(1,)]
    finally:
        target.run("DROP SCHEMA shop CASCADE")


def test_many_tasks_may_make_the_tables_at_once(target):
    create = {"id": "integer", "word": "text", "n": "integer"}
    failed = []

    def make(number):
        try:
            sink = target.sink(table="t", create=create, guarantee=EXACTLY)
            written(sink, [[number, "a", 1]], mark(1, sink=str(number)))
        except Exception as error:  # noqa: BLE001 (told by the test's own thread)
            failed.append(error)

    threads = [threading.Thread(target=make, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(all_rows(target)) == 8


def test_tasks_that_upsert_the_same_rows_in_other_orders_do_not_block_each_other(target):
    target.run("CREATE TABLE t (id integer PRIMARY KEY, word text, n integer)")
    failed = []

    def write(ids):
        try:
            sink = target.sink(table="t", mode="upsert", key=["id"])
            for _ in range(30):
                assert written(sink, [[i, "a", 1] for i in ids]) == {}
        except Exception as error:  # noqa: BLE001 (told by the test's own thread)
            failed.append(error)

    ids = range(500)
    threads = [threading.Thread(target=write, args=[order]) for order in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# ---- mistakes ------------------------------------------------------------------------------------


def refused(**options):
    """What is said of a mistake."""
    with pytest.raises(StoreRefused) as raised:
        prepared(PostgresSink(), **options)
    said = str(raised.value)
    assert not any(secret in said for secret in SECRETS)
    cause = raised.value.__cause__
    assert cause is None or not any(secret in str(cause) for secret in SECRETS)
    return said


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ({"user": USER, "password": "wrong"}, "password authentication failed for user"),
        ({"user": "nobody"}, "the server does not let us in"),
        ({"user": PASSWORD}, 'authentication failed for user "***"'),  # what is said has it
        ({"user": USER, "dbname": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_who_may_not_connect_is_told_so(target, who, said):
    dsn = psycopg.conninfo.make_conninfo(target.server.dsn, **who)
    assert said in refused(dsn=dsn, table="t")


def test_rights_that_are_missing_are_told(target):
    target.run(sql_sinks.TABLE, f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    try:
        dsn = target.server.dsn_of("reader")
        target.run("GRANT USAGE ON SCHEMA public TO reader", "GRANT SELECT ON t TO reader")
        assert "permission denied for table t" in refused(dsn=dsn, table="t")
        target.run("GRANT INSERT ON t TO reader")
        assert "permission denied for schema public" in refused(
            dsn=dsn, table="t", guarantee=EXACTLY
        )
        target.sink(table="t", guarantee=EXACTLY)
        said = refused(dsn=dsn, table="t", guarantee=EXACTLY)
        assert "permission denied for table fulmen_sink_marks" in said
        target.run("GRANT SELECT, INSERT, UPDATE ON fulmen_sink_marks TO reader")
        sink = prepared(PostgresSink(), dsn=dsn, table="t", guarantee=EXACTLY)
        assert written(sink, [[1, "a", 1]], mark(1)) == {}
        target.run("GRANT UPDATE ON t TO reader")
        upserts = {"dsn": dsn, "table": "t", "mode": "upsert", "key": ["id"]}
        assert prepared(PostgresSink(), **upserts).key_fields == ()
        target.run("GRANT DELETE ON t TO reader")
        assert prepared(PostgresSink(), **upserts).key_fields == ["id"]
    finally:
        target.run("DROP OWNED BY reader", "DROP ROLE reader")


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        ("id integer GENERATED ALWAYS AS IDENTITY, word text, n integer", {}, "no column 'id'"),
        ("id integer, word text, n integer GENERATED ALWAYS AS (id) STORED", {}, "no column 'n'"),
        (
            "id integer, word text, n integer",
            {"mode": "upsert", "key": ["id"]},
            "Upserts need a primary key or a unique index on exactly the columns of key",
        ),
    ],
)
def test_tables_that_do_not_fit_are_told(target, table, options, said):
    target.run(f"CREATE TABLE t ({table})")
    assert said in refused(dsn=target.dsn, table="t", **options)


def test_a_type_that_is_none_is_told(target):
    create = {"id": "integer", "word": "tetx", "n": "integer"}
    assert 'type "tetx" does not exist' in refused(dsn=target.dsn, table="t", create=create)


def test_a_server_that_is_a_standby_is_waited_for(target):
    target.run(sql_sinks.TABLE)
    dsn = psycopg.conninfo.make_conninfo(target.dsn, options="-c default_transaction_read_only=on")
    with pytest.raises(ServiceUnavailable, match="the server is a standby"):
        prepared(PostgresSink(), dsn=dsn, table="t")


OUTAGES = {
    "password": ("ALTER ROLE writer PASSWORD 'other'", "ALTER ROLE writer PASSWORD 'w'"),
    "right": ("REVOKE INSERT ON copied FROM writer", "GRANT INSERT ON copied TO writer"),
    "column": (
        "ALTER TABLE copied RENAME id TO kept",
        "ALTER TABLE copied RENAME kept TO id",
    ),
    "table": ("ALTER TABLE copied RENAME TO kept", "ALTER TABLE kept RENAME TO copied"),
}


@pytest.mark.parametrize("what", OUTAGES)
def test_rows_wait_for_what_was_right_at_the_start_and_is_not_now(target, what):
    break_it, mend_it = OUTAGES[what]
    target.run(
        "CREATE TABLE copied (id integer)",
        "CREATE ROLE writer LOGIN PASSWORD 'w'",
        "GRANT USAGE, CREATE ON SCHEMA public TO writer",
        "GRANT INSERT ON copied TO writer",
    )
    builder = TopologyBuilder("copy", max_spout_pending=100)
    builder.set_spout("source", ListSpout(range(400)))
    dsn = target.server.dsn_of("writer", "w")
    sink = {"dsn": dsn, "table": "copied", "columns": {"value": "id"}, "create": {"id": "integer"}}
    made = builder.set_bolt("sink", PostgresSink).shuffle_grouping("source")
    made.set_config({**sink, "guarantee": EXACTLY})
    running = make_driver(builder).start()
    try:
        for _ in range(3):
            running.step()
        target.run(
            break_it,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'",
        )
        for _ in range(6):
            running.step()
        assert "sink" in running.totals.waits.away
        target.run(mend_it)
        for _ in range(30):
            running.step()
        running.close()
        assert target.run("SELECT count(*), count(DISTINCT id) FROM copied") == [(400, 400)]
    finally:
        close_all()
        target.run("DROP OWNED BY writer CASCADE", "DROP ROLE writer")


def test_a_table_that_is_gone_meanwhile_is_waited_for_instead_of_failing_rows(target):
    target.run(sql_sinks.TABLE)
    sink = target.sink(table="t")
    target.run("ALTER TABLE t RENAME TO kept")
    with pytest.raises(ServiceUnavailable, match='relation "t" does not exist'):
        written(sink, [[1, "a", 1]])
    target.run("ALTER TABLE kept RENAME TO t")
    assert written(sink, [[1, "a", 1]]) == {}


# ---- a server that is away -----------------------------------------------------------------------


def test_a_server_that_is_not_there_is_waited_for():
    with pytest.raises(ServiceUnavailable) as raised:
        prepared(PostgresSink(), dsn=f"host=127.0.0.1 port=1 password={PASSWORD}", table="t")
    assert "Connection refused" in str(raised.value)
    assert not any(secret in str(raised.value) for secret in SECRETS)


def until_written(target, values, new, **options):
    """Write as the engine does: again and again, each time by a new instance."""
    while True:
        try:
            return written(target.sink(table="t", guarantee=EXACTLY, **options), values, new)
        except ServiceUnavailable:
            pass


@pytest.mark.parametrize("mode", ["insert", "copy"])
@pytest.mark.parametrize("seed", several(1))
def test_rows_are_there_once_wherever_the_connection_is_cut(target, mode, seed):
    """Cuts fall into all parts of a write, and some between the commit and its answer."""
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    with generator(seed) as rng, cut_proxy(target.server.port) as proxy:
        target.dsn = psycopg.conninfo.make_conninfo(target.dsn, port=proxy.port)
        size = len(str([[i, "x" * 20, 1] for i in range(200)]))
        for number in range(1, 61):
            values = [[number * 1000 + i, "x" * 20, 1] for i in range(200)]
            proxy.cut_after(rng.randint(1, size))
            assert until_written(target, values, mark(number), mode=mode) == {}
        assert proxy.cuts >= 50
        proxy.cut_after(10**9)
    assert [row[0] for row in all_rows(target)] == [
        number * 1000 + i for number in range(1, 61) for i in range(200)
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rows_are_there_once_whenever_the_server_is_killed(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    kill_server(target, several(1)[0], kills=50)


def test_rows_are_there_once_when_the_server_is_killed_a_few_times(target):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    kill_server(target, several(1)[0], kills=4)


def kill_server(target, seed, kills):
    """Kill it at random moments while batches are written."""
    done = threading.Event()
    numbers, failed = itertools.count(1), []

    def write():
        try:
            while not done.is_set():
                number = next(numbers)
                values = [[number * 1000 + i, "x", 1] for i in range(300)]
                failed.extend(until_written(target, values, mark(number)))
        except Exception as error:  # noqa: BLE001 (told by the test's own thread)
            failed.append(error)

    with generator(seed) as rng:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(kills):
                before = last_mark(target)
                wait_until(lambda before=before: failed or last_mark(target) > before, "a write")
                threading.Event().wait(rng.uniform(0, 0.05))
                target.server.kill()
                target.server.start()
        finally:
            done.set()
            writer.join()
    assert not failed
    assert [row[0] for row in all_rows(target)] == [
        number * 1000 + i for number in range(1, next(numbers)) for i in range(300)
    ]


def last_mark(target):
    found = target.run("SELECT to_regclass('fulmen_sink_marks') IS NOT NULL")
    if not found[0][0]:
        return 0
    return target.run("SELECT coalesce(max(number), 0) FROM fulmen_sink_marks")[0][0]


def test_a_late_writer_waits_for_the_lock_and_then_sees_that_it_is_late(target):
    """It has read nothing before it has the lock."""
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    sink, late = (target.sink(table="t", guarantee=EXACTLY) for _ in range(2))
    written(sink, [[1, "a", 1]], mark(1))
    results = []

    def write():
        results.append(written(late, [[2, "b", 2]], mark(2)))

    with psycopg.connect(target.dsn) as db:
        db.execute("SELECT FROM fulmen_sink_marks WHERE sink = 'a' FOR UPDATE")
        thread = threading.Thread(target=write)
        thread.start()
        wait_until(lambda: waiting(target), "a writer that waits")
        db.execute("INSERT INTO t VALUES (2, 'b', 2)")
        db.execute("UPDATE fulmen_sink_marks SET number = 2, tag = 'tag 2' WHERE sink = 'a'")
    thread.join()
    assert results == [{}]
    assert all_rows(target) == [(1, "a", 1), (2, "b", 2)]


def waiting(target):
    return target.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")[0][0]


def test_a_writer_that_is_stopped_with_the_lock_is_ended_by_the_server(target, monkeypatch):
    target.run("CREATE TABLE t (id integer, word text, n integer)")
    monkeypatch.setattr(postgres_service, "IDLE_SECONDS", 1)
    stopped, sink = (target.sink(table="t", guarantee=EXACTLY) for _ in range(2))
    written(sink, [[1, "a", 1]], mark(1))
    with pytest.raises(ServiceUnavailable), stopped._table.transaction() as transaction:  # noqa: PT012
        transaction.locked_mark(mark(2))
        assert written(sink, [[2, "b", 2]], mark(2)) == {}
        transaction.write([("3", "c", "3")])
    assert all_rows(target) == [(1, "a", 1), (2, "b", 2)]
