"""A tuple gives its values by name and by number."""

import pytest

from fulmen.api.tuples import Held, Tuple

VALUES = ["a", 1, None]
TUPLE = Tuple(VALUES, Held("source", "default", ("word", "count", "note"), 1), 0)


@pytest.mark.parametrize(("name", "value"), [("word", "a"), ("count", 1), ("note", None)])
def test_a_value_is_found_by_the_name_of_its_field(name, value):
    assert TUPLE[name] == value


@pytest.mark.parametrize("key", [*range(-3, 3), slice(1, None), slice(None, None, -1)])
def test_a_value_is_found_by_its_number_as_in_a_list(key):
    assert TUPLE[key] == VALUES[key]


@pytest.mark.parametrize("key", [3, -4])
def test_a_number_beyond_the_last_value_is_an_index_error(key):
    with pytest.raises(IndexError):
        TUPLE[key]


def test_a_name_that_is_no_field_is_told_with_the_fields_that_there_are():
    with pytest.raises(KeyError) as raised:
        TUPLE["wrod"]
    assert raised.value.args == (
        "no field 'wrod' in stream 'default' of 'source', which has ['word', 'count', 'note']",
    )


def test_a_key_that_is_neither_a_name_nor_a_number_is_a_type_error():
    with pytest.raises(TypeError):
        TUPLE[None]
