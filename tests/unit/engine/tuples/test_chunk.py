"""Chunks: rows kept as columns, and neighbours that become one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.tuples.chunk import Chunk, Columns, Lineage, merge
from fulmen.engine.tuples.emitted_rows import EmittedRows


@st.composite
def kept(draw, n=None):
    """Columns, and the rows that they stand for."""
    width = draw(st.integers(1, 3))
    n = draw(st.integers(1, 5)) if n is None else n
    columns = [draw(st.lists(st.integers(), min_size=n, max_size=n)) for _ in range(width)]
    container = draw(st.sampled_from(("l", "t")) | st.lists(st.booleans(), min_size=n, max_size=n))
    kinds = {"l": [True] * n, "t": [False] * n}.get(str(container), container)
    rows = [
        list(row) if is_list else row
        for row, is_list in zip(zip(*columns, strict=True), kinds, strict=True)
    ]
    return Columns(columns, container), rows


def typed(rows):
    return [(type(row), *row) for row in rows]


@given(kept(), st.data())
def test_columns_are_a_sequence_of_rows(pair, data):
    columns, rows = pair
    n = len(rows)
    assert len(columns) == n
    assert typed(columns) == typed(rows)
    i = data.draw(st.integers(-n, n - 1))
    assert typed([columns[i]]) == typed([rows[i]])
    some = slice(data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))
    assert typed(columns[some]) == typed(rows[some])
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    assert typed(columns.take(index)) == typed([rows[i] for i in index])
    assert rows[0] in columns


@given(st.lists(kept(), min_size=1, max_size=3))
def test_columns_in_a_row(pairs):
    parts = [columns for columns, _ in pairs]
    width = len(parts[0].columns)
    parts = [p for p in parts if len(p.columns) == width]
    rows = [row for columns, some in pairs if columns in parts for row in some]
    together = Columns.concat(parts)
    if together is not None:
        assert typed(together) == typed(rows)
    kinds = {str(p.container) for p in parts}
    assert (together is not None) == (kinds in ({"l"}, {"t"}))


def chunk(rows=None, *, batch=None, tasks=1, component="a", stream="default", roots=None):
    lineage = None if roots is None else Lineage(*(np.array(roots, np.uint64),) * 2)
    return Chunk(component, stream, ("x",), tasks, lineage, rows, batch)


def told(chunks):
    """For each chunk: where it is from, and for each tuple its values, task and roots."""
    return [
        (
            c.component,
            c.stream,
            [(tuple(row), c.source_task(i), c.lineage(i)[0]) for i, row in enumerate(c.rows)],
        )
        for c in chunks
    ]


def test_neighbours_on_one_stream_become_one_chunk():
    chunks = [
        chunk([[1], [2]], tasks=7, roots=[10, 20]),
        chunk([(3,)], tasks=np.array([8], np.int32)),
        chunk([[4]], stream="other"),
        chunk([[5]], component="b"),
        chunk([[6]], component="b", roots=[60]),
    ]
    assert told(merge(chunks)) == [
        ("a", "default", [((1,), 7, (10,)), ((2,), 7, (20,)), ((3,), 8, ())]),
        ("a", "other", [((4,), 1, ())]),
        ("b", "default", [((5,), 1, ()), ((6,), 1, (60,))]),
    ]
    assert merge([]) == []


@given(st.lists(st.tuples(kept(), st.booleans()), min_size=1, max_size=4))
def test_rows_of_any_kind_keep_their_order(parts):
    parts = [(columns, rows) for (columns, rows), _ in parts if len(columns.columns) == 1]
    chunks = [chunk(columns if i % 2 else rows) for i, (columns, rows) in enumerate(parts)]
    merged = merge(chunks)
    assert len(merged) <= 1
    assert [tuple(row) for c in merged for row in c.rows] == [
        tuple(row) for _, rows in parts for row in rows
    ]


def batch(values, kind=None):
    return pa.record_batch({"x": pa.array(values, kind)})


def test_batches_of_one_type_become_one():
    merged = merge(
        [chunk(batch=batch([1, 2])), chunk(batch=batch([3])), chunk(batch=batch([], pa.int64()))]
    )
    assert len(merged) == 1
    assert merged[0].is_arrow
    assert merged[0].batch.to_pydict() == {"x": [1, 2, 3]}


def test_batches_of_different_types_stay_as_they_are():
    chunks = [chunk(batch=batch([1], pa.int8())), chunk(batch=batch([2], pa.int64())), chunk([[3]])]
    merged = merge(chunks)
    assert [c.is_arrow for c in merged] == [True, True, False]
    assert [str(c.batch.schema.types[0]) for c in merged[:2]] == ["int8", "int64"]


@pytest.mark.parametrize("nested", [False, True])
def test_batches_with_different_dictionaries(nested):
    def encoded(*words):
        column = pa.array(words).dictionary_encode()
        if nested:
            column = pa.ListArray.from_arrays(range(len(words) + 1), column)
        return chunk(batch=pa.record_batch({"x": column}))

    merged = merge([encoded("a", "b"), encoded("c", "a")])
    values = [x for c in merged for x in c.batch["x"].to_pylist()]
    assert values == ([["a"], ["b"], ["c"], ["a"]] if nested else ["a", "b", "c", "a"])
    assert "dictionary" in str(merged[0].batch.schema.types[0])


def test_batches_with_more_values_than_their_index_counts_stay_apart():
    def encoded(first):
        column = pa.array([f"{n}" for n in range(first, first + 100)]).dictionary_encode()
        return chunk(batch=batch(column.cast(pa.dictionary(pa.int8(), pa.string()))))

    chunks = [encoded(0), encoded(100)]
    assert merge([*chunks, chunk([["a"]])])[:2] == chunks
    [together] = merge([encoded(0), encoded(20)])
    assert len(together) == 200


def test_rows_as_a_batch_and_back():
    assert chunk([[1], [None]]).batch.to_pydict() == {"x": [1, None]}
    assert chunk([]).batch.num_rows == 0
    assert list(chunk(batch=batch([1, 2])).rows) == [(1,), (2,)]
    with pytest.raises(pa.ArrowException):
        _ = chunk([["a"], [1]]).batch


def test_views_of_rows_and_of_batches():
    for view in (EmittedRows([["a"], ["b"], ["c"]]), EmittedRows(arrow=batch(["a", "b", "c"]))):
        assert len(view) == 3
        assert list(map(str, view.column(0))) == ["a", "b", "c"]
        assert tuple(view.row(1)) == ("b",)
        taken = view.take(np.array([2, 0, 2]))
        assert [tuple(row) for row in taken.rows] == [("c",), ("a",), ("c",)]
        assert (taken.arrow is None) == (view.arrow is None)
        assert len(view.take(np.array([], np.int64))) == 0
