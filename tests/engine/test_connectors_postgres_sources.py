"""Sources in a real PostgreSQL: each row once, whatever happens to processes or the server."""

import datetime
import json
from collections import Counter
from decimal import Decimal

import psycopg
import pytest

from fulmen.api import ServiceUnavailable, Stream
from fulmen.connectors.formats import JsonOptions
from fulmen.connectors.postgres import PostgresQuerySpout, PostgresQueueSpout, PostgresSink
from fulmen.services.errors import StoreRefused
from fulmen.services.pools import close_all
from support.connectors import sql_topologies
from support.connectors.sql_sinks import context, prepared, written
from support.connectors.sql_sources import Task, rescaled
from support.runs.spark_runs import wait_until
from support.servers.postgres import USER, running_postgres
from support.servers.postgres_target import Target
from support.suite.seeds import generator, several


@pytest.fixture
def target(postgres):
    yield Target(postgres)
    close_all()


# ---- a growing table as a source -----------------------------------------------------------------


def growing(target, **options):
    how = {"dsn": target.dsn, "table": "t", "column": "id", "fields": ["word"], "follow": False}
    return Task(PostgresQuerySpout, **{**how, "delay_seconds": 0, **options})


@pytest.mark.parametrize("seed", several(2))
def test_each_row_of_a_growing_table_is_acked_once_whatever_is_lost(target, seed):
    target.run("CREATE TABLE t (id serial PRIMARY KEY, word text)")
    with generator(seed) as rng:
        one, words = growing(target, fetch_size=rng.randint(1, 7)), 0
        for _ in range(40):
            if new := rng.randint(0, 5):
                numbers = f"generate_series({words}, {words + new - 1})"
                target.run(f"INSERT INTO t (word) SELECT 'w' || i FROM {numbers} AS i")
                words += new
            one.batch(
                fail=lambda _: rng.random() < 0.3,
                most=rng.randint(1, 8),
                is_lost=rng.random() < 0.3,
                ends=rng.random() < 0.7,
                room=rng.randint(1, 8),
            )
            one.clock.advance(1.0)
        one.until_exhausted()
        assert one.acked == {(f"w{i}",): 1 for i in range(words)}


def test_with_a_delay_a_transaction_that_commits_late_is_not_missed(target):
    target.run("CREATE TABLE t (id serial PRIMARY KEY, word text)")
    one = growing(target, delay_seconds=5)
    with psycopg.connect(target.dsn) as late:
        late.execute("INSERT INTO t (word) VALUES ('late')")
        target.run("INSERT INTO t (word) VALUES ('early')")
        one.batch()
        one.clock.advance(4)
    one.clock.advance(1)
    one.batch()
    assert list(one.pending.values()) == [("late",), ("early",)]


def test_a_growing_table_says_how_far_it_is_behind(target):
    target.run(
        "CREATE TABLE t (id serial PRIMARY KEY, word text)",
        "INSERT INTO t (word) VALUES ('a'), ('b'), ('c')",
    )
    one = growing(target, start=1)
    one.batch()
    assert one.lag == 2
    one.clock.advance(5)
    one.batch()
    assert one.lag == 0


def test_a_column_of_times_says_how_old_the_oldest_row_is(target, monkeypatch):
    target.run(
        "CREATE TABLE t (at timestamptz, word text)",
        "INSERT INTO t VALUES ('2026-01-01 10:00+00', 'a'), ('2026-01-01 10:05+00', 'b')",
    )
    ten = datetime.datetime(2026, 1, 1, 10, tzinfo=datetime.UTC).timestamp()
    monkeypatch.setattr(PostgresQuerySpout, "today", lambda: ten + 600)
    one = growing(target, column="at")
    one.batch()
    assert (one.lag, one.age) == (2, 600)
    one.clock.advance(5)
    one.batch()
    assert (one.lag, one.age) == (0, 0)


def test_rows_of_one_moment_are_emitted_together(target):
    target.run(
        "CREATE TABLE t (id serial, word text, at timestamptz)",
        "INSERT INTO t (word, at) SELECT 'w' || i, timestamptz '2026-01-01' + i / 5"
        " * interval '1 day' FROM generate_series(0, 14) AS i",
    )
    one = growing(target, column="at", fetch_size=3)
    for _ in range(3):
        one.batch(most=1)
        one.restore()
    one.until_exhausted()
    assert one.acked == {(f"w{i}",): 1 for i in range(15)}


