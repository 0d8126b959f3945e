"""Entries of keyed state of one kind become segments by arrays, as they do one by one."""

import numpy as np
import pytest

from fulmen.engine.state.entries.measures import KeyMeasures, quick_size, stable_hash
from fulmen.engine.state.entries.segment_blocks import blocks_in, blocks_of, content
from fulmen.engine.state.entries.segment_format import encode
from fulmen.engine.state.entries.typed_columns import HashedColumn, typed_column

EDGES = [0, 1, -1, -2, 255, 256, 2**31, -(2**31), 2**61 - 2, 2**61 - 1, -(2**61), 2**63 - 1]
NUMBERS = [*EDGES, -(2**63), *range(1000, 1100)]
N = len(NUMBERS)
KINDS = [
    pytest.param(NUMBERS, id="numbers"),
    pytest.param([(n, n // 3) for n in NUMBERS], id="tuples-of-numbers"),
    pytest.param([(n, (7, ~n)) for n in NUMBERS], id="tuples-in-tuples"),
]
OTHERS = [
    pytest.param([f"text {i}" for i in range(N)], id="texts"),
    pytest.param([(f"t{i % 7}", i, i * 0.5) for i in range(N)], id="tuples-of-several-kinds"),
    pytest.param([2**70 + i for i in range(N)], id="large-numbers"),
    pytest.param([i if i % 9 else None for i in range(N)], id="numbers-and-none"),
    pytest.param([i if i else True for i in range(N)], id="numbers-and-a-bool"),
    pytest.param([(i,) * (1 + i % 2) for i in range(N)], id="tuples-of-two-lengths"),
    pytest.param([(i, [i]) for i in range(N)], id="tuples-with-lists"),
    pytest.param([7] * N, id="one-number"),
]


@pytest.mark.parametrize("keys", KINDS)
def test_hashes_and_sizes_are_those_of_single_keys(keys):
    typed = typed_column(keys)
    assert isinstance(typed, HashedColumn)
    assert typed.hashes().tolist() == [stable_hash(key) for key in keys]
    assert typed.sizes() == pytest.approx([quick_size(key) for key in keys], abs=2)


@pytest.mark.parametrize("values", [*KINDS, *OTHERS])
@pytest.mark.parametrize("copies", [1, 90], ids=["one-block", "blocks"])
def test_what_is_read_is_what_was_written_in_the_block_of_its_key(values, copies):
    keys = [(n, (7, ~n)) for n in NUMBERS]
    entries = {
        (c, key): value for c in range(copies) for key, value in zip(keys, values, strict=True)
    }
    gone = [("gone", i) for i in range(5)]
    read, deleted, counts = {}, [], set()
    for piece in encode(entries, gone, {}, KeyMeasures()):
        blocks = blocks_in("here", piece.data)
        counts.add(len(blocks))
        weighed = [key for _, some in piece.parts for key in some]
        there = []
        for number, block in enumerate(blocks):
            data = piece.data[block.start : block.start + block.length]
            groups, without = content("here", block, data)
            for _, some in groups:
                hashes = np.array([stable_hash(key) for key in some], np.int64)
                assert len(blocks) == 1 or set(blocks_of(hashes, len(blocks)).tolist()) == {number}
                read |= some
                there += some
            deleted += without
            there += without
        assert sorted(map(repr, weighed)) == sorted(map(repr, there))
    assert {repr(one) for one in read.items()} == {repr(one) for one in entries.items()}
    assert (sorted(deleted), max(counts) > 1) == (gone, copies > 1)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param("text", id="texts"),
        pytest.param((1,), id="tuples"),
        pytest.param(2**70, id="large-numbers"),
    ],
)
def test_values_that_are_of_another_kind_from_some_place_on_are_no_column(later):
    for some in ([7] * 600, [(7, 8)] * 600, [("a", 8)] * 600):
        assert typed_column(some) is not None
        assert typed_column([*some, *[later] * 600]) is None


def test_a_column_that_is_made_bit_by_bit_has_all_values_in_their_order():
    values = [(i, f"text {i}", (0.5 * i, -i)) for i in range(1300)]
    column = typed_column(values)
    assert column.values(np.arange(1300)) == values
    assert column.sizes() == pytest.approx([quick_size(value) for value in values], abs=4)
