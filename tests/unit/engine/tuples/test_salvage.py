"""Of a pickled column, all is read that can be read, and exactly that."""

import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.tuples.salvage import UnreadableValue, salvaged


class NeedsTwo(Exception):
    def __init__(self, code, text):
        super().__init__(text)


class Coded(str):
    __slots__ = ()

    def __new__(cls, code, text):
        return super().__new__(cls, text)


class Refuses:
    def __setstate__(self, state):
        raise SystemExit(3)


class RefusesItems(list):
    def extend(self, items):
        raise ValueError("no items")

    append = extend


class RefusesKeys(dict):
    def __setitem__(self, key, value):
        raise ValueError("no keys")


class Swallows:
    """Hides what it was made of."""

    def __init__(self, inner):
        self.text = "" if inner is None else type(inner).__name__
        self.inner = inner

    def __reduce__(self):
        return Swallows, (self.inner,)


def made_by_nothing():
    """Is gone where it is read."""


class Gone:
    def __reduce__(self):
        return made_by_nothing, ()


def filled(kind):
    made = kind.__new__(kind)
    dict.update(made, a=1) if kind is RefusesKeys else list.extend(made, [1, 2])
    return made


def refusing():
    made = Refuses()
    made.x = 1
    return made


@dataclass
class Good:
    x: object


BAD = {
    "exception": lambda: NeedsTwo(1, "text"),
    "str": lambda: Coded(1, "text"),
    "state": refusing,
    "items": lambda: filled(RefusesItems),
    "keys": lambda: filled(RefusesKeys),
}


def alone(value):
    return value


@pytest.mark.parametrize(
    ("bad", "wrap"),
    [*((bad, alone) for bad in BAD.values()), *((refusing, wrap) for wrap in (Good, Swallows))],
)
def test_one_bad_value_is_named_and_all_others_are_read(bad, wrap):
    shared = Good("shared")  # by good and bad values alike
    values = [[shared, i] for i in range(1100)]
    for at in (0, 7, 1000, 1099):
        values[at] = [wrap(bad()), shared]
    pickled = pickle.dumps(values, 5)
    with pytest.raises(BaseException):  # noqa: B017, PT011 (SystemExit is one)
        pickle.loads(pickled)
    found, reasons = salvaged(pickled)
    assert sorted(reasons) == [0, 7, 1000, 1099]
    assert all(isinstance(found[at], UnreadableValue) for at in reasons)
    assert [v for i, v in enumerate(found) if i not in reasons] == [
        v for i, v in enumerate(values) if i not in reasons
    ]


def test_a_bad_value_that_others_refer_to_is_bad_in_all_of_them():
    one = refusing()
    found, reasons = salvaged(pickle.dumps([[one], [1], [one], {"a": one}], 5))
    assert (sorted(reasons), found[1]) == ([0, 2, 3], [1])
    assert set(reasons.values()) == {"SystemExit: 3"}


def test_a_value_whose_class_is_gone_is_named(monkeypatch):
    pickled = pickle.dumps([1, Gone(), "a"], 5)
    monkeypatch.delitem(globals(), "made_by_nothing")
    found, reasons = salvaged(pickled)
    assert (found[0], found[2], sorted(reasons)) == (1, "a", [1])
    assert "made_by_nothing" in reasons[1]


VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.sampled_from(["bad", "deep"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(), inner)
    ),
)


def with_bad(value):
    """The value with bad ones in it, and whether there are any."""
    if value == "bad":
        return NeedsTwo(1, "text"), True
    if value == "deep":
        return Swallows(Good(refusing())), True
    if isinstance(value, dict):
        parts = {key: with_bad(inner) for key, inner in value.items()}
        return {k: v for k, (v, _) in parts.items()}, any(bad for _, bad in parts.values())
    if isinstance(value, list | tuple):
        parts = [with_bad(inner) for inner in value]
        return type(value)(v for v, _ in parts), any(bad for _, bad in parts)
    return value, False


@given(st.lists(VALUES, max_size=5))
def test_exactly_the_values_with_something_bad_inside_are_unreadable(values):
    made = [with_bad(value) for value in values]
    found, reasons = salvaged(pickle.dumps([value for value, _ in made], 5))
    assert sorted(reasons) == [i for i, (_, bad) in enumerate(made) if bad]
    assert all(found[i] == value for i, (value, bad) in enumerate(made) if not bad)


def test_an_unreadable_value_stays_one_when_it_is_sent_on():
    found, reasons = salvaged(pickle.dumps([NeedsTwo(1, "text"), 2], 5))
    again, still = salvaged(pickle.dumps(found, 5))
    assert (again[1], still) == (2, reasons)