@pytest.mark.parametrize(
    ("kind", "numbers", "placeless"),
    [
        ("real", "1 2 3", "NaN Infinity -Infinity"),
        ("fraction", "1 2 3", "NaN Infinity -Infinity"),
        ("numeric", "1 2 3", "NaN Infinity -Infinity"),
        ("timestamptz", "2026-01-01 2026-01-02 12026-01-03", "infinity -infinity"),
        ("date", "2026-01-01 2026-01-02 12026-01-03", "infinity"),
    ],
)
def test_values_without_a_place_are_told_and_hide_no_rows_that_come_later(
    target, kind, numbers, placeless
):
    target.run(
        "CREATE DOMAIN fraction AS float8",
        f"CREATE TABLE t (at {kind}, word text)",
        "INSERT INTO t VALUES (NULL, 'x')",
        *(f"INSERT INTO t VALUES ('{value}', 'x')" for value in placeless.split()),
    )
    first, second, third = numbers.split()
    target.run(f"INSERT INTO t VALUES ('{first}', 'a'), ('{second}', 'b')")
    number = 1 + len(placeless.split())
    why = "'at' is null, NaN or infinite, which has no place in a growing order"
    for delay in (0, 5):
        one = growing(target, column="at", delay_seconds=delay)
        one.until_exhausted()
        assert one.collector.told == [[None, f"{number} rows can't be emitted: {why}", "t.at"]]
        assert one.acked == {("a",): 1, ("b",): 1}
    target.run(f"INSERT INTO t VALUES ('{third}', 'c')")
    one.until_exhausted()
    assert one.acked[("c",)] == 1
    one.clock.advance(5)
    one.batch()
    assert one.lag == 0


def test_rows_whose_values_only_the_server_takes_for_equal_are_emitted_together(target):
    target.run(
        "CREATE COLLATION anyhow (provider = icu, locale = 'und-u-ks-level2',"
        " deterministic = false)",
        "CREATE TABLE t (word text COLLATE anyhow)",
        "INSERT INTO t VALUES ('a'), ('B'), ('A'), ('b')",
    )
    one = growing(target, column="word", fetch_size=1)
    one.batch(most=1)
    one.restore()
    one.until_exhausted()
    assert one.acked == {(letter,): 1 for letter in "aAbB"}


def test_values_that_python_cannot_hold_are_emitted_as_text(target):
    target.run(
        "CREATE TABLE t (id integer, at timestamptz, day date)",
        "INSERT INTO t VALUES (1, 'infinity', '0044-03-15 BC'), (2, NULL, '2026-01-02')",
    )
    one = growing(target, fields=["at", "day"])
    one.until_exhausted()
    assert one.acked == {
        ("infinity", "0044-03-15 BC"): 1,
        (None, datetime.date(2026, 1, 2)): 1,
    }


def test_a_role_that_may_only_read_reads_from_a_hot_standby(target):
    target.run(
        "CREATE TABLE t (id int, word text)",
        "INSERT INTO t VALUES (1, 'a')",
        "CREATE ROLE reader LOGIN PASSWORD 'r'",
        "ALTER ROLE reader SET default_transaction_read_only = on",
        "GRANT SELECT ON t TO reader",
        "GRANT USAGE ON SCHEMA public TO reader",
    )
    try:
        with running_postgres(primary=target.server) as standby:
            copied = growing(target, dsn=standby.dsn_of("reader", "r"), delay_seconds=5)
            read = growing(target, dsn=target.server.dsn_of("reader", "r"))
            target.run("INSERT INTO t VALUES (2, 'b')")
            wait_until(lambda: len(standby.run("SELECT id FROM t")) == 2, "what was replicated")
            for one in (read, copied):
                one.until_exhausted()
                assert one.acked == {("a",): 1, ("b",): 1}
            with pytest.raises(ServiceUnavailable, match="the server is a standby"):
                prepared(PostgresSink(), dsn=standby.dsn, table="t")
    finally:
        close_all()
        target.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_query_with_odd_characters_may_be_the_source(target):
    target.run("CREATE TABLE t (id integer, word text)", "INSERT INTO t VALUES (1, 'a%{x}')")
    query = "SELECT id AS n, word FROM t WHERE word LIKE '%{x}' ;"
    one = growing(target, table=None, query=query, column="n")
    one.until_exhausted()
    assert one.acked == {("a%{x}",): 1}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n": "int32"}, "column 'n' is numeric, which is no int32"),
        ({"n": "decimal", "tags": "string"}, r"column 'tags' is text\[\], which is no string"),
        ({"n": "decimal", "tags": "json", "id": "int64", "mood": "string"}, None),
        ({"mood": "int32"}, "column 'mood' is of a type whose values are text, which is no int32"),
    ],
)
def test_columns_are_of_the_types_that_a_source_says(target, fields, said):
    target.run(
        "DROP TYPE IF EXISTS moods",
        "CREATE TYPE moods AS ENUM ('good')",
        "CREATE TABLE t (id int, n numeric, tags text[], mood moods,"
        " claimed_by text, claimed_until timestamptz)",
    )
    if said is None:
        stream = growing(target, fields=fields).spout.outputs_for(
            PostgresQuerySpout.config_model(dsn=target.dsn, table="t", column="id", fields=fields)
        )["default"]
        assert stream.types == fields
        return
    with pytest.raises(StoreRefused, match=said):
        growing(target, fields=fields)
    with pytest.raises(StoreRefused, match=said):
        Task(PostgresQueueSpout, dsn=target.dsn, table="t", fields=fields)


