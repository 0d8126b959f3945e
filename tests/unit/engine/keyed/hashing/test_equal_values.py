"""Values that `==` finds equal go to the same task, whatever their texts."""

from array import array
from collections import ChainMap, UserDict, UserList, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.equal_values import equal_hash
from fulmen.engine.keyed.hashing.value_hash import value_hash
from fulmen.errors import GroupingError
from fulmen.testing import EOF, ListSpout, run

EAST = timezone(timedelta(hours=2))
LONG = "23456789" * 6
NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Price:
    amount: Decimal
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class Tagged:
    tags: Any


class Kind(Enum):
    PLAIN = ("a", 1)
    SAME = ("a", 1)  # noqa: PIE796 (an alias)
    SET = frozenset("abc")
    LIST = (frozenset("abc"), 1)


def numbers():
    yield from range(3)


class Shown:
    def __init__(self, inside):
        self.inside = inside

    def __repr__(self):
        return f"Shown({self.inside!r})"


@dataclass(frozen=True)
class OwnEquality:
    name: str

    def __eq__(self, other):
        return self.name.lower() == other.name.lower()

    def __hash__(self):
        return 0


class Model(BaseModel):
    amount: Decimal


class Own(str):
    pass


class OwnDate(date):
    pass


class OwnTime(time):
    pass


class OwnFraction(Fraction):
    pass


class OwnId(UUID):
    pass


TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
"""A time that a clock shows twice."""
SKIPPED = datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))


class Pair(NamedTuple):
    price: Any
    count: int


class OwnList(list):
    pass


EQUAL = [
    (Pair(Decimal("1.50"), 1), Pair(Decimal("1.5"), 1)),
    (OwnList([Decimal("1.50")]), OwnList([Decimal("1.5")])),
    (TWICE, TWICE.replace(fold=1)),
    (SKIPPED, SKIPPED.replace(fold=1)),
    ("a", Own("a")),
    (date(2026, 1, 2), OwnDate(2026, 1, 2)),
    (time(1, 2), OwnTime(1, 2)),
    (time(2, 30, tzinfo=EAST), time(2, 30, tzinfo=EAST, fold=1)),
    (Fraction(1, 2), OwnFraction(2, 4)),
    (UUID(int=7), OwnId(int=7)),
    (timezone(timedelta(hours=1), "A"), timezone(timedelta(hours=1), "B")),
    (np.datetime64("2026-01-02", "D"), np.datetime64("2026-01-02T00:00", "m")),
    (np.datetime64("2026-01-02T03:04:05", "s"), np.datetime64("2026-01-02T03:04:05", "ns")),
    (np.timedelta64(1, "s"), np.timedelta64(1_000_000_000, "ns")),
    (np.timedelta64(2, "Y"), np.timedelta64(24, "M")),
    (np.complex64(complex(1, -0.0)), np.complex64(1)),
    (UserList([Decimal("1.50")]), UserList([Decimal("1.5")])),
    (Decimal("1.50"), Decimal("1.5")),
    (Decimal(100), Decimal("1E+2")),
    (Decimal("0.00"), Decimal("-0")),
    (Decimal(f"1.{LONG}0"), Decimal(f"1.{LONG}")),
    (NOON, NOON.astimezone(EAST)),
    (datetime(1, 1, 1, tzinfo=EAST), datetime(1, 1, 1, tzinfo=EAST)),
    (NOON.replace(tzinfo=None, fold=1), NOON.replace(tzinfo=None)),
    (time(12, tzinfo=UTC), time(14, tzinfo=EAST)),
    (Price(Decimal("1.0"), "a"), Price(Decimal(1), "b")),
    (Model(amount=Decimal("1.0")), Model(amount=Decimal(1))),
    (range(0, 3, 2), range(0, 4, 2)),
    (complex(0.0, -0.0), complex(-0.0, 0.0)),
    (deque([1], maxlen=3), deque([1])),
    (array("i", [1]), array("l", [1])),
    (SimpleNamespace(a=1, b=2), SimpleNamespace(b=2, a=1)),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=repr)
