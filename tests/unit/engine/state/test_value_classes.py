"""Classes of values that change while the checkpoint has values of them."""

import importlib
import sys

import pytest

from fulmen import BasicBolt, Bolt, Spout, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import PAUSE, ListSpout, run

HEAD = """
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from pydantic import BaseModel
import attrs
"""
PLAIN = "class Thing:\n    def __init__(self):\n        self.a, self.b = 1, 2\n"
DATACLASS = "@dataclass\nclass Thing:\n    a: int = 1\n    b: int = 2\n"
SLOTS = DATACLASS.replace("@dataclass", "@dataclass(slots=True)")
FROZEN = DATACLASS.replace("@dataclass", "@dataclass(frozen=True)")
FROZEN_SLOTS = DATACLASS.replace("@dataclass", "@dataclass(frozen=True, slots=True)")
TUPLE = "class Thing(NamedTuple):\n    a: int = 1\n    b: int = 2\n"
MODEL = "class Thing(BaseModel):\n    a: int = 1\n    b: int = 2\n"
ATTRS = "@attrs.frozen\nclass Thing:\n    a: int = 1\n    b: int = 2\n"
OWN_SLOTS = 'class Thing:\n    __slots__ = ("a", "b")\n' + PLAIN.partition("\n")[2]
ENUM = 'class Kind(Enum):\n    A = "a"\n    B = "b"\n\ndef Thing():\n    return Kind.B\n'
SET_STATE = """
    def __setstate__(self, state):
        {old}
        object.__setattr__(self, "c", 3)
"""


class Things(BasicBolt):
    """Keeps things, and says what they are."""

    def prepare(self, conf, context):
        self.made = sys.modules["shapes"].Thing

    def execute(self, tup, collector):
        name = f"{tup[0]}"
        for key, kept in self.state.items():
            self.seen[key] = seen(kept)
        self.state[name] = self.made()

    def __init__(self):
        self.seen = {}


def seen(thing):
    return [getattr(thing, name, "none") for name in "abc"]


class ByThing(Spout):
    """Its message ids are things."""

    outputs = ("n",)

    def __init__(self):
        self.is_done = False

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if not self.is_done:
            self.is_done = True
            self.collector.emit([1], msg_id=sys.modules["shapes"].Thing())