def test_a_source_with_a_wrong_name_is_told_so(target):
    target.run("CREATE TABLE t (id integer, word text)")
    for options, said in (
        ({"table": "s"}, 'relation "s" does not exist'),
        ({"column": "idd"}, 'column "idd" does not exist'),
        ({"fields": ["wrod"]}, 'column "wrod" does not exist'),
        ({"table": None, "query": "SELECT word FORM t"}, 'syntax error at or near "t"'),
    ):
        with pytest.raises(StoreRefused, match=said):
            growing(target, **options)


@pytest.fixture
def all_types(target):
    columns = {
        "amount": ("numeric(10,2)", "1.10"),
        "at": ("timestamptz", "2026-01-31 12:00:00+00"),
        "tags": ("text[]", "{a,b}"),
        "doc": ("jsonb", '{"a": [1.5, null]}'),
        "day": ("date", "2026-01-01"),
        "dur": ("interval", "1 day 02:00:00"),
        "u": ("uuid", "00000000-0000-0000-0000-000000000001"),
        "b": ("bytea", "\\x78ff"),
        "r": ("int4range", "[1,5)"),
        "x": ("float8", "NaN"),
        "ip": ("inet", "127.0.0.1"),
    }
    made = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    row = ", ".join(f"'{value}'" for _, value in columns.values())
    nulls = ", ".join(["NULL"] * len(columns))
    target.run(
        f"CREATE TABLE t (id int, {made})",
        f"CREATE TABLE copy (id int, {made})",
        f"INSERT INTO t VALUES (1, {row}), (2, {nulls})",
    )
    return ["id", *columns]


def test_a_table_of_all_types_goes_to_json_and_to_a_table_of_the_same_types(target, all_types):
    one = growing(target, fields=all_types)
    one.batch()
    rows = sorted(map(list, one.pending.values()))
    encode = JsonOptions(type="json").make().encoder(all_types)
    first, second = (json.loads(encode(row), parse_float=Decimal) for row in rows)
    assert list(first.values()) == [
        *(
            1,
            Decimal("1.10"),
            "2026-01-31T12:00:00+00:00",
            ["a", "b"],
            {"a": [Decimal("1.5"), None]},
        ),
        *("2026-01-01", "P1DT2H", "00000000-0000-0000-0000-000000000001", "eP8=", "[1,5)", "NaN"),
        "127.0.0.1",
    ]
    assert list(second.values()) == [2, *[None] * 11]
    sink = prepared(PostgresSink(), tuple(all_types), dsn=target.dsn, table="copy")
    assert written(sink, rows, fields=tuple(all_types)) == {}
    assert target.run("SELECT t::text FROM t ORDER BY id") == target.run(
        "SELECT c::text FROM copy AS c ORDER BY id"
    )


DOCUMENTS = [
    *("null", "true", "false", '""', '"s"', '"123"', '"null"', '"true"', '"[1]"', '"{}"'),
    *('"\\"s\\""', '"a\\\\b"', '"\\n\\t"', '"é😀"', '" "', '"NaN"', '"1.10"', '"\\u0001"'),
    *("0", "-0", "-0.0", "1", "1.0", "1.10", "-7", "1e2", "0.1", "0.30000000000000004"),
    *("0.1234567890123456789", "12345678901234567890123", "9007199254740993.0", "1e400"),
    *("1e-400", "4.9e-324", "1" + "0" * 5000, "[]", "{}", "[null]", '[1, "1", [1.10]]'),
    *('{"a": null}', '{"": {"b": [0.1234567890123456789, 1e400]}}', "[" * 250 + "]" * 250),
]


