"""The values that tuples have to have to be shown."""

import datetime as dt
from decimal import Decimal

import pytest

from fulmen.engine.taps.condition import LONGEST, ConditionError, conditions_of

ROW = {
    "amount": 120,
    "price": Decimal("1.10"),
    "share": 0.1,
    "country": "DE",
    "paid": False,
    "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    "user": {"age": 7, "name": "a=b"},
    "nothing": None,
    "empty": "",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("amount=120", True),
        ("amount=120.0", True),
        ("amount=12", False),
        ("amount=much", False),
        ("price=1.1", True),
        ("share=0.1", True),
        ("country=DE", True),
        ("country=D", False),
        ("paid=false", True),
        ("paid=0", False),
        ("nothing=null", True),
        ("empty=", True),
        ("empty=null", False),
        ("at=2026-01-31T12:00:00+00:00", True),
        ("user.age=7", True),
        ("user.name=a=b", True),
        ("user.missing=null", False),
        ("country.DE=1", False),
        ("missing=1", False),
    ],
)
def test_a_condition_holds_for_a_row_or_does_not(text, holds):
    [condition] = conditions_of([text])
    assert condition.is_met(ROW) is holds


@pytest.mark.parametrize("text", ["amount > 100", "=DE", "", "x=" + "x" * LONGEST])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ConditionError, match=r"is no condition: write FIELD=VALUE, such as"):
        conditions_of([text])