class Keeps(Bolt):
    """Acks nothing."""

    def execute(self, tup):
        pass


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """Runs a topology that keeps a `Thing` with one source of its class, then with another."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def define(source):
        (tmp_path / "shapes.py").write_text(HEAD + source)
        sys.modules.pop("shapes", None)
        importlib.invalidate_caches()
        importlib.import_module("shapes")

    def lives(before, after, are_ids=False):
        b = TopologyBuilder("t")
        b.set_spout("source", ByThing() if are_ids else ListSpout([1, PAUSE, 2]))
        b.set_bolt("things", Keeps if are_ids else Things).shuffle_grouping("source")
        define(before)
        if are_ids:
            result = run(b, batches=3)
        else:
            result = run(b, until=lambda result: len(result.state("things")) == 1)
        define(after)
        try:
            return run(b, checkpoint=result)
        finally:
            define(before)

    yield lives
    sys.modules.pop("shapes", None)


def added(source, line="    c: int = 3\n"):
    return source + line


def shifted(source):
    return source.replace("    b: int", "    c: int = 3\n    b: int")


def older(result):
    return result.fields("things")["seen"]["1"]


def warned(result):
    return [error.message for error in result.errors if error.is_warning]


@pytest.mark.parametrize("kind", [DATACLASS, FROZEN])
@pytest.mark.parametrize("change", [added, shifted])
def test_older_dataclasses_have_the_default_in_the_body(shapes, kind, change):
    result = shapes(kind, change(kind))
    assert older(result) == [1, 2, 3]
    assert warned(result) == []


def test_older_plain_objects_have_the_default_in_the_body(shapes):
    result = shapes(PLAIN, PLAIN.replace("Thing:\n", "Thing:\n    c = 3\n"))
    assert older(result) == [1, 2, 3]


def test_older_named_tuples_have_the_default_of_a_field_at_the_end(shapes):
    result = shapes(TUPLE, added(TUPLE))
    assert older(result) == [1, 2, 3]
    assert warned(result) == []


LACKING = (
    "the fields of class shapes.Thing were 'a', 'b' when its values were written, and are {} now."
    " Older values have no 'c': reading it raises AttributeError. Set it in a __setstate__ of the"
    " class"
)


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (SLOTS, added(SLOTS), "'a', 'b', 'c'"),
        (SLOTS, shifted(SLOTS), "'a', 'c', 'b'"),
        (FROZEN_SLOTS, added(FROZEN_SLOTS), "'a', 'b', 'c'"),
        (MODEL, added(MODEL), "'a', 'b', 'c'"),
        (MODEL, shifted(MODEL), "'a', 'c', 'b'"),
        (ATTRS, added(ATTRS), "'a', 'b', 'c'"),
        (OWN_SLOTS, OWN_SLOTS.replace('"b")', '"b", "c")'), "'a', 'b', 'c'"),
        (
            DATACLASS,
            added(DATACLASS, "    c: list = field(default_factory=list)\n"),
            "'a', 'b', 'c'",
        ),
    ],
)
def test_older_values_that_lack_a_field_are_told(shapes, before, after, names):
    result = shapes(before, after)
    assert older(result) == [1, 2, "none"]
    assert warned(result) == [LACKING.format(names)]


@pytest.mark.parametrize(
    ("kind", "old"),
    [
        (SLOTS, "[setattr(self, k, v) for k, v in state[1].items()]"),
        (PLAIN, "self.__dict__.update(state)"),
        (MODEL, "super().__setstate__(state)"),
        (FROZEN_SLOTS, "[object.__setattr__(self, k, v) for k, v in zip('ab', state)]"),
    ],
)
def test_setstate_gives_older_values_what_they_lack(shapes, kind, old):
    new = kind if kind == PLAIN else added(kind)
    result = shapes(kind, new + SET_STATE.format(old=old))
    assert older(result) == [1, 2, 3]
    assert warned(result) == []


@pytest.mark.parametrize("kind", [TUPLE, FROZEN_SLOTS])
def test_fields_that_would_get_the_values_of_others_stop_the_topology(shapes, kind):
    with pytest.raises(TopologyFailed) as raised:
        shapes(kind, shifted(kind))
    assert str(raised.value).startswith(
        "bolt 'things', task 3: going on from the checkpoint: the fields of class shapes.Thing were"
        " 'a', 'b' when its values were written, and are 'a', 'c', 'b' now. Its values are kept by"
        " place, so fields would get the values of others. Put new fields at the end, with"
        " defaults, and leave the others where they are; or give the new class another name"
    )


def test_message_ids_are_values_too(shapes):
    with pytest.raises(TopologyFailed, match=r"spout 'source', task 2: .* class shapes.Thing were"):
        shapes(TUPLE, shifted(TUPLE), are_ids=True)


@pytest.mark.parametrize("kind", [TUPLE, FROZEN_SLOTS])
def test_a_field_may_have_another_name_in_its_place(shapes, kind):
    result = shapes(kind, kind.replace("b:", "c:"))
    assert older(result)[::2] == [1, 2]


def test_an_enum_may_have_more_members(shapes):
    result = shapes(ENUM, ENUM.replace("    B", '    C = "c"\n    B'))
    assert older(result) == ["none"] * 3
    assert result.state("things")["1"].value == "b"


def test_a_member_that_is_gone_stops_the_topology(shapes):
    with pytest.raises(TopologyFailed, match="'b' is not a valid Kind"):
        shapes(ENUM, ENUM.replace('    B = "b"', '    B = "c"'))
