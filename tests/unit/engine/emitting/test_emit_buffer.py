"""What a collector keeps of emits until they are sent: the same values in the same containers."""

from collections import deque, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.tuples.sizes import rows_bytes

Point = namedtuple("Point", "x y")


class Rows(list):
    """A list that is not exactly one."""


def buffer_of(emits, width):
    buffer = Buffer(SimpleNamespace(direct=False, fields=tuple("abcdefgh"[:width])))
    for i, values in enumerate(emits):
        buffer.append(values, f"id {i}")
    return buffer


def typed(rows):
    return [(type(row), list(row)) for row in rows]


@st.composite
def emits(draw):
    """Emits of one width: all lists, all tuples, or of any kinds of sequence in any order."""
    width = draw(st.integers(0, 5))
    kinds = draw(st.sampled_from(((list,), (tuple,), (list, tuple), (list, tuple, Rows, deque))))
    values = st.lists(st.integers() | st.none(), min_size=width, max_size=width)
    pairs = draw(st.lists(st.tuples(st.sampled_from(kinds), values), max_size=7))
    return width, [kind(values) for kind, values in pairs]


@given(emits())
def test_emits_come_back_in_the_containers_that_they_had(some):
    width, rows = some
    buffer = buffer_of(rows, width)
    assert typed(buffer.tuple_rows()) == typed(rows)
    assert buffer.origins == [f"id {i}" for i in range(len(rows))]
    assert len(buffer) == len(buffer.tuple_rows()) == len(rows)
    for i in range(len(rows)):
        assert list(buffer.tuple_rows()[i]) == list(rows[i])
    for k in range(width if rows else 0):
        assert list(buffer.tuple_rows().column(k)) == [row[k] for row in rows]


@given(emits(), st.data())
def test_the_others_stay_when_an_emit_is_taken_out_or_some_are_picked(some, data):
    width, rows = some
    if not rows:
        return
    index = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    picked = buffer_of(rows, width).tuple_rows().take(np.array(index, np.int64))
    assert typed(picked) == typed([rows[i] for i in index])
    buffer = buffer_of(rows, width)
    buffer.chosen = {i: [(0, [i])] for i in range(len(rows))}
    i = data.draw(st.integers(0, len(rows) - 1))
    left = [k for k in range(len(rows)) if k != i]
    buffer.remove(i)
    assert typed(buffer.tuple_rows()) == typed([rows[k] for k in left])
    assert buffer.origins == [f"id {k}" for k in left]
    assert buffer.chosen == {new: [(0, [old])] for new, old in enumerate(left)}
    buffer.append([0] * width, "later")
    assert typed(buffer.tuple_rows()) == typed([*(rows[k] for k in left), [0] * width])


def test_what_is_no_list_is_found_among_lists_and_tuples():
    assert buffer_of([[1], "a", (2,), {3}, b"b", Rows([4])], 1).wrong() == [1, 3, 4]
    assert buffer_of([[1], [2]], 1).wrong() == buffer_of([(1,)], 1).wrong() == []


def test_values_changed_after_the_emit_are_sent_as_they_were_emitted():
    values = [1]
    buffer = buffer_of([values], 1)
    values[0] = 2
    assert list(buffer.tuple_rows()) == [[1]]


def test_a_named_tuple_stays_one_on_its_worker():
    assert buffer_of([(0, 0), Point(1, 2)], 2).tuple_rows()[1].y == 2


@given(st.lists(st.sampled_from([0, 1, 1, 1, 2, 3]), max_size=9), st.integers(1, 2))
def test_each_emit_is_placed_at_the_tuple_that_it_was_made_for(counts, width):
    buffer = buffer_of([], width)
    buffer.is_placed, buffer.is_single, buffer.origins = True, width == 1, range(0)
    places = None
    for i, count in enumerate(counts):  # as the loop over a chunk
        if len(buffer) != (i if places is None else len(places)):
            places = buffer.place(i - 1)
        for _ in range(count):
            buffer.append([i] * width, "not used")
    if counts:
        buffer.place_last(len(counts) - 1)
    assert list(buffer.origins) == [i for i, count in enumerate(counts) for _ in range(count)]
    assert [row[0] for row in buffer.tuple_rows()] == list(buffer.origins)
    if counts and set(counts) == {1}:
        assert buffer.origins == range(len(counts))


def test_single_values_become_rows_when_one_is_no_list():
    buffer = buffer_of([], 1)
    buffer.is_single = True
    for i, values in enumerate([["a"], ["b"], ("c",), ["d"]]):
        buffer.append(values, i)
    assert list(buffer.tuple_rows()) == [["a"], ["b"], ("c",), ["d"]]
    assert [buffer.values(i) for i in range(4)] == [["a"], ["b"], ("c",), ["d"]]
    one = buffer_of([], 1)
    one.is_single = True
    one.append(["a"], 0)
    assert one.values(0) == ["a"]
    one.append(["b"], 1)
    one.remove(0)
    assert (list(one.tuple_rows()), one.origins) == ([["b"]], [1])


@pytest.mark.parametrize("kinds", [(list,), (tuple,), (list, tuple)])
@pytest.mark.parametrize("start", [0, 1, 99])
def test_the_bytes_of_emits_are_those_of_their_rows(kinds, start):
    rows = [kinds[i % len(kinds)]((i, "x" * 1000 * i)) for i in range(100)]
    assert buffer_of(rows, 2).about_bytes(start) == rows_bytes(rows, start)
    assert buffer_of(rows, 2).about_bytes(100) == 0
