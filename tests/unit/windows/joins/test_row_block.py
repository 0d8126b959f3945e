"""Rows that joins keep are pickled by columns."""

import pickle

import pytest

from fulmen.windows.joins.row_block import RowBlock, constant, lists, piece_of, tuples

N = 9  # fewer are pickled as they are


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="none"),
        pytest.param([[1, "a"]], id="few"),
        pytest.param([[i, ("k",), ["a", i, None], True] for i in range(N)], id="alike"),
        pytest.param([(i, [1.5, i]) for i in range(N)], id="tuples"),
        pytest.param([[i] * (1 + i % 2) for i in range(N)], id="of-two-widths"),
        pytest.param([[i] if i else (i,) for i in range(N)], id="of-two-types"),
        pytest.param([[[i] if i % 2 else i] for i in range(N)], id="of-lists-and-numbers"),
        pytest.param([[1 if i in (0, N - 1) else True] for i in range(N)], id="equal-not-the-same"),
        pytest.param([[] for _ in range(N)], id="without-fields"),
        pytest.param([[[[[[[i]]]]]] for i in range(N)], id="of-lists-in-lists"),
        pytest.param(["ab"] * N, id="no-rows"),
    ],
)
def test_what_is_read_is_a_list_of_what_was_written(rows):
    read = pickle.loads(pickle.dumps(RowBlock(rows), 5))
    assert (type(read), repr(read)) == (list, repr(rows))


def test_rows_that_are_read_are_lists_of_their_own():
    nothing = [None]
    read = pickle.loads(pickle.dumps(RowBlock([[i, nothing[:]] for i in range(N)]), 5))
    read[0][1].append("more")
    assert read[1] == [1, [None]]


def test_columns_take_less_than_rows():
    rows = [[i, (i % 5,), ["text", i], False, 1_700_000_000_000] for i in range(100)]
    assert len(pickle.dumps(RowBlock(rows), 5)) < 0.7 * len(pickle.dumps(rows, 5))


def test_what_is_written_by_columns_that_are_at_hand_is_read_as_the_rows():
    keys, values = [f"k{i}" for i in range(N)], list(range(N))
    columns = [range(7, 7 + N), tuples([keys]), lists([values, keys]), constant(None)]
    rows = [[7 + i, (keys[i],), [i, keys[i]], None] for i in range(N)]
    few = [[1, ("k",), [2, "k"], None]]
    block = RowBlock([*rows, *few], [(N, lists(columns)), piece_of(few)])
    assert list(block) == [*rows, *few]
    for _ in range(2):  # the second time columns are made of the rows
        assert pickle.loads(pickle.dumps(block, 5)) == [*rows, *few]
