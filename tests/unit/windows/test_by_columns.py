"""Tuples that come as Arrow have the same results as those that come as rows."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.api.tuples import Held, Tuple
from fulmen.testing import BoltHarness
from fulmen.windows import Aggregate, Deduplicate

FIELDS = ("user", "place", "amount", "at")
SOURCE = Held("source", "default", FIELDS, 1)
EXAMPLES = settings.default.max_examples

FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, 0.1, 1e-9, float("nan"), float("inf")])
DAY = datetime(2024, 2, 29, 12, tzinfo=UTC)
VALUES = {
    pa.int64(): st.sampled_from([0, 1, -3, 7, 2**62, -(2**63), 2**63 - 1]),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.sampled_from([0, 5, 2**64 - 1]),
    pa.float64(): FLOATS,
    pa.float32(): st.sampled_from([0.5, -1.25, 3.0]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "b", "ä", "\U0001f600"]),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b"]),
    pa.binary(): st.sampled_from([b"", b"a", b"\xff"]),
    pa.decimal128(6, 2): st.sampled_from([Decimal("0.10"), Decimal("-7.25")]),
    pa.date32(): st.sampled_from([date(1, 1, 1), date(2024, 2, 29)]),
    pa.timestamp("us", "UTC"): st.sampled_from([DAY, DAY + timedelta(days=1)]),
    pa.list_(pa.int64()): st.sampled_from([[1], [2, 3]]),
    pa.null(): st.none(),
}
NUMBERS = [pa.int64(), pa.int8(), pa.float64(), pa.float32()]
KEYS = [pa.string(), pa.string(), pa.int8(), pa.bool_(), pa.float64(), pa.date32()]
KEYS += [pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.list_(pa.int64())]
WINDOWS = [
    *[{"type": "tumbling", "size": "20ms", "offset": "3ms"}] * 3,
    *[{"type": "sliding", "size": "30ms", "every": "7ms"}] * 3,
    {"type": "calendar", "unit": "day", "timezone": "Asia/Kolkata"},
    {"type": "session", "gap": "9ms"},
    {"type": "count", "size": 2},
]
ONE_BY_ONE = ["count", "count(amount)", "sum(amount)", "mean(amount)", "min(amount)"]
ONE_BY_ONE += ["max(amount)", "first(amount)", "last(amount)", "list(amount)", "distinct(amount)"]
ONE_BY_ONE += ["set(amount)", "top(amount, 2)", "quantile(amount, 0.5)"]
ONE_BY_ONE += ["distinct(amount, approximate)", "last(user)"]
TIMES = st.sampled_from([*range(60), *range(60), -40, 10**15, 253_402_300_799_999])


@st.composite
def schemas(draw):
    value = draw(st.sampled_from([*NUMBERS, *NUMBERS, *VALUES]))
    time = draw(st.sampled_from([pa.int64(), pa.int32(), pa.timestamp("ms"), pa.float64()]))
    user, place = draw(st.sampled_from(KEYS)), draw(st.sampled_from(KEYS[:4]))
    return pa.schema(list(zip(FIELDS, (user, place, value, time), strict=True)))


@st.composite
def batches(draw, schema):
    """Rows of one type each, with nulls."""
    n = draw(st.integers(1, 9))
    columns = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        values = TIMES if name == "at" else VALUES[kind]
        if kind in (pa.int32(), pa.timestamp("ms"), pa.float64()) and name == "at":
            values = st.integers(0, 60)
        values = st.one_of(*[values] * (40 if name == "at" else 9), st.none())
        columns.append(pa.array(draw(st.lists(values, min_size=n, max_size=n)), kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@st.composite
def lives(draw):
    """What comes, as (batch, whether as Arrow, watermark), and the types differ now and then."""
    schema, found, watermark = draw(schemas()), [], draw(st.sampled_from([-60, 0, 20]))
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 9)) == 0:
            schema = draw(schemas())
        watermark += draw(st.sampled_from([0, 0, 10, 25]))
        found.append((draw(batches(schema)), draw(st.integers(0, 3)) > 0, watermark))
    return found


def plain(value):
    """What equal results have in common: a set has no order, and 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return str(sorted(plain(k) + plain(v) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return str(sorted(map(plain, value)))
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} {[*map(plain, value)]}"
    return f"{type(value).__name__} {value!r}"


def rows_of(batch):
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def outcome(cls, conf, life, by_columns):
    """All that is to be seen of a bolt; and how many rows it has dealt with by columns."""
    bolt = BoltHarness(cls, fields=FIELDS, conf=conf)
    taken, failed = 0, []
    for batch, is_arrow, watermark in life:
        rows = rows_of(batch)
        left = None
        if by_columns and is_arrow:
            left = bolt.bolt.execute_batch(Tuple((), SOURCE, 0), batch)
        for i in range(len(rows)) if left is None else left:
            try:
                bolt.execute(list(rows[i]))
            except (TypeError, ArithmeticError) as error:
                failed.append(str(error))
        taken += 0 if left is None else len(rows) - len(left)
        bolt.advance(watermark=watermark, seconds=0.4)
        bolt.end_batch()
        bolt.restart()
    state = plain(bolt.state)
    bolt.advance(watermark=2 * 10**14)
    emitted = sorted(plain([one.stream, *map(unordered, one.values)]) for one in bolt.emitted)
    failed += sorted(reason for _, reason in bolt.failed)
    counted = {name: value for name, value in bolt.metrics.items() if name != "open_windows"}
    return (emitted, failed, state, counted, bolt.errors), taken


def unordered(value):
    """Values of a set come in any order; those of a list by their times."""
    return sorted(value, key=plain) if isinstance(value, list) else value


@given(life=lives(), draw=st.data())
@settings(max_examples=EXAMPLES)
def test_windows_of_what_comes_as_arrow_are_those_of_rows(life, draw):
    window = draw.draw(st.sampled_from(WINDOWS))
    some = draw.draw(st.lists(st.sampled_from(ONE_BY_ONE), min_size=1, max_size=4, unique=True))
    conf = {
        "time": "at",
        "unit": "ms",
        "key": draw.draw(st.sampled_from([[], ["user"], ["user", "place"]])),
        "window": window,
        "aggregates": {f"a{i}": text for i, text in enumerate(some)},
    }
    if window["type"] != "count":
        conf |= draw.draw(st.sampled_from([{}, {}, {"allowedLateness": "20ms"}, {"emitEvery": "1s"}]))
    by_rows, _ = outcome(Aggregate, conf, life, by_columns=False)
    by_columns, _ = outcome(Aggregate, conf, life, by_columns=True)
    assert by_columns == by_rows


@given(life=lives(), draw=st.data())
@settings(max_examples=EXAMPLES)
def test_of_duplicates_that_come_as_arrow_those_are_left_that_are_left_of_rows(life, draw):
    conf = {"id": ["user"], "fields": ["user", "amount"], "horizon": "15ms"}
    conf |= draw.draw(
        st.sampled_from(
            [
                {},
                {"time": "at", "unit": "ms"},
                {"time": "at", "unit": "ms", "allowedLateness": "20ms"},
                {"time": "at", "unit": "ms", "keep": "last"},
                {"id": ["user", "place"], "time": "at", "unit": "ms"},
            ]
        )
    )
    by_rows, _ = outcome(Deduplicate, conf, life, by_columns=False)
    by_columns, _ = outcome(Deduplicate, conf, life, by_columns=True)
    assert by_columns == by_rows
