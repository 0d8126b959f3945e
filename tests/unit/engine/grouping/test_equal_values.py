"""Values that `==` finds equal go to the same task, whatever their texts."""

from array import array
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.driver import migration
from fulmen.engine.grouping import choosers
from fulmen.engine.grouping.column_hash import arrow_column_hash, column_hash, java_hash
from fulmen.engine.grouping.equal_values import equal_hash
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


@dataclass(frozen=True)
class OwnEquality:
    name: str

    def __eq__(self, other):
        return self.name.lower() == other.name.lower()

    def __hash__(self):
        return 0


class Model(BaseModel):
    amount: Decimal


EQUAL = [
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
    assert column_hash([one, "x", other], equal_hash)[0] == equal_hash(other)


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
    "value", ["text", 7, 1.5, None, True, b"x", ("a", 1), ["a", [2.5]], OwnEquality("A")]
)
def test_other_values_have_the_hash_that_they_always_had(value):
    assert equal_hash(value) == java_hash(value)


@pytest.mark.parametrize(
    ("tags", "cure"),
    [({1}, "tuple(sorted(value))"), ({"a": 1}, "tuple(sorted(value.items()))")],
)
def test_an_object_with_a_part_that_has_no_order_is_refused_with_the_cure(tags, cure):
    with pytest.raises(GroupingError) as refused:
        column_hash([Tagged(()), Tagged(tags)], equal_hash)
    assert refused.value.emission == 1
    assert f"Emit {cure} instead" in str(refused.value)


def test_columns_of_arrow_are_hashed_like_their_values():
    values = [Decimal("1.50")] * 70
    [*hashes] = arrow_column_hash(pa.array(values, pa.decimal128(9, 4)), equal_hash)
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


def test_a_checkpoint_of_before_goes_on_with_the_tasks_that_have_the_state(monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(choosers, "equal_hash", java_hash)
        before.setattr(migration, "EQUAL_KEYS", "unknown then")
        first, counts = counted()
    assert sorted(n for state in counts for n in state.values()) != [2, 3]  # as they were split
    again, counts_again = counted(first.checkpoint)
    assert counts_again == [{key: 2 * n for key, n in state.items()} for state in counts]
    assert counted(again.checkpoint)[1] == [{key: 3 * n for key, n in s.items()} for s in counts]
