"""Bytes of keys: equal for equal keys, in their order, and back."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.keyed.stores.key_bytes import all_bytes_of, bytes_of, key_of, prefix_of
from fulmen.errors import StateError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)
TEXTS = st.text("\x00\x01a\xffé\ud800", max_size=4)
PLAIN = st.one_of(
    NUMBERS,
    TEXTS,
    st.binary(max_size=4),
    st.none(),
    st.sampled_from(Colour),
    st.uuids(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=3))])),
    st.timedeltas(),
)
KEYS = st.recursive(PLAIN, lambda keys: st.lists(keys, max_size=3).map(tuple), max_leaves=5)


@given(KEYS)
def test_a_key_comes_back_equal(key):
    back = key_of(bytes_of(key))
    assert back == key
    assert hash(back) == hash(key)


@given(st.lists(TEXTS) | st.lists(st.one_of(NUMBERS, TEXTS)))
def test_the_bytes_of_many_keys_are_those_of_each(keys):
    assert all_bytes_of(keys) == list(map(bytes_of, keys))


@given(st.lists(st.one_of(NUMBERS, st.tuples(NUMBERS, NUMBERS)), min_size=2, max_size=8))
def test_keys_are_equal_exactly_if_their_bytes_are(keys):
    for one in keys:
        for other in keys:
            assert (one == other) == (bytes_of(one) == bytes_of(other))


@pytest.mark.parametrize(
    "kind", [st.integers(-(2**80), 2**80), st.text("\x00a\xffé", max_size=3), st.binary(max_size=3)]
)
def test_bytes_are_in_the_order_of_keys_of_one_kind(kind):
    @given(st.lists(st.tuples(kind, kind), max_size=6))
    def holds(keys):
        assert sorted(keys, key=bytes_of) == sorted(keys)
        for first, second in keys:
            assert bytes_of((first, second)).startswith(prefix_of((first,)))

    holds()


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Decimal("1.00")),
        (0.5, Decimal("0.50")),
        (0, -0.0, False),
        (
            datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=3))),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_equal_keys_of_several_types_are_one_key(equal):
    assert len({bytes_of(key) for key in equal}) == 1


def test_others_are_not():
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 (it is another key than one with a zone)
    others = [1, "1", b"1", (1,), None, date(2026, 1, 1), naive, UUID(int=1)]
    assert len({bytes_of(key) for key in others}) == len(others)


class Own:
    def __repr__(self):
        return "Own()"


@pytest.mark.parametrize("key", [frozenset({1}), ("a", Own()), float("nan")])
def test_keys_of_which_it_is_not_known_which_are_equal_are_refused(key):
    with pytest.raises(StateError, match=r"of self\.state"):
        bytes_of(key)


def test_the_refusal_names_the_key_and_the_cure():
    with pytest.raises(StateError) as caught:
        bytes_of(("a", Own()))
    assert str(caught.value) == (
        "the key ('a', Own()) of self.state can't be kept on disk: it is not known which keys of"
        " type Own are equal. Use texts, numbers, bytes, None, dates, UUIDs, members of an Enum, or"
        " tuples of these, or keyedState: {backend: memory}"
    )
