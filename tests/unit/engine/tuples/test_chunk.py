"""The values of tuples in each of their forms, and chunks: neighbours that become one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fulmen.engine.tuples.chunk import Chunk, Lineage, merge
from fulmen.engine.tuples.columns import listed
from fulmen.engine.tuples.string_column import StringColumn
from fulmen.engine.tuples.tuple_rows import TupleRows


@st.composite
def rows_of_any_form(draw, width=None):
    """Values in some form, and the rows that they stand for."""
    width = draw(st.integers(0, 3)) if width is None else width
    n = draw(st.integers(1, 5))
    column = st.lists(st.integers(), min_size=n, max_size=n) | st.lists(
        st.sampled_from(["a", "", "ä", None]), min_size=n, max_size=n
    )
    columns = [draw(column) for _ in range(width)]
    kinds = draw(st.sampled_from(([True] * n, [False] * n, [i % 2 > 0 for i in range(n)])))
    by_field = zip(*columns, strict=True) if width else [()] * n
    rows = [list(r) if is_list else r for r, is_list in zip(by_field, kinds, strict=True)]
    form = draw(st.sampled_from(("rows", "columns", "encoded", "arrow")))
    if form == "arrow" and width and all(plain(column) for column in columns):
        names = [str(i) for i in range(width)]
        return TupleRows.of_arrow(TupleRows(rows).record_batch(names)), [tuple(r) for r in rows]
    values = TupleRows(rows)
    if form == "columns":
        values = TupleRows.of_columns(columns, values.container, n)
    return values.encoded() if form == "encoded" else values, rows


def plain(column):
    """Whether the values are of one type that Arrow has."""
    return all(isinstance(x, str | None) or abs(x) < 2**63 for x in column)


def typed(rows):
    return [(type(row), *row) for row in rows]


@given(rows_of_any_form(), st.data())
def test_values_are_a_sequence_of_rows_in_whichever_form_they_are(pair, data):
    values, rows = pair
    n = len(rows)
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    some = slice(data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))
    taken, part = values.take(np.array(index, np.int64)), values[some]
    i = data.draw(st.integers(-n, n - 1))
    if data.draw(st.booleans()):  # then each has been looked at as columns, too
        _ = values.columns, taken.columns, part.columns
    assert len(values) == n
    assert typed(values) == typed(rows)
    assert typed([values[i]]) == typed([rows[i]])
    assert typed(part) == typed(rows[some])
    assert typed(taken) == typed([rows[i] for i in index])
    assert (taken.arrow is None) == (part.arrow is None) == (values.arrow is None)
    assert rows[0] in values
    for k, column in enumerate(values.columns):
        assert listed(values.column(k)) == column == [row[k] for row in rows]


@given(st.integers(0, 2).flatmap(lambda width: st.lists(rows_of_any_form(width), min_size=1)))
def test_values_of_any_forms_in_a_row(pairs):
    rows = [row for _, some in pairs for row in some]
    if all(values.arrow is not None for values, _ in pairs):
        schema = pairs[0][0].arrow.schema
        assume(all(values.arrow.schema == schema for values, _ in pairs))
    together = TupleRows.concat([values for values, _ in pairs])
    assert len(together) == len(rows)
    assert typed(together.encoded()) == typed(together) == typed(rows)


def test_values_stay_as_they_are_sent_until_somebody_looks_at_them():
    sent = TupleRows([["a", 1, [2]], ["b", 3, None]]).encoded()
    both = TupleRows.concat([sent, sent.take(np.array([1]))])
    kinds = [type(column) for column in both.take(slice(1, 3)).kept_columns]
    assert kinds == [StringColumn, pa.Int64Array, list]
    assert sent.encoded() is sent
    assert list(both) == [["a", 1, [2]], ["b", 3, None], ["b", 3, None]]


def chunk(rows=None, *, batch=None, tasks=1, component="a", stream="default", roots=None):
    lineage = None if roots is None else Lineage(*(np.array(roots, np.uint64),) * 2)
    values = TupleRows(rows) if batch is None else TupleRows.of_arrow(batch)
    return Chunk(component, stream, ("x",), tasks, lineage, values)


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


def batch(values, kind=None):
    return pa.record_batch({"x": pa.array(values, kind)})


def test_batches_of_one_type_become_one():
    merged = merge(
        [chunk(batch=batch([1, 2])), chunk(batch=batch([3])), chunk(batch=batch([], pa.int64()))]
    )
    assert len(merged) == 1
    assert merged[0].rows.arrow.to_pydict() == {"x": [1, 2, 3]}


def test_batches_of_different_types_stay_as_they_are():
    chunks = [chunk(batch=batch([1], pa.int8())), chunk(batch=batch([2], pa.int64())), chunk([[3]])]
    merged = merge(chunks)
    assert [c.rows.arrow is not None for c in merged] == [True, True, False]
    assert [str(c.rows.arrow.schema.types[0]) for c in merged[:2]] == ["int8", "int64"]


@pytest.mark.parametrize("nested", [False, True])
def test_batches_with_different_dictionaries(nested):
    def encoded(*words):
        column = pa.array(words).dictionary_encode()
        if nested:
            column = pa.ListArray.from_arrays(range(len(words) + 1), column)
        return chunk(batch=pa.record_batch({"x": column}))

    merged = merge([encoded("a", "b"), encoded("c", "a")])
    values = [x for c in merged for x in c.rows.arrow["x"].to_pylist()]
    assert values == ([["a"], ["b"], ["c"], ["a"]] if nested else ["a", "b", "c", "a"])
    assert "dictionary" in str(merged[0].rows.arrow.schema.types[0])


def test_batches_with_more_values_than_their_index_counts_stay_apart():
    def encoded(first):
        column = pa.array([f"{n}" for n in range(first, first + 100)]).dictionary_encode()
        return chunk(batch=batch(column.cast(pa.dictionary(pa.int8(), pa.string()))))

    chunks = [encoded(0), encoded(100)]
    assert merge([*chunks, chunk([["a"]])])[:2] == chunks
    [together] = merge([encoded(0), encoded(20)])
    assert len(together) == 200


def test_rows_as_a_batch_and_back():
    assert chunk([[1], [None]]).rows.record_batch("x").to_pydict() == {"x": [1, None]}
    assert chunk([]).rows.record_batch("x").num_rows == 0
    assert list(chunk(batch=batch([1, 2])).rows) == [(1,), (2,)]
    with pytest.raises(pa.ArrowException):
        _ = chunk([["a"], [1]]).rows.record_batch("x")
