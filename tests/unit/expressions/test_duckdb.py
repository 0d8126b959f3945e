"""Expressions mean what they mean in DuckDB."""

import re
from collections import Counter
from datetime import UTC, datetime
from itertools import product
from unicodedata import category

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.expressions.library.functions import ALIASES, FUNCTIONS, NAMES, OWN, UNNEST
from fulmen.expressions.sql_types import SqlType
from fulmen.expressions.steps import Steps, StepsRunner
from support.expressions.worlds import (
    COLUMNS,
    DATES,
    DECIMALS,
    EDGE,
    FLOATS,
    MOMENTS,
    ROWS,
    TEMPLATES,
    TEXTS,
    DuckDb,
    expressions,
    same,
)

SEEN: Counter[str] = Counter()
# Of these, either side may ask for an operand that the other need not know, and that fails.
CONDITIONAL = ("and", "or ", "case", "coalesce", "if(", "between", " in (", "greatest", "least")


@pytest.fixture(scope="module")
def duck():
    return DuckDb()


def ours(text, rows):
    done = StepsRunner(Steps(tuple(COLUMNS), None, (("x", text),), DECLARED)).run(rows)
    values = dict(zip(range(len(rows)) if done.at is None else done.at, done.rows, strict=True))
    return [
        ValueError(done.failed[i]) if i in done.failed else values[i][0] for i in range(len(rows))
    ]


DECLARED = (("i", "int64"), ("j", "int64"), ("d", "float64"), ("e", "float64"), ("s", "string"),
            ("t", "string"), ("b", "bool"), ("n", "decimal"), ("p", "date32"),
            ("q", "timestamp"))  # fmt: skip


TYPES = st.sampled_from([*TEMPLATES])


@given(
    rows=ROWS,
    texts=st.lists(TYPES.flatmap(lambda of: expressions(of, 2)), min_size=6, max_size=6),
)
@example(rows=[(*[None] * 4, "x", *[None] * 5)], texts=["(s::bigint)"])  # few fail at random
@example(rows=[(*[None] * 9, MOMENTS[1])], texts=["(q::varchar)", "(q::time::varchar)"])
def test_random_expressions_over_random_rows(duck, rows, texts):
    for text in texts:
        theirs = duck.of(text, rows)
        for row, mine, yours in zip(rows, ours(text, rows), theirs, strict=True):
            is_lazy = any(word in text for word in CONDITIONAL)
            if isinstance(yours, Exception):
                SEEN["failed"] += 1
                assert isinstance(mine, ValueError) or is_lazy, (text, row, mine, yours)
                continue
            if yours is None and is_lazy and isinstance(mine, ValueError):
                continue
            SEEN["null" if yours is None else type(yours).__name__] += 1
            assert same(mine, yours), (text, row, mine, yours)


def test_the_random_expressions_have_all_that_matters():
    wanted = {"failed", "null", "int", "float", "str", "bool", "Decimal", "date", "datetime"}
    assert wanted - set(SEEN) == set()
    words = set(re.findall(r"[a-z_0-9]+", " ".join(TEMPLATES.values())))
    assert set(NAMES) - words - {*ALIASES, *OWN, *UNNEST} == set()


MADE = {
    "regexp_matches": ["'B', 'i'", "'^.b'", "'[\\x{20AC}-\\x{FFFF}]|b'"],
    "regexp_full_match": ["'(.)b'", "'a.b', 's'"],
    "regexp_extract": ["'(b)|(a)', 1", "'A', 0, 'i'", "'a'"],
    "regexp_extract_all": ["'(a)|X', 1", "'.'", "'$'", "'a*'"],
    "regexp_replace": [
        "'[aX]', '<\\0>', 'g'",
        "'a', ''",
        "'[^a]', 'ß', 'g'",
        "'$', '-', 'g'",
        "'a*', '-', 'g'",
    ],
    "date_part": ["'dow'"],
    "date_trunc": ["'week'", "'QUARTERS'"],
    "date_diff": ["'week'", "'year'", "'hour'"],
    "date_sub": ["'month'", "'day'", "'second'"],
    "strftime": ["'%Y-%m-%d %H:%M:%S %% %y %b %A'"],
    "strptime": ["'%H'"],
    "timezone": ["'UTC'"],
    "json_extract": ["'$'"],
    "json_extract_string": ["'$'"],
}


def cases():
    """Each function, with the arguments of which its call is made, for each of its types."""
    for one in FUNCTIONS:
        free = [of for i, of in enumerate(one.arguments) if i not in one.fixed]
        for made in MADE.get(one.name, [""]):
            for last in {0, *(len(of) - 1 for of in free)}:
                kinds = [of[min(last, len(of) - 1)].value for of in free]
                yield pytest.param(one, made, kinds, id=f"{one.name}({made}) of {', '.join(kinds)}")


