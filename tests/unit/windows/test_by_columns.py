"""Tuples that are dealt with by columns have the same results as those that are one by one."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import ArrowSpout, TopologyBuilder
from fulmen.api.tuples import Held, Tuple
from fulmen.testing import BoltHarness, CollectBolt, run
from fulmen.windows import Aggregate, Deduplicate
from fulmen.windows.aggregate.kinds import column_windows
from support.windows.aggregates import TUMBLING
from support.windows.aggregates import plain as plain_time
from support.windows.outcomes import outcome as outcome_of

FIELDS = ("user", "place", "amount", "at")
SOURCE = Held("source", "default", FIELDS, 1)
EXAMPLES = settings.default.max_examples // 2

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
    pa.decimal128(38, 2): st.sampled_from([Decimal("0.01"), Decimal("9" * 36 + ".99")]),
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
    {"type": "cumulative", "size": "30ms", "every": "6ms"},
    {"type": "calendar", "unit": "day", "timezone": "Asia/Kolkata"},
    {"type": "session", "gap": "9ms"},
    {"type": "count", "size": 2},
]
ONE_BY_ONE = ["count", "count(amount)", "sum(amount)", "mean(amount)", "min(amount)"]
ONE_BY_ONE += ["max(amount)", "first(amount)", "last(amount)", "list(amount)", "distinct(amount)"]
ONE_BY_ONE += ["set(amount)", "top(amount, 2)", "quantile(amount, 0.5)"]
ONE_BY_ONE += [
    "distinct(amount, approximate)",
    "last(user)",
    "max_by(user, amount)",
    "max_by(user, amount, 2)",
    "min_by(amount, place)",
]
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


def rows_of(batch):
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def outcome(cls, conf, life, by_columns=False, restarts=True):
    """Every batch is a chunk, which is given as Arrow if it came as such."""
    found = [([Rows(batch, is_arrow)], watermark) for batch, is_arrow, watermark in life]

    def take(bolt, rows):
        if by_columns and rows.is_arrow:
            return bolt.execute_batch(Tuple((), SOURCE, 0), rows.batch)
        return None

    return outcome_of(cls, FIELDS, conf, found, take, restarts)


class Rows(list):
    """The rows of a batch."""

    def __init__(self, batch, is_arrow):
        super().__init__(rows_of(batch))
        self.batch, self.is_arrow = batch, is_arrow


@given(life=lives(), draw=st.data())
@settings(max_examples=EXAMPLES)
def test_windows_of_columns_are_those_of_rows(life, draw):
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
        more = [{}, {}, {"allowedLateness": "20ms"}, {"emitEvery": "1s"}]
        more += [
            {"allowedLateness": "20ms", "emit": "final"},
            {"emitEvery": "300ms", "retract": True},
        ]
        conf |= draw.draw(st.sampled_from(more))
    by_rows, _ = outcome(Aggregate, conf, life)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_windows, "MANY_ROWS", draw.draw(st.sampled_from([1, 64])))
        by_columns, _ = outcome(Aggregate, conf, life, True, draw.draw(st.booleans()))
    assert by_columns == by_rows


def numbers_of(users, kind, amounts, times):
    """A batch of a window that may be kept by columns."""
    columns = pa.array(users), pa.array(["p"] * len(users)), pa.array(amounts, kind), times
    return pa.RecordBatch.from_arrays([*columns[:3], pa.array(times)], list(FIELDS))


INT, FLOAT = pa.int64(), pa.float64()
MIXED = {
    "columns-alone": [],
    "rows": [(numbers_of(["a", "c"], INT, [5, None], [3, 4]), False)],
    "rows-of-other-windows": [(numbers_of(["a", "c"], INT, [5, None], [3, 22]), False)],
    "another-type": [(numbers_of(["a", "c"], FLOAT, [0.5, None], [3, 4]), True)],
    "other-keys": [(numbers_of([1, 2], INT, [7, 8], [3, 4]), True)],
    "far-times": [(numbers_of(["a"] * 70, INT, [1] * 70, [*range(3, 703, 10)]), True)],
    "too-large": [(numbers_of(["a", "a"], INT, [2**62, 2**62 - 1], [3, 4]), True)],
}


@pytest.mark.parametrize("more", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("kind", [INT, FLOAT], ids=str)
@pytest.mark.parametrize("size", ["20ms", "7ms"])
def test_a_window_that_was_columns_goes_on_with_whatever_comes(monkeypatch, more, kind, size):
    monkeypatch.setattr(column_windows, "MANY_ROWS", 1)
    conf = {"time": "at", "unit": "ms", "key": ["user"], "allowedLateness": "0s"}
    conf["aggregates"] = {name: f"{name}(amount)" for name in ("count", "sum", "min", "max")}
    conf["window"] = {"type": "sliding", "size": size, "every": "7ms"}
    first = numbers_of(["a", "b", "a", "d"], kind, [2**53, -4, 3, None], [1, 2, 3, 9])
    again = numbers_of(["b", "e", "a"], kind, [6, 0, 9], [5, 6, 11])
    life = [(first, True, -9), (again, True, -9)]
    life += [(batch, is_arrow, -9) for batch, is_arrow in more] + [(again, True, 30)]
    by_rows, _ = outcome(Aggregate, conf, life)
    by_columns, _ = outcome(Aggregate, conf, life, True, restarts=False)
    assert by_columns == by_rows


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("top(amount, 2)", [[0, 10], [1, 10]]),
        ("distinct(amount)", 5),
        ("distinct(amount, approximate)", 5),
        ("quantile(amount, 0.5)", 2.0),
        ("quantile(at, 0)", 0.0),
        ("quantile(at, 1)", 49.0),
    ],
)
def test_values_of_a_column_are_not_added_one_by_one(monkeypatch, text, found):
    """Results would be the same, and take several times as long."""
    monkeypatch.setattr("fulmen.windows.aggregate.adding.adder.Adder.add", None)
    columns = ["a"] * 50, ["p"] * 50, [n % 5 for n in range(50)], [*range(50)]
    batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), list(FIELDS))
    conf = {"time": "at", "unit": "ms", "key": ["user"], "aggregates": {"found": text}}
    conf["window"] = {"type": "tumbling", "size": "1h"}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf=conf)
    assert bolt.bolt.execute_batch(Tuple((), SOURCE, 0), batch) == []
    bolt.end_batch()
    bolt.advance(watermark=10**8)
    assert [one.values[3] for one in bolt.emitted] == [found]


@pytest.mark.parametrize("text", ["top(amount, 2)", "distinct(amount)", "set(amount)"])
def test_each_nan_of_a_column_is_a_value_of_its_own_as_it_is_of_rows(text):
    columns = ["a"] * 4, ["p"] * 4, [float("nan"), 1.5, float("nan"), 1.5], [0, 1, 2, 3]
    life = [(pa.RecordBatch.from_arrays(list(map(pa.array, columns)), list(FIELDS)), True, 0)]
    conf = {"time": "at", "unit": "ms", "key": ["user"], "aggregates": {"found": text}}
    conf["window"] = {"type": "tumbling", "size": "1h"}
    by_rows, _ = outcome(Aggregate, conf, life)
    assert outcome(Aggregate, conf, life, True) == (by_rows, 4)


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
    by_rows, _ = outcome(Deduplicate, conf, life)
    by_columns, _ = outcome(Deduplicate, conf, life, True)
    assert by_columns == by_rows


class Clicks(ArrowSpout):
    """Emits each of some lists of rows once, as a record batch."""

    outputs = ("user", "place", "amount", "at")
    types = pa.string(), pa.binary(), pa.float64(), pa.timestamp("us")

    def __init__(self, lists=()):
        self._lists = lists
        self.next = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.next < len(self._lists):
            rows = self._lists[self.next]
            columns = list(zip(*rows, strict=True))
            arrays = list(map(pa.array, columns, self.types))
            arrays[1] = arrays[1].view(pa.string())
            batch = pa.RecordBatch.from_arrays(arrays, list(self.outputs))
            self.collector.emit(batch, msg_ids=range(len(rows)))
            self.next += 1

    def is_exhausted(self):
        return self.next == len(self._lists)


def of(user, amount, at, place=b"p"):
    return user, place, amount, at * 1000


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("more", [{}, {"total": "sum(amount)", "last": "last(amount)"}])
def test_rows_of_arrow_are_acked_in_windows_and_those_without_values_fail_alone(workers, more):
    lists = [
        [of("a", 0.1, 1), of("b", None, 9), of("a", 0.2, 2)],
        [of("a", 0.5, 3, place=b"no UTF-8: \xff"), of("a", 0.3, 3), of("a", 1.0, 10)],
    ]
    builder = TopologyBuilder()
    spout = builder.set_spout("source", Clicks(lists))
    spout.set_event_time("at", lag="1s")
    windows = builder.set_bolt("windows", Aggregate, 2).fields_grouping("source", ["user"])
    aggregates = {"n": "count", **more}
    windows.set_config({"key": ["user"], "window": TUMBLING, "aggregates": aggregates})
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windows")
    result = run(builder, workers=workers)
    found = {(row[0], plain_time(row[1])): row[3:] for row in result.collected("sink")}
    assert {place: row[0] for place, row in found.items()} == {
        ("a", 0): 3,
        ("b", 0): 1,
        ("a", 10): 1,
    }
    if more:
        assert found["a", 0][1:] == [0.1 + 0.2 + 0.3, 0.3]
        assert found["b", 0][1:] == [None, None]
    assert result.trees["failed"] == 1
    [error] = result.errors
    assert "field 'place': Python has no value for this one" in str(error)


def test_only_rows_that_matter_become_values_of_python(monkeypatch):
    """A bolt that looked at each row would have the same results, a tenth as fast."""
    rows = [of("a", n, n % 10) for n in range(50)]
    seen = []
    monkeypatch.setattr(Aggregate, "execute", lambda *_: seen.append(1))
    builder = TopologyBuilder()
    builder.set_spout("source", Clicks([rows])).set_event_time("at", lag="1s")
    windows = builder.set_bolt("windows", Aggregate).fields_grouping("source", ["user"])
    aggregates = {"n": "count", "least": "min(amount)"}
    windows.set_config({"key": ["user"], "window": TUMBLING, "aggregates": aggregates})
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windows")
    result = run(builder)
    assert [row[-2:] for row in result.collected("sink")] == [[50, 0.0]]
    assert seen == []
