"""Values as PostgreSQL reads them, compared with how psycopg reads them."""

import re
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import _py_transformer, pq
from psycopg._copy_base import _parse_row_text

from fulmen import JSON_NULL
from fulmen.connectors.formats import Malformed
from fulmen.connectors.postgres.texts import Column, lines, text_of, texts
from fulmen.services.sql.arrays import array

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
CELLS = st.one_of(
    st.none(), TEXT, st.sampled_from(["NULL", "\\N", "{}", '","', "\\", "\t\n\r", ""])
)


@given(st.lists(CELLS))
def test_an_array_is_read_as_what_it_was_made_of(values):
    oid = psycopg.adapters.types["text"].array_oid
    loader = _py_transformer.Transformer().get_loader(oid, pq.Format.TEXT)
    assert loader.load(array(values).encode()) == values


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
def test_lines_of_copy_are_read_as_what_they_were_made_of(rows):
    columns = list(zip(*rows, strict=True))
    data = lines(columns)
    assert data.endswith(b"\n")
    found = []
    for line in (line + b"\n" for line in data[:-1].split(b"\n")):
        transformer = _py_transformer.Transformer()
        transformer.set_loader_types(
            [psycopg.adapters.types["text"].oid] * len(columns), pq.Format.TEXT
        )
        found.append(_parse_row_text(line, transformer))
    assert found == rows


INTEGER = Column("n", "integer", "number", base="int4")


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, None, 0.5, "12"])
def test_a_value_has_the_same_text_alone_and_among_many(value):
    assert texts(INTEGER, [value] * 3, pytest.fail) == [text_of(INTEGER, value)] * 3


@pytest.mark.parametrize("value", [7.0, Decimal("7.00"), np.float64(7)])
def test_a_whole_number_of_any_type_is_an_integer(value):
    assert text_of(INTEGER, value) == "7"


AT = datetime(2026, 1, 31, 17)  # noqa: DTZ001 (has none)
FIVE = timezone(timedelta(hours=5))
BERLIN = ZoneInfo("Europe/Berlin")
TOKYO = ZoneInfo("Asia/Tokyo")
LOST = "has a time zone, which the column of type {} would lose"
ROUNDED = "would be rounded: the column is of type {}. Round it in a bolt, or write round: true"
OTHER = "is of type {}, and the column is of type"


def of_times(base, zone=None, places=6):
    return Column("t", base, "time", base, base=base, places=places, zone=zone)


SEVERAL = [
    INTEGER,
    Column("w", "text", "text", base="text"),
    *(of_times(base, zone) for base in ("timestamp", "timestamptz") for zone in (None, BERLIN)),
    of_times("timestamp", places=0),
]
VALUES = [
    *(None, 1, 2**31, True, "a", "12", "\0", "2026-01-31", AT, AT.replace(tzinfo=FIVE)),
    *(AT.replace(microsecond=5), AT.date(), np.array([None, 1]), np.float64(1.5), Decimal("1")),
]