def test_json_is_the_same_in_a_table_that_it_is_copied_to(target):
    columns = "id serial, j json, b jsonb, js json[], bs jsonb[]"
    target.run(f"CREATE TABLE t ({columns})", f"CREATE TABLE copy ({columns})")
    for text in (*DOCUMENTS, None):
        target.run(
            psycopg.sql.SQL(
                "INSERT INTO t (j, b, js, bs) SELECT d, d::jsonb, ARRAY[d, NULL, d],"
                " ARRAY[d, NULL, d]::jsonb[] FROM (SELECT {}::json) AS x (d)"
            ).format(text)
        )
    fields = ("id", "j", "b", "js", "bs")
    one = growing(target, fields=list(fields))
    one.batch(room=100)
    assert one.collector.told == []
    sink = prepared(PostgresSink(), fields, dsn=target.dsn, table="copy")
    assert written(sink, list(one.pending.values()), fields=fields) == {}
    same = "(t.j::jsonb, t.b, t.js::jsonb[], t.bs) IS NOT DISTINCT FROM"
    same += " (c.j::jsonb, c.b, c.js::jsonb[], c.bs)"
    assert (
        target.run(f"SELECT t::text, c::text FROM t JOIN copy c USING (id) WHERE NOT ({same})")
        == []
    )
    assert target.run("SELECT count(*), count(b) FROM copy") == [
        (len(DOCUMENTS) + 1, len(DOCUMENTS))
    ]


def test_json_that_can_not_be_read_is_told_and_holds_no_other_row(target):
    target.run("CREATE TABLE t (id serial, j json, a json[])")
    deep = "[" * 251 + "]" * 251
    target.run(f"INSERT INTO t (j) VALUES ('{deep}'), ('1e{'9' * 30}'), ('[1]')")
    target.run("INSERT INTO t (a) VALUES ('{{1},{2}}'), ('[2:2]={1}'), ('{[1]}')")
    one = growing(target, fields=["j", "a"])
    one.batch(room=10)
    assert [(why.partition(":")[0], at) for _, why, at in one.collector.told] == [
        *(("field 'j'", "t.id=1"), ("field 'j'", "t.id=2")),
        *(("field 'a'", "t.id=4"), ("field 'a'", "t.id=5")),
    ]
    good = [values for values in one.pending.values() if len(values) == 2]
    assert good == [([1], None), (None, [[1]])]


def test_arrays_with_infinity_are_copied(target):
    columns = "id serial, d date[], at timestamptz[], n numeric[], f float8[][]"
    target.run(
        f"CREATE TABLE t ({columns})",
        f"CREATE TABLE copy ({columns})",
        "INSERT INTO t (d, at, n, f) VALUES ('{2026-01-31,infinity,NULL}',"
        " '{2026-01-31 12:00+05:30,-infinity,12026-01-01 00:00+00}', '{1.10,NaN}', '{{1},{NaN}}')",
    )
    fields = ("id", "d", "at", "n", "f")
    one = growing(target, fields=list(fields))
    one.batch()
    sink = prepared(PostgresSink(), fields, dsn=target.dsn, table="copy")
    assert written(sink, list(one.pending.values()), fields=fields) == {}
    assert target.run("SELECT t::text FROM t") == target.run("SELECT c::text FROM copy AS c")


def test_whole_numbers_of_any_type_go_to_integers(target):
    target.run("CREATE TABLE t (a smallint, b bigint, c integer[])")
    sink = prepared(PostgresSink(), ("a", "b", "c"), dsn=target.dsn, table="t")
    rows = [
        [7.0, Decimal("7.00"), [Decimal("7E+1"), -0.0]],
        [7.5, 1, None],
        [1, Decimal("NaN"), []],
    ]
    assert sorted(written(sink, rows, fields=("a", "b", "c"))) == [1, 2]
    assert target.run("SELECT * FROM t") == [(7, 7, [70, 0])]


