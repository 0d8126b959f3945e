"""What is kept of tuples that kill their workers."""

import pytest

from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.messages import dropped_tuples


class Hostile:
    def no(self, *_):
        raise SystemExit

    __repr__ = __str__ = __hash__ = __eq__ = __reduce__ = __reduce_ex__ = no


class Text(str):
    __slots__ = ()


NAME = f"<{__name__}.Hostile>"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (7, 7),
        ("x" * 20_000, "x" * 10_000),
        (b"abc", b"abc"),
        ([1, ("a", 2.5)], [1, ("a", 2.5)]),
        ({"a": [1], (1, 2): 3}, {"a": [1], "(1, 2)": 3}),
        (Text("a"), f"<{__name__}.Text>"),
    ],
)
def test_builtin_values_are_kept_as_they_are_but_not_endlessly(value, kept):
    assert dropped_tuples.plain(value) == kept


def test_objects_are_named_by_their_class_and_none_of_their_methods_is_called():
    assert dropped_tuples.plain([Hostile(), {"a": Hostile()}]) == [NAME, {"a": NAME}]


def test_a_value_that_is_nested_without_end_is_kept_in_part():
    value = []
    value.append(value)
    assert str(dropped_tuples.plain(value)).startswith("[[[[")


def test_the_newest_are_kept():
    kept = KeyedState()
    for number in range(250):
        dropped_tuples.note(kept, "default", [number], f"id {number}", "killed", "", 12.5)
    assert len(kept) == dropped_tuples.MOST
    assert [entry["values"] for entry in kept.values()] == [[n] for n in range(150, 250)]
    assert kept[250] == {
        "stream": "default",
        "values": [249],
        "msg_id": "id 249",
        "cause": "killed",
        "at": 12.5,
    }
