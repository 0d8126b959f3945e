"""Columns of every Arrow type, with the extreme values of each, as Python values or as a reason."""

from decimal import Decimal

import pyarrow as pa
import pytest

from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.tuples.python_values import (
    have_python_values,
    python_rows,
    python_values,
    shown_rows,
)
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import GroupingError

UNITS = ("s", "ms", "us", "ns")
LONGS = [0, 1, -1, 2**63 - 1, -(2**63), 1767225600000000001, None]
INTS = [0, 1, -1, 2**31 - 1, -(2**31), None]


def viewed(values, storage, kind):
    """A column whose bits are these numbers, whether or not they make sense."""
    return pa.array(values, storage).view(kind)


def columns():
    """(name, column) of every type that Arrow has, and of lists of them."""
    yield "null", pa.nulls(3)
    yield "bool", pa.array([True, False, None])
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", pa.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, None], f"int{bits}")
        yield f"uint{bits}", pa.array([0, 2**bits - 1, None], f"uint{bits}")
    floats = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), None]
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        yield str(kind), pa.array(floats, kind)
    for kind in (pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 10)):
        digits = "9" * (kind.precision - kind.scale)
        most = Decimal(f"{digits}.{'9' * kind.scale}")
        yield str(kind), pa.array([most, most.copy_negate(), None], kind)
    for unit in UNITS:
        yield f"timestamp-{unit}", viewed(LONGS, pa.int64(), pa.timestamp(unit))
        yield f"timestamp-{unit}-utc", viewed(LONGS, pa.int64(), pa.timestamp(unit, "UTC"))
        yield f"duration-{unit}", viewed(LONGS, pa.int64(), pa.duration(unit))
    yield "timestamp-nowhere", viewed([0, None], pa.int64(), pa.timestamp("us", "Nowhere/City"))
    yield "date32", viewed(INTS, pa.int32(), pa.date32())
    yield "date64", viewed(LONGS, pa.int64(), pa.date64())
    for unit in UNITS[:2]:
        yield f"time32-{unit}", viewed(INTS, pa.int32(), pa.time32(unit))
    for unit in UNITS[2:]:
        yield f"time64-{unit}", viewed(LONGS, pa.int64(), pa.time64(unit))
    yield "interval", pa.array([(1, 2, 3), None], pa.month_day_nano_interval())
    bad = pa.array([b"good", b"\xff\xfe", b"", None])
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield str(kind), bad.cast(kind)
    for kind in (pa.string(), pa.large_string()):
        offsets = pa.binary() if kind == pa.string() else pa.large_binary()
        buffers = bad.cast(offsets).buffers()
        yield str(kind), pa.Array.from_buffers(kind, 4, buffers)
    yield "string_view", pa.array(["a", "\U0010ffff", None], pa.string_view())
    yield "fixed", pa.array([b"ab", None], pa.binary(2))
    yield "dictionary", pa.array(["a", "b", "a", None]).dictionary_encode()
    ns = viewed(LONGS, pa.int64(), pa.timestamp("ns"))
    yield "dictionary-ns", pa.DictionaryArray.from_arrays(pa.array([5, 0]), ns)
    yield "list-ns", pa.ListArray.from_arrays(pa.array([0, 1, 7]), ns)
    yield "struct-ns", pa.StructArray.from_arrays([ns], ["at"])
    yield "map-ns", pa.MapArray.from_arrays(pa.array([0, 1, 7]), pa.array(range(7)), ns)
    yield "run-ends", pa.RunEndEncodedArray.from_arrays([1, 3], ["a", "b"])


ALL = dict(columns())


def made(value):
    """What Python makes of one value of Arrow; an exception if nothing."""
    try:
        return value.as_py()
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.parametrize("name", ALL)
def test_each_value_is_what_arrow_makes_of_it_or_has_a_reason_of_its_own(name):
    column = ALL[name]
    values, wrong = python_values(column)
    expected = [made(value) for value in column]
    assert wrong.keys() == {i for i, one in enumerate(expected) if isinstance(one, Exception)}
    kept = [(a, b) for i, (a, b) in enumerate(zip(values, expected, strict=True)) if i not in wrong]
    assert all(repr(a) == repr(b) for a, b in kept)
    assert all(reason.startswith("Python has no value for this one") for reason in wrong.values())
    assert not (wrong and have_python_values(pa.record_batch([column], ["x"])))


@pytest.mark.parametrize("name", ALL)
def test_rows_are_shown_and_kept_whatever_is_in_them(name):
    column = ALL[name]
    batch = pa.record_batch([pa.array(range(len(column))), column], ["i", "x"])
    shown = shown_rows(batch)
    assert [i for i, _ in shown] == list(range(len(column)))
    rows = TupleRows.of_arrow(batch)
    assert rows.without_values() == python_rows(batch)[1]
    assert [row[0] for row in rows] == list(range(len(column)))
    assert [rows[i] for i in range(len(column))] == list(rows)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("times", [1, 40], ids=["few", "many"])
def test_a_value_without_a_hash_is_named_by_its_number(name, times):
    column = pa.concat_arrays([ALL[name]] * times) if name != "run-ends" else ALL[name]
    _, wrong = python_values(column)
    hashes, emission = hashed(column)
    if hashes is None:
        assert emission in wrong if wrong else emission is not None
    else:
        assert not wrong
        assert len(hashes) == len(column)


def hashed(column):
    """The hashes of a column, and which value has none."""
    try:
        return column_hash(column), None
    except GroupingError as error:
        return None, error.emission


def test_what_python_has_nothing_for_is_shown_as_text():
    ns = pa.array([1767225600000000001, None], pa.timestamp("ns"))
    text = ALL["string"]
    batch = pa.record_batch([ns], ["at"])
    assert TupleRows.of_arrow(batch)[0] == next(iter(TupleRows.of_arrow(batch)))
    assert shown_rows(batch)[0] == ("2026-01-01 00:00:00.000000001",)
    assert shown_rows(pa.record_batch([text], ["x"]))[:2] == [("good",), (b"\xff\xfe",)]