def test_times_that_python_can_not_hold_are_told_if_their_field_has_a_type(target):
    target.run(
        "CREATE TABLE t (id int, at timestamptz, day date, word text)",
        "INSERT INTO t VALUES (1, 'infinity', now(), 'a'), (2, now(), '0044-03-15 BC', 'b'),"
        " (3, '2026-01-31T12:00:00Z', '2026-01-31', 'c'), (4, NULL, NULL, 'd')",
    )
    one = growing(target, fields={"word": "string", "at": "timestamp", "day": "date32"})
    one.until_exhausted()
    assert [json.loads(data)["word"] for data, *_ in one.collector.told] == ["a", "b"]
    assert [(reason, position) for _, reason, position in one.collector.told] == [
        ("field 'at': 'infinity' is no timestamp that Python can hold", "t.id=1"),
        ("field 'day': '0044-03-15 BC' is no date32 that Python can hold", "t.id=2"),
    ]
    assert len(one.collector.errors) == 2
    assert one.acked[("d", None, None)] == 1
    lenient = growing(target, fields=["at", "day"])
    lenient.batch()
    assert next(iter(lenient.pending.values()))[0] == "infinity"


def test_intervals_with_months_or_years_have_no_length_and_are_text(target):
    target.run(
        "CREATE TABLE t (id int, span interval, spans interval[])",
        "INSERT INTO t VALUES (1, '1 day 2 hours', '{1 mon,00:01}'), (2, '1 year 1 day', NULL),"
        " (3, '178000000 years', NULL), (4, '2000000000 days', NULL)",
    )
    one = growing(target, fields=["span", "spans"])
    one.batch()
    assert list(one.pending.values()) == [
        (datetime.timedelta(days=1, hours=2), ["1 mon", datetime.timedelta(minutes=1)]),
        ("1 year 1 day", None),
        ("178000000 years", None),
        ("2000000000 days", None),
    ]


def test_values_do_not_depend_on_the_settings_of_a_role(target):
    values = "'2026-03-04 05:06:07.5Z', '2026-03-04', '1 day 02:00:00', 0.1::float8 + 0.2, 'żółć'"
    settings = ("datestyle = 'SQL, DMY'", "intervalstyle = 'iso_8601'", "extra_float_digits = 0")
    settings += ("client_encoding = 'latin1'",)
    target.run(
        "CREATE TABLE t (id int, at timestamptz, day date, span interval, n float8, word text)",
        f"INSERT INTO t VALUES (1, {values})",
        *(f"ALTER ROLE {USER} SET {setting}" for setting in settings),
    )
    try:
        one = growing(target, fields=["at", "day", "span", "n", "word"])
        one.batch()
    finally:
        target.run(f"ALTER ROLE {USER} RESET ALL")
    at = datetime.datetime(2026, 3, 4, 5, 6, 7, 500_000, datetime.UTC)
    assert list(one.pending.values()) == [
        (at, at.date(), datetime.timedelta(days=1, hours=2), 0.1 + 0.2, "żółć")
    ]


def test_types_of_a_source_that_a_table_can_not_have_are_told_at_the_start(target):
    target.run("CREATE TABLE t (data int, reason text)")
    options = PostgresSink.config_model(dsn=target.dsn, table="t")
    fields = ("data", "reason")
    known = context(options, fields)
    known.streams["source"]["default"] = Stream(fields, types={"data": "binary"})
    with pytest.raises(StoreRefused, match="'source' emits data binary, and the table takes no"):
        PostgresSink().prepare({}, known)


@pytest.mark.parametrize("kind", ["text[]", "jsonb", "text", "int[]", "int"])
def test_json_is_not_refused_where_some_of_it_can_be_written(target, kind):
    target.run(f"CREATE TABLE t (data {kind}, reason text)")
    fields = ("data", "reason")
    known = context(PostgresSink.config_model(dsn=target.dsn, table="t"), fields)
    known.streams["source"]["default"] = Stream(fields, types={"data": "json"})
    PostgresSink().prepare({}, known)


# ---- a table as a queue --------------------------------------------------------------------------

QUEUE = (
    "CREATE TABLE t (id serial PRIMARY KEY, word text, claimed_by text, claimed_until timestamptz)"
)


def test_times_that_python_can_not_hold_are_told_by_a_queue_too(target):
    target.run(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, word text,"
        " claimed_by text, claimed_until timestamptz)",
        "INSERT INTO t VALUES (1, 'infinity', 'a'), (2, '2026-01-31T12:00:00Z', 'b')",
    )
    one = queue(target, fields={"word": "string", "at": "timestamp"})
    one.batch(is_lost=True)
    one.batch(fail=lambda _: True)
    one.batch(fail=lambda _: True)
    one.until_exhausted()
    told = ["field 'at': 'infinity' is no timestamp that Python can hold", "t.id=1"]
    assert one.collector.told[0][1:] == told
    assert json.loads(one.collector.told[0][0]) == {"word": "a", "at": "infinity"}
    assert one.acked["b", datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)] == 1
    assert sum(one.acked.values()) == 2
    assert target.run("SELECT * FROM t") == []