@pytest.mark.parametrize("column", SEVERAL)
@given(values=st.sampled_from(VALUES).flatmap(lambda v: st.lists(st.sampled_from([v, *VALUES]))))
@example(values=[AT, None, AT.replace(tzinfo=FIVE)])
@example(values=[AT.replace(microsecond=5), None])
def test_a_column_has_the_text_of_each_of_its_values(column, values):
    refused, expected, reasons = {}, [], {}
    made = list(texts(column, values, refused.setdefault))
    for i, value in enumerate(values):
        try:
            expected.append(text_of(column, value))
        except Malformed as error:
            expected.append(None)
            reasons[i] = f"column {column.name!r}: {error}"
    assert made == expected
    assert refused == reasons


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (of_times("timestamptz"), AT, "2026-01-31 17:00:00+00:00"),
        (of_times("timestamptz", BERLIN), AT, "2026-01-31 17:00:00+01:00"),
        (of_times("timestamptz", BERLIN), AT.replace(tzinfo=FIVE), "2026-01-31 17:00:00+05:00"),
        (of_times("timestamptz"), AT.date(), "2026-01-31 00:00:00+00:00"),
        (of_times("timestamptz"), "2026-01-31T17:00", "2026-01-31 17:00:00+00:00"),
        (of_times("timestamptz"), "2026-01-31 17:00Z", "2026-01-31 17:00Z"),
        (of_times("timestamptz"), "12026-01-01 00:00:00", "12026-01-01 00:00:00 UTC"),
        (of_times("timestamptz"), "Jan 31 2026 5:00 PST", "Jan 31 2026 5:00 PST"),
        (of_times("timestamptz"), "infinity", "infinity"),
        (of_times("timestamp"), AT, "2026-01-31 17:00:00"),
        (of_times("timestamp", TOKYO), AT.replace(tzinfo=FIVE), "2026-01-31 21:00:00"),
        (of_times("timestamp"), "0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"),
        (of_times("timestamp", places=0), AT, "2026-01-31 17:00:00"),
        (of_times("timestamp", places=None), "2026-01-31 17:00:00.55", "2026-01-31 17:00:00.55"),
        (of_times("date"), AT.date(), "2026-01-31"),
        (of_times("timetz"), time(12), "12:00:00+00:00"),
        (of_times("time"), "24:00", "24:00"),
    ],
)
def test_a_time_keeps_its_moment_and_one_without_a_zone_is_of_utc(column, value, text):
    assert texts(column, [value] * 2, pytest.fail) == [text] * 2


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (of_times("timestamp"), AT.replace(tzinfo=FIVE), LOST.format("timestamp")),
        (of_times("timestamp"), "2026-01-31T17:00+05:00", LOST.format("timestamp")),
        (of_times("timestamp"), "Jan 31 2026 17:00:00 CET", LOST.format("timestamp")),
        (of_times("timestamp"), "12026-01-01 00:00:00+00", LOST.format("timestamp")),
        (of_times("time", BERLIN), time(12, tzinfo=FIVE), LOST.format("time")),
        (of_times("timestamp", places=0), AT.replace(microsecond=1), ROUNDED.format("timestamp")),
        (of_times("timestamp"), "2026-01-31 17:00:00.1234567", ROUNDED.format("timestamp")),
        (of_times("date"), AT, "has a time of day, which the column of type date would lose"),
        (of_times("date"), "Jan 31 2026 17:00", "has a time of day, which the column of type date"),
        (of_times("time"), AT, OTHER.format("datetime")),
        (of_times("timestamptz"), 5, OTHER.format("int")),
    ],
)
def test_a_time_that_would_lose_something_is_refused(column, value, said):
    with pytest.raises(Malformed) as refused:
        text_of(column, value)
    assert said in str(refused.value)


@pytest.mark.parametrize("value", [Decimal("1.230"), "1.23", 1.25, 7, "NaN", Decimal("1E+3"), "x"])
def test_a_number_that_its_column_keeps_is_written(value):
    assert text_of(Column("n", "numeric", "number", base="numeric", places=2), value) == str(value)


@pytest.mark.parametrize("value", [Decimal("1.234"), "1.234", 0.1 + 0.2])
def test_a_number_that_its_column_would_round_is_refused(value):
    column = Column("n", "numeric", "number", "numeric(6,2)", base="numeric", places=2)
    with pytest.raises(Malformed, match=re.escape(ROUNDED.format("numeric(6,2)"))):
        text_of(column, value)


DOCUMENT = Column("d", "jsonb", "json")
DOCUMENTS = Column("d", "jsonb[]", "array", element=DOCUMENT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("123", '"123"'),
        ("null", '"null"'),
        (JSON_NULL, "null"),
        ({"n": [Decimal("1E+400"), "a"]}, '{"n":[1E+400,"a"]}'),
        (None, None),
    ],
)
def test_json_is_written_as_what_it_is(value, text):
    assert texts(DOCUMENT, [value] * 2, pytest.fail) == [text] * 2
    escaped = text and '"' + text.replace('"', '\\"') + '"'
    assert text_of(DOCUMENTS, [value, [value]]) == (
        f'{{{escaped or "NULL"},"[{(text or "null").replace(chr(34), chr(92) + chr(34))}]"}}'
    )


@pytest.mark.parametrize(
    "value", [-(2**31) - 1, 2**31, True, b"", [], {}, object(), "a\0", "\ud800"]
)
def test_a_value_that_does_not_fit_is_refused_alone_and_among_many(value):
    with pytest.raises(Malformed):
        text_of(INTEGER, value)
    refused = []
    assert texts(INTEGER, [1, value], lambda i, reason: refused.append((i, reason))) == ["1", None]
    ((i, reason),) = refused
    assert i == 1
    assert reason.startswith("column 'n': ")
    assert list(texts(INTEGER, [value], lambda i, _: None)) == [None]
