"""Values as PostgreSQL reads them, compared with how psycopg reads them."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import _py_transformer, pq
from psycopg._copy_base import _parse_row_text

from fulmen.connectors.postgres.texts import Column, array, lines, text_of, texts
from fulmen.transactional.columns import DoesNotFit

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
CELLS = st.one_of(
    st.none(), TEXT, st.sampled_from(["NULL", "\\N", "{}", '","', "\\", "\t\n\r", ""])
)


@given(st.lists(CELLS))
def test_an_array_is_read_as_what_it_was_made_of(values):
    oid = psycopg.adapters.types["text"].array_oid
    loader = _py_transformer.Transformer().get_loader(oid, pq.Format.TEXT)
    assert loader.load(array(values).encode()) == values


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
def test_lines_of_copy_are_read_as_what_they_were_made_of(rows):
    columns = list(zip(*rows, strict=True))
    data = lines(columns)
    assert data.endswith(b"\n")
    found = []
    for line in (line + b"\n" for line in data[:-1].split(b"\n")):
        transformer = _py_transformer.Transformer()
        transformer.set_loader_types(
            [psycopg.adapters.types["text"].oid] * len(columns), pq.Format.TEXT
        )
        found.append(_parse_row_text(line, transformer))
    assert found == rows


INTEGER = Column("n", "integer", "number")


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, None, 0.5, "12"])
def test_a_value_has_the_same_text_alone_and_among_many(value):
    assert texts(INTEGER, [value] * 3, pytest.fail) == [text_of(INTEGER, value)] * 3


@pytest.mark.parametrize(
    "value", [-(2**31) - 1, 2**31, True, b"", [], {}, object(), "a\0", "\ud800"]
)
def test_a_value_that_does_not_fit_is_refused_alone_and_among_many(value):
    with pytest.raises(DoesNotFit):
        text_of(INTEGER, value)
    refused = []
    assert texts(INTEGER, [1, value], lambda i, reason: refused.append((i, reason))) == ["1", None]
    ((i, reason),) = refused
    assert i == 1
    assert reason.startswith("column 'n': ")
    assert list(texts(INTEGER, [value], lambda i, _: None)) == [None]