def queue(target, **options):
    how = {"dsn": target.dsn, "table": "t", "fields": ["word"], "follow": False}
    return Task(PostgresQueueSpout, **{**how, **options})


def put(target, first, number):
    numbers = f"generate_series({first}, {first + number - 1})"
    target.run(f"INSERT INTO t (word) SELECT 'w' || i FROM {numbers} AS i")


@pytest.mark.parametrize("seed", several(3))
def test_each_row_of_a_queue_is_acked_once_by_all_tasks_whatever_is_lost(target, seed):
    target.run(QUEUE)
    with generator(seed) as rng:
        tasks = [queue(target, fetch_size=rng.randint(1, 7)) for _ in range(3)]
        words = 0
        for _ in range(60):
            if new := rng.randint(0, 4):
                put(target, words, new)
                words += new
            rng.choice(tasks).batch(
                fail=lambda _: rng.random() < 0.3,
                most=rng.randint(1, 8),
                is_lost=rng.random() < 0.4,
                ends=rng.random() < 0.7,
            )
            for task in tasks:
                task.clock.advance(1.0)
        for task in tasks:
            task.until_exhausted()
        acked = sum((task.acked for task in tasks), Counter())
        assert acked == {(f"w{i}",): 1 for i in range(words)}
        assert target.run("SELECT * FROM t") == []


@pytest.mark.parametrize("seed", several(2))
def test_each_row_of_a_queue_is_acked_once_whatever_the_number_of_tasks(target, seed):
    target.run(QUEUE)
    with generator(seed) as rng:
        tasks, words = [queue(target, fetch_size=rng.randint(1, 7))], 0
        for _ in range(8):
            new = rng.randint(5, 20)
            put(target, words, new)
            words += new
            for _ in range(6):
                rng.choice(tasks).batch(
                    fail=lambda _: rng.random() < 0.3,
                    most=rng.randint(1, 8),
                    is_lost=rng.random() < 0.3,
                )
            for task in tasks:
                task.clock.advance(1.0)
                task.batch(fail=lambda _: rng.random() < 0.3, most=0)
            tasks = rescaled(tasks, rng.randint(1, 4))
        for task in tasks:
            task.until_exhausted()
        acked = sum((task.acked for task in tasks), Counter())
        assert acked == {(f"w{i}",): 1 for i in range(words)}
        assert target.run("SELECT * FROM t") == []


def test_a_task_that_was_added_and_had_no_turn_takes_over_what_another_has_acked(target):
    target.run(QUEUE)
    put(target, 0, 3)
    tasks = rescaled([queue(target)], 3)
    for _ in range(2):
        tasks[2].batch()
    tasks[2].batch(most=0)
    one, two = rescaled(tasks, 2)
    for task in (two, one):
        task.until_exhausted()
    assert one.acked + two.acked == {(f"w{i}",): 1 for i in range(3)}


@pytest.mark.parametrize("is_lost", [True, False])
def test_no_task_takes_rows_of_another_after_a_time_in_which_none_of_them_ran(target, is_lost):
    target.run(QUEUE)
    put(target, 0, 4)
    tasks = one, other = [queue(target, fetch_size=2) for _ in range(2)]
    for task in tasks:
        task.batch()
        task.batch(most=1)
    target.run("UPDATE t SET claimed_until = now() - interval '1 second'")
    for task in tasks:
        task.clock.advance(900)
        if is_lost:
            task.restore()
    for _ in range(2):
        for task in (other, one):
            task.batch(ends=False)
    assert sorted(one.pending.values()) == [("w0",), ("w1",)]
    assert sorted(other.pending.values()) == [("w2",), ("w3",)]


def test_a_row_is_deleted_only_when_its_ack_is_committed(target):
    target.run(QUEUE)
    put(target, 0, 1)
    one = queue(target)
    one.batch()
    assert not one.pending  # its name is committed before the first claim
    one.batch()
    assert list(one.pending.values()) == [("w0",)]
    one.batch(is_lost=True)
    assert len(target.run("SELECT * FROM t")) == 1
    one.batch()
    assert one.acked == {("w0",): 1}
    assert len(target.run("SELECT * FROM t")) == 1
    one.batch()
    assert target.run("SELECT * FROM t") == []
    assert one.spout.is_exhausted()
    assert one.spout.knows_its_end


