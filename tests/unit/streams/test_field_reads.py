"""Fields that functions read, and rows don't have, are found before a row comes. No false alarm."""

from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import pytest

from fulmen import Stream
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams
from fulmen.streams.compiling.field_reads import unknown_reads
from fulmen.testing import CollectBolt, ListSpout

FIELDS = ("user", "n", "window-end")


class Click(NamedTuple):
    user: str
    n: int

    @property
    def half(self):
        return self.n / 2


class Named(TypedDict):
    user: str


@dataclass
class Made:
    user: str

    def __post_init__(self):
        self.usr = 1


def kept(row, kind):
    return row.usr if kind == "old" else row.user


def of_two_streams(row):
    return row.usr if row.user == "old" else 1


def tried(row):
    try:
        return row.usr
    except AttributeError:
        return row.user


def set_anew(row):
    row = row._replace(n=1)
    return row.usr


def always(row):
    known = row.usr
    return known if FIELDS else row.m


RIGHT = [
    (lambda r: r.user and r["window-end"] and r[0] and r.count(1) and r._fields, None),
    (lambda r: r.usr if hasattr(r, "usr") else 1, None),
    (lambda r: r.usr if len(r) == 4 else 1, None),
    (lambda r: r.usr if FIELDS else 1, None),
    (lambda r, kind="new": r.usr if kind == "old" else 1, None),
    (lambda r: [usr.usr for usr in r], None),
    (lambda r: lambda r: r.usr, None),
    (lambda r: r.half + r.n, Click),
    (lambda r: r.usr, Made),
    (lambda r: r["user"].usr, Named),
    (lambda: 1, None),
    (str.upper, None),
    *((f, None) for f in (kept, of_two_streams, tried, set_anew)),
]
WRONG = [
    (lambda r: r.user == "a" and r.usr > 1, None, ["usr"]),
    (lambda r: r["window_end"], None, ["window_end"]),
    (lambda r: r.usr.upper(), None, ["usr"]),
    (lambda r: r.usr(), None, ["usr"]),
    (lambda r: r.usr + r.half, Click, ["usr"]),
    (lambda r: r["usr"], Named, ["usr"]),
    (always, None, ["usr"]),
]


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_a_function_that_may_be_right_is_let_be(number):
    function, cls = RIGHT[number]
    assert list(unknown_reads(function, FIELDS, cls)) == []


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_field_that_no_row_has_is_found_with_its_line(number):
    function, cls, names = WRONG[number]
    found = list(unknown_reads(function, FIELDS, cls))
    assert [name for _, name in found] == names
    first = function.__code__.co_firstlineno
    assert all(first <= line.line <= first + 1 for line, _ in found)


def test_the_functions_of_all_calls_are_judged():
    pipeline = Streams("typos")
    fields = Stream(("user", "n"))
    rows = pipeline.source("rows", ListSpout((), streams={"default": fields}))
    rows.filter(lambda r, m: r.a > m, 1).sink("1", CollectBolt)
    rows.with_fields(m=lambda r: r.b).filter(lambda r: r.m and r.c).sink("2", CollectBolt)
    rows.branch(big=lambda r: r.d).rest.sink("3", CollectBolt)
    rows.key_by("user").reduce(lambda x, y: x if x.e else y).sink("4", CollectBolt)
    rows.key_by("user").update_state(lambda m, r: m.any + r.f, name="s").sink("5", CollectBolt)
    rows.select("user").map(lambda r: [r.n], fields="one").sink("6", CollectBolt)
    with pytest.raises(ValidationFailed) as failed:
        pipeline.build()
    texts = [str(problem) for problem in failed.value.problems]
    assert sorted(text.partition("no field ")[2][1] for text in texts) == [*"abcdefn"]
    assert all(text.startswith("test_field_reads.py:") for text in texts)
