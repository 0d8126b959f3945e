"""homes.py: the position of many keys at once is that of the value which the grouping sends."""

from collections import namedtuple

import pytest

from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.positions import positions
from fulmen.engine.keyed.homes import HomeRule, KeyFields

Visit = namedtuple("Visit", ["user", "day"])
ONE = KeyFields.all_of(1)


@pytest.mark.parametrize(
    ("part", "keys", "values"),
    [
        pytest.param("whole", ["a", "b", "a"], ["a", "b", "a"], id="whole"),
        pytest.param("whole", [1, 1.5, None, "x"], [1, 1.5, None, "x"], id="whole-mixed"),
        pytest.param("first", [("a", 1), ("b", 2)], ["a", "b"], id="first"),
        pytest.param("first", [("a",), Visit("b", 2)], ["a", "b"], id="first-named-tuple"),
        pytest.param("second", [(1, "a"), (2, "b")], ["a", "b"], id="second"),
    ],
)
def test_the_position_is_that_of_the_grouping_s_value(part, keys, values):
    expected = positions([column_hash(values)]).tolist()
    assert HomeRule(part, ONE).positions(keys).tolist() == expected


@pytest.mark.parametrize("keys", [["a", "b"], [("a", 1), "b"], [()]])
def test_a_key_without_the_part_is_told(keys):
    with pytest.raises(LookupError):
        HomeRule("first", ONE).positions(keys)