def test_rows_that_a_lost_batch_has_claimed_are_emitted_after_the_restore(target):
    target.run(QUEUE)
    put(target, 0, 3)
    one, other = queue(target), queue(target)
    for task in (one, other):
        task.batch()
    one.batch(is_lost=True)
    other.batch()
    assert not other.pending
    one.batch()
    assert len(one.pending) == 3


def test_a_claim_that_has_run_out_is_anybodys_and_one_that_is_renewed_is_not(target):
    target.run(QUEUE)
    put(target, 0, 2)
    one, other = queue(target, fetch_size=1), queue(target)
    one.batch()
    one.batch(most=1)
    target.run("UPDATE t SET claimed_until = now() - interval '1 second' WHERE word = 'w0'")
    one.clock.advance(400)
    one.batch(most=0, ends=False)
    one.spout.next_tuple()  # renews
    one.restore()
    other.batch()
    other.batch()
    assert [*other.pending.values()] == [("w1",)]
    target.run("UPDATE t SET claimed_until = now() - interval '1 second' WHERE word = 'w0'")
    other.clock.advance(1)
    other.batch(ends=False)
    assert sorted(other.pending.values()) == [("w0",), ("w1",)]


def test_rows_that_somebody_works_on_are_skipped(target):
    target.run(QUEUE)
    put(target, 0, 2)
    one = queue(target)
    one.batch()
    with psycopg.connect(target.dsn) as db:
        db.execute("SELECT FROM t WHERE word = 'w0' FOR UPDATE")
        one.batch()
        assert list(one.pending.values()) == [("w1",)]


def test_rows_are_taken_in_order_and_the_key_may_be_text(target):
    target.run(
        "CREATE TABLE t (name text PRIMARY KEY, rank integer, mine text, until timestamptz)",
        "INSERT INTO t VALUES ('a', 2), ('b', 1), ('c', 3)",
    )
    names = {"key": "name", "order": "rank", "claimed_by": "mine", "claimed_until": "until"}
    one = queue(target, fields=["name", "rank"], **names)
    assert one.spout.outputs_for(one.context.options)["default"] == Stream(("name", "rank"))
    one.batch()
    one.batch()
    assert list(one.pending.values()) == [("b", 1), ("a", 2), ("c", 3)]
    one.until_exhausted()
    assert target.run("SELECT * FROM t") == []


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("float8", ["1", "NaN", "Infinity", "0.1"]),
        ("numeric", ["1.10", "NaN", "Infinity"]),
        ("timestamptz", ["2026-01-31 12:00+05:30", "infinity", "-infinity"]),
        ("jsonb", ['{"a": [1.10]}', "null", '"x"']),
        ("mood", ["happy", 'so "so"']),
        ("bytea", [r"\x00ff", r"\x"]),
    ],
)
def test_a_row_of_a_queue_is_taken_once_whatever_its_key_is(target, kind, keys):
    target.run(
        "CREATE TYPE mood AS ENUM ('happy', 'so \"so\"')",
        f"CREATE TABLE t (id {kind} PRIMARY KEY, word text, claimed_by text,"
        " claimed_until timestamptz)",
    )
    for i, key in enumerate(keys):
        target.run(psycopg.sql.SQL("INSERT INTO t VALUES ({}, {})").format(key, f"w{i}"))
    one, other = queue(target), queue(target)
    one.batch()
    one.batch(is_lost=True)
    one.batch(fail=lambda _: True)
    one.batch(fail=lambda _: True)
    for task in (other, one):
        task.until_exhausted()
    assert one.acked == {(f"w{i}",): 1 for i in range(len(keys))}
    assert target.run("SELECT * FROM t") == []


def test_a_task_of_a_queue_holds_the_watermark_while_it_has_rows(target):
    target.run(QUEUE)
    put(target, 0, 3)
    one, other = (queue(target, index=i, tasks=2) for i in range(2))
    for task, name in ((one, "t of task 0"), (other, "t of task 1")):
        assert task.spout.unread_parts() == [task.spout.part_of(1)] == [name], "not looked for yet"
        task.batch()
        task.batch(most=1)
    assert (one.spout.unread_parts(), other.spout.unread_parts()) == (["t of task 0"], [])
    one.batch()
    assert one.spout.unread_parts() == []


