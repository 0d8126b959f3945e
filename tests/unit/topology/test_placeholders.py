"""`${NAME}` in a `config`."""

import pytest

from fulmen.topology.configuration.placeholders import Unset, resolved, stand_in

ENVIRON = {"A": "value-of-a", "EMPTY": "", "N": "5"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${A}", "value-of-a"),
        ("<${A}|${N}>", "<value-of-a|5>"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A ${} ${1} ${A", "$A ${} ${1} ${A"),
        ("${A:-other}", "value-of-a"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${NONE:-a:b-c $x}", "a:b-c $x"),
    ],
)
def test_a_variable_is_replaced(text, expected):
    assert resolved(text, ENVIRON) == (expected, [])


def test_values_are_replaced_at_any_depth_and_keys_are_not():
    value = {"${A}": [{"x": ["${A}", 3, None, True]}], "n": 1.5}
    known, unset = resolved(value, ENVIRON)
    assert known == {"${A}": [{"x": ["value-of-a", 3, None, True]}], "n": 1.5}
    assert unset == []
    assert value["${A}"][0]["x"][0] == "${A}"


def test_all_that_is_not_set_is_told():
    _, unset = resolved({"a": "${X} ${A} ${Y}", "b": [0, {"c": "${X}"}]}, ENVIRON)
    assert unset == [Unset(("a",), "X"), Unset(("a",), "Y"), Unset(("b", 1, "c"), "X")]


def test_what_is_known_without_an_environment():
    known, is_open = stand_in({"a": "${X:-1}", "b": ["${X} ${Y:-2}"], "c": "$${X}"})
    assert known == {"a": "1", "b": ["${X} 2"], "c": "${X}"}
    assert is_open == {("b", 0)}
