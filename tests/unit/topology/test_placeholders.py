"""`${NAME}` in a `config`."""

import pytest

from fulmen.topology.configuration.placeholders import EqualKeys, Unset, resolved, stand_in

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


def test_values_and_keys_are_replaced_at_any_depth():
    value = {"${A}": [{"x": ["${A}", 3, None, True]}], "n": 1.5}
    known, wrong = resolved(value, ENVIRON)
    assert known == {"value-of-a": [{"x": ["value-of-a", 3, None, True]}], "n": 1.5}
    assert wrong == []
    assert value["${A}"][0]["x"][0] == "${A}"


def test_keys_that_become_equal_are_told():
    value = {"a": {"value-of-a": 1, "${A}": 2}}
    assert resolved(value, ENVIRON)[1] == [EqualKeys(("a", "${A}"))]


def test_all_that_is_not_set_is_told():
    _, unset = resolved({"a": "${X} ${A} ${Y}", "b": [0, {"${X}": "${Y}"}]}, ENVIRON)
    key = ("b", 1, "${X}")
    assert unset == [Unset(("a",), "X"), Unset(("a",), "Y"), Unset(key, "X"), Unset(key, "Y")]


def test_what_is_known_without_an_environment():
    config = {"a": "${X:-1}", "b": ["${X} ${Y:-2}"], "$${X}": "$${X}", "${Z}": ""}
    known, is_open, variables = stand_in(config)
    assert known == {"a": "1", "b": ["${X} 2"], "${X}": "${X}", "${Z}": ""}
    assert is_open == {("b", 0)}
    assert variables == {"X", "Z"}
    assert stand_in(config, {"X": "x", "Z": "z"})[0]["z"] == ""