def test_the_first_task_says_how_many_rows_nobody_has_claimed(target):
    target.run(QUEUE)
    put(target, 0, 5)
    one, other = queue(target, fetch_size=2), queue(target, index=1, tasks=2)
    for task in (one, other):
        task.batch()
    one.batch(most=1)
    assert one.lag == 5
    other.batch(most=1)
    assert other.lag is None
    one.clock.advance(5)
    one.batch()
    assert one.lag == 0


def test_a_queue_in_the_order_of_times_says_how_old_the_first_row_is(target, monkeypatch):
    target.run(
        QUEUE,
        "ALTER TABLE t ADD at timestamptz",
        "INSERT INTO t (word, at) VALUES ('b', '2026-01-01 10:05+00')",
        "INSERT INTO t (word, at) VALUES ('a', '2026-01-01 10:00+00')",
    )
    ten = datetime.datetime(2026, 1, 1, 10, tzinfo=datetime.UTC).timestamp()
    monkeypatch.setattr(PostgresQueueSpout, "today", lambda: ten + 600)
    one = queue(target, order="at")
    one.batch()
    one.batch()
    assert (one.lag, one.age) == (2, 600)
    one.clock.advance(5)
    one.batch()
    assert (one.lag, one.age) == (0, 0)


def test_a_queue_without_columns_for_claims_is_told_what_it_needs(target):
    target.run("CREATE TABLE t (id serial PRIMARY KEY, word text)")
    with pytest.raises(StoreRefused, match="A queue needs two columns for claims"):
        queue(target)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"table": "t", "column": "idd"},
            'column "idd" does not exist. Correct the name in column or fields, or add the column'
            " to the table.",
        ),
        (
            {"query": "SELECT id FROM t", "column": "id"},
            'column "word" does not exist. Correct the name in column or fields, or have the query'
            " return that column.",
        ),
        (
            {"query": "SELECT id, wrod AS word FROM t", "column": "id"},
            'column "wrod" does not exist. Correct the name in column or fields, or have the query'
            " return that column.",
        ),
        (
            {"query": "SELECT id, word FROM tt", "column": "id"},
            'relation "tt" does not exist. Make the table first, or correct its name in query.',
        ),
        (
            {"query": "SELEKT id, word FROM t", "column": "id"},
            'syntax error at or near ",". Correct query: one SELECT, whose columns have names.',
        ),
    ],
    ids=["column", "field", "in-query", "table", "syntax"],
)
def test_a_mistake_about_a_growing_table_is_told_as_what_it_is(target, names, said):
    target.run("CREATE TABLE t (id serial PRIMARY KEY, word text)")
    with pytest.raises(StoreRefused) as refused:
        growing(target, **{"table": None, "fields": ["word"], **names})
    assert str(refused.value).partition(": ")[2].endswith(said)


def test_a_queue_whose_server_is_away_goes_on_when_it_is_back(target):
    target.run(QUEUE)
    put(target, 0, 2)
    one = queue(target)
    one.batch()
    one.batch()
    target.server.kill()
    try:
        one.spout.ack(next(iter(one.pending)))
        with pytest.raises(ServiceUnavailable):
            one.spout.committed(one.number)
    finally:
        target.server.start()
    one.restore()
    one.until_exhausted()
    assert one.acked == {("w0",): 1, ("w1",): 1}
    assert target.run("SELECT * FROM t") == []


# ---- whole topologies ----------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", several(2))
def test_each_row_of_a_queue_is_copied_once_whatever_is_lost(target, seed, tasks):
    target.run(QUEUE, "CREATE TABLE copied (id integer)")
    put(target, 0, sql_topologies.ROWS)
    source = {"dsn": target.dsn, "table": "t", "fields": ["id"], "fetchSize": 30}
    sink = PostgresSink, {"dsn": target.dsn}
    sql_topologies.copy(target, seed, PostgresQueueSpout, source, sink, tasks)
    assert target.run("SELECT * FROM t") == []


@pytest.mark.parametrize("seed", several(2))
def test_each_row_of_a_growing_table_is_copied_once_whatever_is_lost(target, seed):
    target.run("CREATE TABLE t (id serial, word text)", "CREATE TABLE copied (id integer)")
    put(target, 0, sql_topologies.ROWS)
    source = {"dsn": target.dsn, "table": "t", "column": "id", "fields": ["id"], "fetchSize": 30}
    sink = PostgresSink, {"dsn": target.dsn, "mode": "copy"}
    sql_topologies.copy(target, seed, PostgresQuerySpout, {**source, "delaySeconds": 0}, sink)