@pytest.mark.parametrize(("one", "made", "kinds"), [*cases()])
def test_each_function_of_the_values_at_the_edges(one, made, kinds):
    names = "abc"[: len(kinds)]
    values = [
        [None, *(range(-4, 5) if i and kind == "BIGINT" else EDGES[kind])]
        for i, kind in enumerate(kinds)
    ]
    rows = [*product(*values)]
    rows = rows[:: max(1, len(rows) // 500)]
    columns = [pa.array([row[i] for row in rows], ARROW[kind]) for i, kind in enumerate(kinds)]
    args = pa.table(columns, names=[*names])  # noqa: F841 (DuckDB finds it by its name)
    given = [*names]
    if made:
        given.insert(min(one.fixed), made)
    call = f"{one.name}({', '.join(given)})"
    if one.name == "round" and len(kinds) > 1:  # there the digits are an INTEGER, or constant
        call = f"round(a, {'1' if kinds[0] == 'DECIMAL' else 'b::int'})"
    theirs = duckdb.sql(f"select try({call}) from args").fetchall()
    done = StepsRunner(Steps(tuple(names), None, (("x", call),))).run(rows)
    taken = range(len(rows)) if done.at is None else done.at
    mine = dict(zip(taken, (row[0] for row in done.rows), strict=True))
    for i, (row, (yours,)) in enumerate(zip(rows, theirs, strict=True)):
        if one.result in (SqlType.DATE, SqlType.TIMESTAMP) and isinstance(yours, str):
            yours = None  # a year that Python has not
        if one.name == "string_split" and row[1] is None:
            yours = None  # there it is the whole text, as of no other function
        if one.name.startswith("json") and row[0] == "nan":
            yours = None  # RFC 8259 knows no NaN
        assert same(mine.get(i), yours), (call, row, mine.get(i), yours, done.failed.get(i))
    assert any(value is not None for value in mine.values())


EDGES = {"BIGINT": EDGE, "DOUBLE": FLOATS, "VARCHAR": TEXTS, "DECIMAL": DECIMALS,
         "DATE": DATES, "TIMESTAMP": MOMENTS, "LIST": [[], [1, None], [2] * 9]}  # fmt: skip
ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(),
         "DECIMAL": pa.decimal128(12, 3), "DATE": pa.date32(),
         "TIMESTAMP": pa.timestamp("us"), "LIST": pa.list_(pa.int64())}  # fmt: skip


def test_each_letter_is_made_upper_and_lower_as_duckdb_makes_it():
    letters = [chr(i) for i in range(1, 0x11000) if not 0xD800 <= i < 0xE000]
    args = pa.table({"a": letters})  # noqa: F841
    theirs = duckdb.sql("select upper(a), lower(a) from args").fetchall()
    steps = Steps(("a",), None, (("u", "upper(a)"), ("l", "lower(a)")))
    mine = StepsRunner(steps).run([[letter] for letter in letters]).rows
    wrong = [
        letter
        for letter, ours, yours in zip(letters, mine, theirs, strict=True)
        if tuple(ours) != yours and category(letter) != "Cn"
    ]
    assert len(wrong) < len(letters) / 1000, wrong


DOCUMENTS = [
    '{"a": null, "a.b": 7}',
    '{"a": 1e2, "b": 1.50}',
    '{"c": 12345678901234567890123, "a": {"b": [1, 2.0, "x"]}}',
    '{"a": {"b": {"c": null}}}',
    '{"a": "x\\n\\u00e9\\ud83d\\ude00/"}',
    '{"a": [[1], {"b": 2}]}',
    '{"a": {"x e-7": [1e-7, 123456789012345680.0, "1e-7", 1e22, -0.0]}}',
    ' {"a": true} ',
    "[1, 2]",
    "1",
    "nope",
    "",
    None,
]
ARROWS = [
    *(
        "d ->> 'a'",
        "d -> 'a'",
        "d -> 'a' ->> 'b'",
        "d ->> '$.a[0]'",
        "d ->> '$.a[-1].b'",
        "d ->> 0",
    ),
    *(
        "d ->> -1",
        "d -> 0",
        "d ->> 'a.b'",
        "d ->> '$.\"a.b\"'",
        "d ->> '$'",
        "d -> ''",
        "d -> '$.c'",
    ),
    "coalesce(d ->> 'a', 'none')",
]


@pytest.mark.parametrize("text", ARROWS)
def test_parts_of_json_are_those_of_duckdb(text):
    rows = [(document,) for document in DOCUMENTS]
    done = StepsRunner(Steps(("d",), None, (("x", text),), (("d", "string"),))).run(rows)
    found = iter(done.rows)
    for i, document in enumerate(DOCUMENTS):
        mine = ValueError if i in done.failed else next(found)[0]
        try:
            of = duckdb.execute(f"select {text} from (select ?::varchar d)", [document])
            ((yours,),) = of.fetchall()
        except duckdb.InvalidInputException:
            yours = ValueError
        assert mine == yours, (text, document)


@pytest.mark.parametrize("path", ["'$.*'", "'$.a['", "'$a'", "'/a/b'"])
def test_a_path_of_json_that_is_none_is_told(path):
    done = StepsRunner(Steps(("d",), None, (("x", f"d ->> {path}"),))).run([("{}",)])
    assert "is no path of JSON. Write a name, or a path such as" in done.failed[0]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
@pytest.mark.parametrize(
    "at",
    ["2020-03-29 02:30", "2020-10-25 02:30", "2020-11-01 01:30", "2020-03-08 02:30", "2024-07-01"],
)
def test_times_of_zones_are_those_of_duckdb(zone, at):
    given = datetime.fromisoformat(at)
    for value, kind in ((given, "timestamp"), (given.replace(tzinfo=UTC), "timestamptz")):
        ((yours,),) = duckdb.execute(
            f"select timezone('{zone}', q) from (select ?::{kind} q)", [value]
        ).fetchall()
        for text in (f"timezone('{zone}', q)", f"q AT TIME ZONE '{zone}'"):
            (mine,) = ours_of(text, value)
            assert (mine, mine.tzinfo is None) == (yours, yours.tzinfo is None)


def ours_of(text, value):
    (row,) = (
        StepsRunner(Steps(("q",), None, (("x", text),), (("q", "timestamp"),))).run([(value,)]).rows
    )
    return row
