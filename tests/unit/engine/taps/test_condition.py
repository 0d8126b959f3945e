"""Conditions that tuples have to meet to be shown."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.taps.condition import LONGEST, ConditionError, condition_of

ROW = {
    "amount": 120,
    "price": Decimal("1.10"),
    "country": "DE",
    "paid": False,
    "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    "tags": ["new", "large"],
    "user": {"age": 7, "name": "ann", "pets": [{"kind": "cat"}]},
    "nothing": None,
    "from": "ann",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("amount > 100", True),
        ("amount > 120", False),
        ("amount >= 120 and country == 'DE'", True),
        ("amount > 500 or not paid", True),
        ("not (amount == 120 or paid)", False),
        ("100 < amount < 130", True),
        ("100 < amount < 110", False),
        ("amount == -120", False),
        ("price == 1.1 or price > 1", True),
        ('country in ["FR", "DE"]', True),
        ('country not in ("FR", "DE")', False),
        ("'arg' in tags[1]", True),
        ("'new' in tags and 'old' not in tags", True),
        ("tags[-1] == 'large'", True),
        ("tags[5] == null", True),
        ("user.age == 7 and user['name'] != 'bob'", True),
        ("user.pets[0].kind == 'cat'", True),
        ("user.missing == null", True),
        ("user.age.years == null", True),
        ("nothing == null and paid == false", True),
        ("paid", False),
        ("country", True),
        ('at >= "2026-01-31T12:00:00+00:00"', True),
        ('at < "2026-01-31"', False),
        ('tuple["from"] == "ann"', True),
        # what can't be compared does not hold, and the rest counts all the same
        ("country > 5", False),
        ("nothing > 5", False),
        ("not (nothing > 5)", True),
        ("nothing > 5 or amount == 120", True),
        ("'a' in amount", False),
        ("missing == 1", False),
        ("not missing == 1", False),
    ],
)
def test_a_condition_holds_for_a_row_or_does_not(text, holds):
    assert condition_of(text).is_met(ROW) is holds


def test_a_condition_names_its_fields_and_the_members_that_it_asks_for():
    found = condition_of("user.address['street'] == 'x' and amount in [1, 2]")
    assert found.fields == {"user", "amount"}
    assert found.names == {"user", "address", "street", "amount"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("amount >", "invalid syntax"),
        ("amount = 5", "invalid syntax"),
        ("amount is 5", "'is' is not known, write =="),
        ("open('x')", "\"open('x')\" is neither a field nor a literal"),
        ("amount + 1 > 5", "'amount + 1' is neither a field nor a literal"),
        ("[x for x in tags]", "is neither a field nor a literal"),
        ("(lambda: 1)() == amount", "is neither a field nor a literal"),
        ("tags[amount] == 1", "'tags[amount]' is neither a field nor a literal"),
        ("f'{amount}' == 'x'", "is neither a field nor a literal"),
        ("amount == b'x'", "is neither a field nor a literal"),
        ("1 == 1", "names no field"),
        ("", "can't be read"),
        ("x" * (LONGEST + 1), "the condition has more than 1,000 characters."),
        ("(" * 300 + "x" + ")" * 300, "can't be read: too many nested parentheses"),
        ("not " * 240 + "x", "it is nested more than 40 levels deep. Write such as"),
        ("-" * 900 + "x", "can't be read"),
        ("x\0", "can't be read"),
    ],
)
def test_what_is_no_condition_is_refused(text, why):
    with pytest.raises(ConditionError) as refused:
        condition_of(text)
    assert why in str(refused.value)


def with_calls_below(n, ask):
    return with_calls_below(n - 1, ask) if n else ask()


def test_what_the_driver_takes_for_a_condition_a_worker_with_more_calls_on_its_stack_does():
    nested = "a" + ".b" * 450

    def is_condition():
        condition_of.cache_clear()
        try:
            return bool(condition_of(nested))
        except ConditionError:
            return False

    here = is_condition()
    assert {with_calls_below(n, is_condition) for n in (100, 300, 600)} == {here}


def test_a_condition_may_be_nested_as_people_need_it():
    text = "(not (" * 15 + "x == 1" + "))" * 15
    assert not with_calls_below(600, lambda: condition_of(text).is_met({"x": 1}))


TOKENS = [*"ab.[]()'\"<=>! 01-,{}:@*\\\n\0é", " and ", " or ", " not ", " in ", " == ", ".a", "[0]"]


@given(st.lists(st.sampled_from(TOKENS)).map("".join))
def test_any_text_is_a_condition_or_is_refused(text):
    try:
        condition = condition_of(text)
    except ConditionError:
        return
    assert condition.is_met({"a": 1, "b": ["x", {"a": None}]}) in (True, False)
