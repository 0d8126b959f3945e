"""Values arrive exactly as they were sent."""

import datetime
import decimal
from collections import namedtuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import Lineage
from fulmen.engine.tuples.columns import encoded, to_bytes
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.engine.tuples.wire import Parcel, pack_tuples, unpack_tuples


def same(one, other):
    """Equal, and of the same types all the way down; nan is itself, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return one == other


def parcel(rows=None, batch=None, lineage=None, subscription=3):
    n = len(rows) if rows is not None else batch.num_rows
    tasks = np.arange(n, dtype=np.int32)
    values = TupleRows.of_arrow(batch) if rows is None else rows
    values = values if isinstance(values, TupleRows) else TupleRows(values)
    return Parcel(subscription, tasks % 5, tasks % 2, lineage, values)


def sent(original):
    return [unpack_tuples(row) for row in pack_tuples(original)]


SURROGATES = st.characters(categories=("Cs", "L"))
PLAIN = {
    "str": st.text(max_size=5),
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=5),
}
ANYTHING = st.recursive(
    st.one_of(
        *PLAIN.values(),
        st.none(),
        st.integers(),
        st.text(SURROGATES, max_size=3),
        st.complex_numbers(allow_nan=False),
        st.decimals(allow_nan=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
    ),
    max_leaves=4,
)


@st.composite
def tables(draw):
    """Rows whose columns are of one type, of one type with None, or a mixture."""
    kinds = [*PLAIN.values(), *(st.none() | s for s in PLAIN.values()), ANYTHING, ANYTHING]
    columns = draw(st.lists(st.sampled_from(kinds), max_size=4))
    containers = draw(st.sampled_from(((list,), (tuple,), (list, tuple))))
    rows = draw(st.lists(st.tuples(*columns, st.sampled_from(containers)), min_size=1, max_size=8))
    return [row[-1](row[:-1]) for row in rows]


@given(tables())
def test_rows_arrive_as_they_were_sent(rows):
    (found,) = sent(parcel(rows))
    assert same(list(found.rows), rows)
    assert found.targets.tolist() == [i % 5 for i in range(len(rows))]
    assert found.sources.tolist() == [i % 2 for i in range(len(rows))]
    assert (found.subscription, found.lineage, found.rows.arrow) == (3, None, None)


@pytest.mark.parametrize(
    "strings",
    [[""], ["", ""], ["\0"], ["a\0b", ""], ["é", "€", "𝄞", ""], ["a", None], ["x"] * 5000],
)
def test_strings_of_any_kind_arrive_whole(strings):
    rows = [[string] for string in strings]
    (found,) = sent(parcel(rows))
    assert list(found.rows) == rows


class Text(str):
    """Picklable, and no str to Arrow."""


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (["a", "", "ä", "\U0001f600"], "t"),
        (["a", None], "s"),
        ([None, "a"], "s"),
        (["a\0"], "s"),
        (["a", 1], "p"),
        (["a", Text("a")], "p"),
        ([1, None, -(2**63)], "i"),
        ([0.5, float("nan")], "f"),
        ([True, None], "b"),
        ([b"", None], "y"),
        ([None, None], "p"),
        ([1, 2.5], "p"),
        ([1, True], "p"),
        (["a", b"a"], "p"),
        ([2**63], "p"),
        (["\ud800"], "p"),
        ([(1,), (2,)], "p"),
        ([[1], [2]], "p"),
        ([np.float64(1)], "p"),
        ([Text("a")], "p"),
        ([datetime.date(2024, 1, 1)], "p"),
    ],
)
def test_only_plain_columns_of_one_type_are_arrow(values, code):
    assert to_bytes([encoded(values)])[0] == code


Point = namedtuple("Point", "x y")


def test_other_sequences_arrive_as_tuples():
    (found,) = sent(parcel([Point(1, 2)]))
    assert same(list(found.rows), [(1, 2)])


def test_rows_without_values():
    (found,) = sent(parcel([[], [], []]))
    assert list(found.rows) == [[], [], []]
    (found,) = sent(parcel([(), []]))
    assert list(found.rows) == [(), []]


# ---- Arrow -----------------------------------------------------------------------------------

STAMP = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=datetime.UTC)
ARRAYS = {
    "int8": pa.array([1, None, 3], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "float32": pa.array([0.1, float("nan"), None], pa.float32()),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "ordered dictionary": pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.int8()), pa.array([b"x", b"y"]), ordered=True
    ),
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int16())),
    "struct": pa.array([{"a": 1, "b": None}, None, {"a": 2, "b": "x"}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
    "list of dictionaries": pa.ListArray.from_arrays(
        [0, 2, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()
    ),
    "timestamp": pa.array([STAMP, None, STAMP], pa.timestamp("us", tz="Europe/Paris")),
    "decimal": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-2.00")]),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 2), slice(1, 3)])
def test_batches_keep_their_types(name, rows):
    whole = pa.record_batch([ARRAYS[name]], schema=pa.schema([pa.field("x", ARRAYS[name].type)]))
    batch = whole.slice(rows.start, rows.stop - rows.start)
    (found,) = sent(parcel(batch=batch))
    assert found.rows.arrow.schema.equals(batch.schema, check_metadata=True)
    assert found.rows.arrow.to_pylist() == batch.to_pylist() or name == "float32"
    found.rows.arrow.validate(full=True)


# ---- lineage ---------------------------------------------------------------------------------


@st.composite
def lineages(draw, n):
    shape = draw(st.sampled_from(("none", "one", "many")))
    if shape == "none":
        return None
    ids = st.integers(0, 2**64 - 1)
    counts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)) if shape == "many" else None
    total = n if counts is None else sum(counts)
    roots, edges = (
        np.array(draw(st.lists(ids, min_size=total, max_size=total)), np.uint64) for _ in range(2)
    )
    offsets = None if counts is None else np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Lineage(roots, edges, offsets)


def listed(lineage, n):
    return [((), ())] * n if lineage is None else [lineage.of(i) for i in range(n)]


@given(st.data(), st.integers(1, 6))
def test_each_tuple_keeps_its_trees(data, n):
    lineage = data.draw(lineages(n))
    (found,) = sent(parcel([[i] for i in range(n)], lineage=lineage))
    assert listed(found.lineage, n) == listed(lineage, n)
    assert (found.lineage is None) == (lineage is None)


@given(st.data(), st.integers(1, 6))
def test_the_lineage_of_some_of_the_tuples(data, n):
    lineage = data.draw(lineages(n).filter(lambda found: found is not None))
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=8))
    taken = lineage.take(np.array(index, np.int64))
    assert listed(taken, len(index)) == [lineage.of(i) for i in index]


@given(st.data(), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_lineages_in_a_row(data, sizes):
    parts = [(data.draw(lineages(n)), n) for n in sizes]
    together = Lineage.concat(parts)
    expected = [one for lineage, n in parts for one in listed(lineage, n)]
    assert listed(together, sum(sizes)) == expected
    if all(lineage is None for lineage, _ in parts):
        assert together is None


# ---- sizes -----------------------------------------------------------------------------------


def joined(parcels):
    return [row for one in parcels for row in one.rows]


def test_rows_are_at_most_a_mebibyte():
    rows = [[i, "x" * 1000, [i]] for i in range(5000)]
    lineage = Lineage(*(np.arange(5000, dtype=np.uint64) for _ in range(2)))
    packed = list(pack_tuples(parcel(rows, lineage=lineage)))
    assert max(map(len, packed)) <= wire.ROW_BYTES
    assert len(packed) < 12
    found = [unpack_tuples(row) for row in packed]
    assert joined(found) == rows
    assert [int(r) for one in found for r in one.lineage.roots] == list(range(5000))
    assert [int(t) for one in found for t in one.targets] == [i % 5 for i in range(5000)]


def test_a_tuple_that_is_larger_has_a_row_of_its_own():
    rows = [["a"], ["x" * (2 * wire.ROW_BYTES)], ["b"]]
    packed = list(pack_tuples(parcel(rows)))
    assert sorted(len(row) > wire.ROW_BYTES for row in packed) == [False, False, True]
    assert joined(map(unpack_tuples, packed)) == rows


def test_a_row_has_no_more_than_so_many_tuples():
    rows = [[i] for i in range(10)]
    found = [unpack_tuples(row) for row in pack_tuples(parcel(rows), 4)]
    assert [len(one.targets) for one in found] == [4, 4, 2]
    assert joined(found) == rows


@pytest.mark.parametrize("used", [7, 20_000])
def test_a_large_dictionary_does_not_go_with_every_part(used):
    words = pa.array([f"{i:0100}" for i in range(20_000)])
    indices = pa.array([None if i % 10 == 3 else i % used for i in range(20_000)], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, words)
    batch = pa.record_batch({"word": column})
    packed = list(pack_tuples(parcel(batch=batch)))
    assert max(map(len, packed)) <= wire.ROW_BYTES
    assert sum(map(len, packed)) < 4 * 100 * used + 500_000
    found = [unpack_tuples(row).rows.arrow for row in packed]
    assert {one.schema.field("word").type for one in found} == {column.type}
    assert [w for one in found for w in one["word"].to_pylist()] == column.to_pylist()


def test_a_large_dictionary_within_lists_goes_once():
    words = pa.array([f"{i:0100}" for i in range(20_000)])
    inner = pa.DictionaryArray.from_arrays(pa.array(np.arange(20_000, dtype=np.int32)), words)
    batch = pa.record_batch({"words": pa.ListArray.from_arrays(np.arange(0, 20_001, 10), inner)})
    packed = list(pack_tuples(parcel(batch=batch)))
    assert sum(map(len, packed)) < 3_000_000
    assert [unpack_tuples(row).rows.arrow.equals(batch) for row in packed] == [True]


@given(st.data(), st.integers(1, 6), st.booleans())
def test_parts_and_selections_of_a_parcel(data, n, arrow):
    lineage = data.draw(lineages(n))
    rows = None if arrow else [[i, str(i)] for i in range(n)]
    batch = pa.record_batch({"i": list(range(n))}) if arrow else None
    whole = parcel(rows, batch, lineage)
    a = data.draw(st.integers(0, n))
    b = data.draw(st.integers(a, n))
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=5))
    for found, at in (
        (whole.take(slice(a, b)), list(range(a, b))),
        (whole.take(np.array(index, np.int64)), index),
    ):
        assert found.targets.tolist() == [i % 5 for i in at]
        assert found.sources.tolist() == [i % 2 for i in at]
        assert listed(found.lineage, len(at)) == [listed(lineage, n)[i] for i in at]
        if arrow:
            assert found.rows.arrow["i"].to_pylist() == at
        else:
            assert list(found.rows) == [rows[i] for i in at]


def test_other_rows():
    row = wire.pack(wire.ACKS, (1, [], "x"))
    assert row[:1] == wire.ACKS
    assert wire.unpack(row) == (1, [], "x")


@given(
    st.lists(st.lists(st.sampled_from(([1, "a"], (2, None), [2**70, 3], ["x", b"y"]))), max_size=4)
)
def test_encoded_rows_of_any_kind_can_be_picked_and_joined(parts):
    parts = [rows for rows in parts if rows]
    if not parts:
        return
    everything = [row for rows in parts for row in rows]
    index = np.arange(len(everything))[::-2]
    together = TupleRows.concat([TupleRows(rows).encoded() for rows in parts])
    assert len(together) == len(everything)
    picked, some = together.take(index), together[1:3]
    (arrived,) = sent(parcel(picked))
    assert all(map(same, together, everything))
    assert all(map(same, picked, [everything[i] for i in index]))
    assert all(map(same, some, everything[1:3]))
    assert all(map(same, arrived.rows, picked))
