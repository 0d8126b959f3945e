"""Rows that are written as JSON together are written as each of them, whatever they look like."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.api.components.sinks import Rows
from fulmen.connectors.formats import JsonOptions, encode_each

FIELDS = ("a", "b")
BETWEEN = '},{"a":'
TEXTS = st.sampled_from(
    ["", "ä", "€", BETWEEN, "},{", '},{"', "}", '{"a":', '"a":', "\\", '\\"', "null"]
)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | TEXTS | st.just("\ud800") | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from("ab"), inner)
    ),
    max_leaves=6,
)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=5)
OPTIONS = [
    {},
    {"fields": ["b"]},
    {"fields": ["b", "a"]},
    {"fields": ["b", "a"], "encoding": "latin-1"},
]


def together_and_singly(form, rows):
    """What is written of rows together, and one by one; with why rows are refused."""
    together, singly = Rows(FIELDS, rows), Rows(FIELDS, rows)
    encode = form.encoder(FIELDS)
    made = encode_each(together, encode, form.encoder_of_many(FIELDS))
    return (made, together.failed), (encode_each(singly, encode), singly.failed)


@pytest.mark.parametrize("options", OPTIONS)
@given(rows=ROWS)
@example(rows=[([{"a": 1}, {"a": 2}], 1)])
@example(rows=[([{"b": 1}, {"b": 2}], 1), (1, 1)])
@example(rows=[("},{", 1), (1, [1, {"a": 2}])])
@example(rows=[(None, math.nan), (None, 1)])
@example(rows=[([math.inf], None)])
@example(rows=[(None, 0.0), (None, math.nan)])
def test_rows_are_the_same_together_and_one_by_one(options, rows):
    together, singly = together_and_singly(JsonOptions(type="json", **options).make(), rows)
    assert together == singly


@pytest.mark.parametrize("name", ["},{", '"', "a\\", "ä", "", "1"])
def test_names_that_are_no_words_are_the_same_together_and_one_by_one(name):
    form = JsonOptions(type="json").make()
    rows = [[BETWEEN, {name: 1}], [[{name: 2}, {name: 3}], name]]
    encode, many = form.encoder([name, "b"]), form.encoder_of_many([name, "b"])
    assert many(rows) == list(map(encode, rows))


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1000])
def test_any_number_of_rows_is_written_together(count):
    form = JsonOptions(type="json").make()
    rows = [[i, [BETWEEN, None, {"c": i}]] for i in range(count)]
    made = form.encoder_of_many(FIELDS)(rows)
    assert [[*json.loads(one).values()] for one in made] == rows
