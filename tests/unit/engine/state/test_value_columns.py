"""Keys and values as columns: what is read is what was written."""

import math
import pickle
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.state.entries import segment_blocks, segment_format
from fulmen.engine.state.entries.measures import KeyMeasures
from fulmen.engine.state.entries.value_columns import FEW, column_of, values_in
from fulmen.errors import CheckpointError

KINDS = {
    "constant": ("=", lambda k: 7),
    "small-numbers": ("i", lambda k: k - 20),
    "large-numbers": ("i", lambda k: -(2**63) + k),
    "floats": ("f", lambda k: [k / 3, -0.0, math.inf][k % 3]),
    "texts": ("s", lambda k: f"{k}ä\ud800\0"),
    "tuples": ("t", lambda k: (k, f"user-{k}", None, (k / 2, k))),
    "optional": ("?", lambda k: None if k % 3 else k),
}
LISTS = {
    "few": [1, 2],
    "mixed": [1, 1.0, True] * FEW,
    "booleans": [True, False] * FEW,
    "too-large": [2**63, *range(FEW)],
    "equal-texts": ["open", "shut"] * FEW,
    "tuples-of-two-lengths": [(1,), (1, 2)] * FEW,
    "empty-tuples-that-differ": [(), (1,)] * FEW,
    "lists": [[k] for k in range(2 * FEW)],
}
texts = st.text("ab\0ä€\ud800", max_size=5)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.one_of(plain, st.tuples(plain, plain), st.tuples(st.tuples(plain), plain))
columns = st.one_of(
    st.lists(values, max_size=9),
    *(
        st.lists(one, min_size=FEW + 1, max_size=FEW + 9)
        for one in (
            st.integers(-(2**64), 2**64),
            st.floats(),
            texts,
            st.none() | st.integers(0, 300),
            st.tuples(st.integers(), texts),
        )
    ),
)


def same(one, other):
    """Whether both are equal and of the same types, also of what is in them."""
    return pickle.dumps(list(map(repr, one))) == pickle.dumps(list(map(repr, other)))


@pytest.mark.parametrize(("tag", "make"), KINDS.values(), ids=KINDS)
def test_values_of_one_kind_are_a_column_of_that_kind(tag, make):
    given = [make(k) for k in range(3 * FEW)]
    column = column_of(given)
    assert type(column) is tuple
    assert column[0] == tag
    assert same(values_in(column, len(given)), given)


@pytest.mark.parametrize("given", LISTS.values(), ids=LISTS)
def test_other_values_stay_a_list(given):
    assert type(column_of(given)) is list
    assert same(values_in(column_of(given), len(given)), given)


def test_numbers_take_the_bytes_of_the_largest():
    for bits, width in ((7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8)):
        for most in (2**bits - 1, -(2**bits)):
            _, found, data = column_of([0, most] * FEW)
            assert (found, len(data)) == (width, 2 * FEW * width)
            assert values_in(("i", found, data), 2 * FEW) == [0, most] * FEW


@given(columns)
def test_what_is_read_is_what_was_written(given):
    assert same(values_in(column_of(given), len(given)), given)


@given(columns.filter(bool), st.data())
def test_a_column_that_was_changed_has_other_values_or_is_refused(given, data):
    column = column_of(given)
    if type(column) is tuple:
        at = data.draw(st.integers(0, len(column) - 1))
        other = data.draw(st.one_of(st.binary(max_size=5), st.integers(), st.just([]), st.none()))
        column = (*column[:at], other, *column[at + 1 :])
    with suppress(ValueError):
        assert len(values_in(column, len(given))) == len(given)


@pytest.mark.parametrize(
    "column",
    [
        ("i", 1, b"123"),
        ("i", 3, b"123123"),
        ("f", b"1"),
        ("s", 1, b"\1\1", b"abc"),
        ("s", 1, b"\1\1", b"\xff\xff"),
        ("s", 1, b"\3\xff", b"ab"),
        ("?", b"\1\1", [1]),
        ("t", []),
        ("t", [[1, 2], [1]]),
        ("x", 1),
        None,
    ],
    ids=repr,
)
def test_a_block_with_a_column_that_is_none_is_damaged(column):
    block = pickle.dumps(([(24.0, 2, column, [5, 6])], [], []))
    data = segment_blocks.segment_of([block])
    [place] = segment_blocks.blocks_in("here", data)
    assert place.crc == zlib.crc32(block)
    with pytest.raises(CheckpointError, match="here is damaged"):
        list(segment_blocks.decode("here", data))


def test_a_segment_of_columns_is_smaller_than_a_pickle():
    state = {(1_700_000_000_000, f"user-{k}"): k % 100 for k in range(2000)}
    [piece] = segment_format.encode(state, [(1, "gone")], {}, KeyMeasures())
    assert 2 * len(piece.data) < len(pickle.dumps(state, 5))
    [(groups, deleted)] = segment_blocks.decode("here", piece.data)
    assert {key: value for _, some in groups for key, value in some.items()} == state
    assert deleted == [(1, "gone")]
