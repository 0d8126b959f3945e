"""Columns of strings are one text: what is sent, hashed and divided, and what takes another way."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.emitting import outbox
from fulmen.engine.grouping.choosers import make_chooser
from fulmen.engine.keyed.hashing import column_hash
from fulmen.engine.keyed.hashing.value_hash import list_hash, value_hash
from fulmen.engine.tuples.string_column import StringColumn
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.engine.tuples.wire import Parcel, pack_tuples, unpack_tuples


class Text(str):
    __slots__ = ()


STRINGS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=6)
ANY_TEXT = st.text(st.characters(), max_size=4)
VALUES = st.one_of(ANY_TEXT, st.just("a\0b"), st.none(), st.integers(), ANY_TEXT.map(Text))


@given(st.lists(STRINGS, max_size=8), st.data())
def test_strings_come_back_from_the_column_and_from_any_part_of_it(strings, data):
    column = StringColumn.of(strings)
    assert column.to_pylist() == StringColumn(text=column.text).to_pylist() == strings
    assert len(column) == len(strings)
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(strings))] * 2)))
    assert column[a:b].to_pylist() == strings[a:b]
    assert column[a:b][1:].to_pylist() == strings[a:b][1:]
    index = data.draw(st.lists(st.sampled_from(range(len(strings))))) if strings else []
    picked = column[a:].take(pa.array(range(len(strings) - a), pa.int64()))
    assert picked.to_pylist() == strings[a:]
    assert column.take(pa.array(index, pa.int64())).to_pylist() == [strings[i] for i in index]
    assert StringColumn.concat([column, column[a:b]]).to_pylist() == strings + strings[a:b]


@given(st.lists(STRINGS, max_size=8), st.integers(0, 8))
def test_the_hash_of_a_string_in_a_column_is_that_of_the_string_alone(strings, start):
    column = StringColumn.of(strings)[start:]
    assert column_hash.column_hash(column).tolist() == [
        value_hash(text) for text in strings[start:]
    ]
    assert column_hash.column_hash(column).dtype == np.int32


@pytest.mark.parametrize("character", ["a", "ä", "\u20ac", "\U0001f600"])
@pytest.mark.parametrize("rows", [1, 3])
def test_hashes_of_a_column_do_not_depend_on_how_it_is_cut(monkeypatch, character, rows):
    strings = ["", character * 3, "x", character, "", "y" + character]
    monkeypatch.setattr(column_hash, "_ROWS", rows)
    assert column_hash.column_hash(StringColumn.of(strings)).tolist() == [
        value_hash(text) for text in strings
    ]
    monkeypatch.setattr(column_hash, "MAX_UNITS", 2)  # then it is done one by one
    assert column_hash.column_hash(StringColumn.of(strings)).tolist() == [
        value_hash(text) for text in strings
    ]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(["a", "b\0"], id="a NUL at the end"),
        pytest.param(["\0"], id="nothing but a NUL"),
        pytest.param(["a", None], id="None"),
        pytest.param(["a", b"a"], id="bytes"),
        pytest.param(["a", Text("b")], id="a subclass of str"),
        pytest.param(["\ud800"], id="a lone surrogate"),
        pytest.param(["\ud83d", "\ude00"], id="two surrogates that would join"),
    ],
)
def test_values_that_are_not_plain_text_have_no_string_column(values):
    assert StringColumn.of(values) is None


def same(one, other):
    return one == other and [list(map(type, a)) for a in one] == [list(map(type, a)) for a in other]


@given(st.data(), st.integers(1, 12), st.integers(1, 9))
def test_rows_of_many_columns_arrive_equal_and_hash_alike_at_any_number_of_workers(
    data, width, workers
):
    kinds = [data.draw(st.sampled_from((STRINGS, STRINGS, VALUES))) for _ in range(width)]
    rows = data.draw(st.lists(st.tuples(*kinds).map(list), min_size=1, max_size=10))
    encoded = TupleRows(rows).encoded()
    keys = np.array(
        data.draw(st.lists(st.integers(0, workers), min_size=len(rows), max_size=len(rows))),
        np.int32,
    )
    for _, at in outbox.groups(keys):
        index = np.arange(len(rows)) if at is None else at
        parts = TupleRows.concat([encoded.take(index), encoded.take(index[:1])])
        n = len(parts)
        parcel = Parcel(1, np.zeros(n, np.int32), np.zeros(n, np.int32), None, parts)
        (arrived,) = (unpack_tuples(row) for row in pack_tuples(parcel))
        assert same(list(arrived.rows), [rows[i] for i in [*index, index[0]]])


@given(st.lists(st.one_of(STRINGS, ANY_TEXT), min_size=1, max_size=80), st.integers(2, 9))
def test_fields_grouping_chooses_the_same_tasks_before_and_after_encoding(strings, targets):
    def chosen(view):
        chooser = make_chooser(
            "fields",
            targets=range(targets),
            fields=[1],
            rng=np.random.default_rng(1),
            source_task=0,
        )
        return chooser.choose(view).tasks.tolist()

    rows = [[1, text] for text in strings]
    encoded = TupleRows(rows)
    encoded.encoded()
    expected = [list_hash([text]) % 2**32 * targets >> 32 for text in strings]
    assert chosen(TupleRows(rows)) == chosen(encoded) == expected


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.sampled_from((1, 5, 100, 10**8)),
)
def test_groups_have_all_positions_of_each_key_in_order(keys, stretch):
    keys = [key * stretch for key in keys]
    found = outbox.groups(np.array(keys, np.int32))
    for key, at in found:
        positions = list(range(len(keys))) if at is None else at.tolist()
        assert positions == [i for i, other in enumerate(keys) if other == key]
    assert [key for key, _ in found] == sorted(set(keys))