def test_equal_values_have_the_same_hash(one, other):
    assert one == other
    assert equal_hash(one) == equal_hash(other)
    assert equal_hash((1, [one])) == equal_hash((1, [other]))
    assert column_hash([one, "x", other])[0] == equal_hash(other)


@settings(max_examples=30)
@given(st.decimals(allow_nan=False), st.integers(0, 5))
def test_zeros_at_the_end_of_a_decimal_make_no_other_key(value, zeros):
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int):
        longer = Decimal((sign, digits + (0,) * zeros, exponent - zeros))
        assert equal_hash(longer) == equal_hash(value)


def test_different_values_of_such_types_are_spread():
    hashes = {equal_hash(Decimal(n) / 8) for n in range(100)}
    hashes |= {equal_hash(NOON + timedelta(seconds=n)) for n in range(100)}
    hashes |= {equal_hash(Price(Decimal(n))) for n in range(100)}
    assert len(hashes) > 290


@pytest.mark.parametrize(
    "value",
    [
        *("text", 7, 1.5, None, True, b"x", ("a", 1), ["a", [2.5]], OwnEquality("A"), Pair(2.5, 1)),
        *(date(2026, 1, 2), NOON.replace(tzinfo=None), UUID(int=7), Fraction(1, 2), Kind.PLAIN),
    ],
)
def test_other_values_have_the_hash_that_they_always_had(value):
    assert equal_hash(value) == value_hash(value)


@pytest.mark.parametrize(
    ("tags", "cure"),
    [({1}, "tuple(sorted(value))"), ({"a": 1}, "tuple(sorted(value.items()))")],
)
def test_an_object_with_a_part_that_has_no_order_is_refused_with_the_cure(tags, cure):
    with pytest.raises(GroupingError) as refused:
        column_hash([Tagged(()), Tagged(tags)])
    assert refused.value.emission == 1
    assert f"Emit {cure} instead" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        *((value, "Emit a field") for value in ([].append, partial(numbers))),
        *((value, "Emit a field") for value in (Shown(Price.__init__), [Shown(Shown(object()))])),
        *((kind({"a": 1}), "sorted(value.items())") for kind in (UserDict, ChainMap)),
        (MappingProxyType({"a": 1}), "sorted(value.items())"),
        *((view, "tuple(sorted(value))") for view in ({"a": 1}.keys(), {"a": 1}.items())),
    ],
)
def test_what_looks_different_in_each_process_is_refused(value, cure):
    with pytest.raises(GroupingError) as refused:
        equal_hash(value)
    assert cure in str(refused.value)


def test_a_member_of_an_enum_is_known_by_its_name_if_its_value_has_no_text_of_its_own():
    assert equal_hash(Kind.SET) == value_hash([f"{__name__}.Kind", "SET"])
    assert equal_hash(Kind.LIST) == value_hash([f"{__name__}.Kind", "LIST"])


def test_columns_of_arrow_are_hashed_like_their_values():
    values = [Decimal("1.50")] * 70
    [*hashes] = column_hash(pa.array(values, pa.decimal128(9, 4)))
    assert set(hashes) == {equal_hash(Decimal("1.5"))}


class Count(BasicBolt):
    def execute(self, tup, collector):
        key = str(tup["price"].normalize())
        self.state[key] = self.state.get(key, 0) + 1


PRICES = [Decimal("1.5"), Decimal("1.50"), Decimal("1.500"), Decimal("2.50"), Decimal("2.5")]
ROWS = [[price] for price in PRICES]


def counted(checkpoint=None):
    """How often each task has counted each price."""
    builder = TopologyBuilder("t")
    builder.set_spout("prices", ListSpout([*ROWS, EOF, *ROWS, EOF, *ROWS], fields=["price"]))
    builder.set_bolt("count", Count, 4).fields_grouping("prices", ["price"])
    result = run(builder, checkpoint=checkpoint, batches=4)
    return result, [result.state("count", task) for task in range(4)]


def test_one_task_counts_what_is_equal():
    _, counts = counted()
    assert sorted(n for state in counts for n in state.values()) == [2, 3]
