"""Values as people see them who look at tuples."""

import dataclasses
import datetime as dt
import enum
import json
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import secrets
from fulmen.engine.taps.values import MOST_BYTES, TO_COMPARE, TO_SHOW, Mask

NOTHING = Mask(())


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class User:
    name: str
    email: str


class Raises:
    def __getattribute__(self, name):
        if name == "__class__":
            return Raises
        raise RuntimeError("hostile")


class EndlessMapping(dict):
    def items(self):
        raise OSError("no items today")


@pytest.fixture
def a_secret(monkeypatch):
    monkeypatch.setattr(secrets, "_known", secrets._Known())
    secrets.note("${PASSWORD}", "open-sesame", {"PASSWORD": "open-sesame", "PIN": "123456"})


def shown(value, mask=NOTHING):
    return json.loads(mask.dumps({"v": value}))["v"]


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        ("é", "é"),
        (None, None),
        (True, True),
        (2**70, 2**70),
        (float("nan"), "NaN"),
        (Decimal("1.10"), 1.10),
        (b"abc", "abc"),
        (b"\xff", "/w=="),
        (dt.date(2026, 1, 31), "2026-01-31"),
        (dt.timedelta(hours=1.5), "PT1H30M"),
        ((1, "a"), [1, "a"]),
        ({2, 1}, [1, 2]),
        ({7: "a"}, {"7": "a"}),
        (Colour.RED, "red"),
        (User("ann", "ann@x.org"), {"name": "ann", "email": "ann@x.org"}),
        (np.array([1, 2]), [1, 2]),
        (np.float32(0.5), 0.5),
        ("\ud800", "\\ud800"),
        pytest.param(10**5000, "a value of type int that can't be shown", id="too-long"),
        (object, "a value of type type that can't be shown"),
        (EndlessMapping(a=1), "a value of type EndlessMapping that can't be shown"),
    ],
)
def test_values_are_shown_as_json(value, as_json):
    assert shown(value) == as_json


def test_an_object_that_raises_whatever_is_asked_of_it_is_named_by_its_type():
    assert shown(Raises()) == "a value of type Raises that can't be shown"


def test_fields_and_members_of_a_masked_name_are_not_shown():
    mask = Mask(["email", "card"])
    row = {"email": "ann@x.org", "user": User("ann", "ann@x.org"), "all": [{"card": 7, "b": 1}]}
    assert json.loads(mask.dumps(row)) == {
        "email": "***",
        "user": {"name": "ann", "email": "***"},
        "all": [{"card": "***", "b": 1}],
    }
    assert mask.field("email", "ann@x.org", TO_COMPARE) == "***"
    assert mask.field("user", row["user"], TO_COMPARE) == {"name": "ann", "email": "***"}


class Card(NamedTuple):
    number: int
    email: str


RECORDS = np.array([(7, ("ann@x.org",))], [("card", "i8"), ("user", [("email", "U9")])])


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        (Card(7, "ann@x.org"), [7, "***"]),
        ([{"of": Card(7, "ann@x.org")}], [{"of": [7, "***"]}]),
        (RECORDS, [["***", ["***"]]]),
        (RECORDS.reshape(1, 1), [[["***", ["***"]]]]),
        (RECORDS[0], ["***", ["***"]]),
        (RECORDS[["user"]], [[["***"]]]),
        (RECORDS.reshape(()), ["***", ["***"]]),
    ],
)
def test_elements_of_a_masked_name_are_not_shown(value, as_json):
    assert shown(value, Mask(["email", "card"])) == as_json
    assert "***" not in str(shown(value))


def test_values_of_a_dead_letter_whose_fields_are_not_known_are_shown_only_without_a_mask():
    def row(mask):
        values = ["default", [7, "ann@x.org"], "why"]
        found = mask.tuple("__dead_letters", ("stream", "values", "reason"), values, lambda _: ())
        return json.loads(mask.dumps(found))["values"]

    assert (row(Mask(["email"])), row(NOTHING)) == ("***", [7, "ann@x.org"])


def test_dead_letters_and_late_tuples_are_masked_by_the_fields_of_their_own_stream():
    mask, fields = Mask(["email"]), ("stream", "values", "reason")
    names = {"default": ("id", "email")}.get
    for stream in ("__dead_letters", "__late"):
        row = mask.tuple(stream, fields, ["default", [7, "ann@x.org"], "why"], lambda s: names(s))
        assert json.loads(mask.dumps(row)) == {
            "stream": "default",
            "values": {"id": 7, "email": "***"},
            "reason": "why",
        }


@pytest.mark.parametrize(
    "value",
    [
        "dsn: open-sesame!",
        b"open-sesame",
        ["x", {"open-sesame": "open-sesame"}],
        User("open-sesame", ""),
        123456,
        Decimal(123456),
        "x" * 495 + "open-sesame",
        b"\xffopen-sesame",
    ],
)
def test_secrets_are_never_shown(a_secret, value):
    for most in (TO_SHOW, TO_COMPARE):
        said = str(NOTHING.field("v", value, most))
        assert "sesame" not in said
        assert "123456" not in said
    assert "open-" not in NOTHING.dumps({"v": value}).decode()


def test_long_values_are_cut():
    assert shown("é" * 12_345) == "é" * 500 + "… (12,345 characters)"
    assert shown(list(range(1000)))[-2:] == [49, "… 950 more"]
    assert list(shown(dict.fromkeys(range(52))))[-1] == "…"
    assert shown(range(10**12))[-1] == "… 999,999,999,950 more"
    assert shown([[[[[[[1]]]]]]]) == [[[[[["[…]"]]]]]]
    endless = []
    endless.append(endless)
    assert "[…]" in json.dumps(shown(endless), ensure_ascii=False)


def test_a_tuple_that_is_large_in_spite_of_that_loses_its_long_values():
    wide = [["x" * 500] * 50] * 50
    found = json.loads(NOTHING.dumps({"id": 7, "wide": wide, "other": "é"}))
    assert found["id"] == 7
    assert found["wide"].startswith("… (1")
    assert len(NOTHING.dumps({f"f{i}": wide for i in range(100)})) < MOST_BYTES


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda some: st.lists(some) | st.dictionaries(st.text() | st.integers(), some),
    )
)
def test_any_value_is_json_of_a_limited_size(value):
    data = NOTHING.dumps({"v": value})
    json.loads(data)
    assert len(data) <= MOST_BYTES
