"""Values as PostgreSQL reads them, compared with how psycopg reads them."""

from decimal import Decimal

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import _py_transformer, pq
from psycopg._copy_base import _parse_row_text

from fulmen import JSON_NULL
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


@pytest.mark.parametrize("value", [7.0, Decimal("7.00"), np.float64(7)])
def test_a_whole_number_of_any_type_is_an_integer(value):
    assert text_of(INTEGER, value) == "7"


DOCUMENT = Column("d", "jsonb", "json")
DOCUMENTS = Column("d", "jsonb[]", "array", element=DOCUMENT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("123", '"123"'),
        ("null", '"null"'),
        (JSON_NULL, "null"),
        ({"n": [Decimal("1E+400"), "a"]}, '{"n":[1E+400,"a"]}'),
        (None, None),
    ],
)
def test_json_is_written_as_what_it_is(value, text):
    assert texts(DOCUMENT, [value] * 2, pytest.fail) == [text] * 2
    escaped = text and '"' + text.replace('"', '\\"') + '"'
    assert text_of(DOCUMENTS, [value, [value]]) == (
        f'{{{escaped or "NULL"},"[{(text or "null").replace(chr(34), chr(92) + chr(34))}]"}}'
    )


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
