"""Objects whose own methods raise, or that are nested deeply: only their tuple fails.

Each topology sends six tuples to another worker; the third has the object in it.
"""

import pytest

from fulmen import BasicBolt, Bolt, FailedException, Spout, TopologyBuilder
from fulmen.errors import error_text, repr_of, text_of
from fulmen.testing import run
from support.parts.hooks import HookBasicBolt, HookSpout, hooks
from support.parts.hostile import Hostile, HostileList, Unsayable, nested
from support.runs.engine_runs import make_driver

TUPLES, BAD = 6, 3


class Source(Spout):
    outputs = ("value",)
    made = None

    def __init__(self):
        self.number = 0
        self.ends = {}

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.number < TUPLES:
            self.number += 1
            value = Source.made() if self.number == BAD else self.number
            self.collector.emit([value], msg_id=self.number)

    def ack(self, msg_id):
        self.ends[msg_id] = "acked"

    def fail(self, msg_id, reason):
        self.ends[msg_id] = reason


class Pass(BasicBolt):
    outputs = ("value",)

    def execute(self, tup, collector):
        collector.emit(tup.values)


class Raise(BasicBolt):
    outputs = ("value",)
    error = None

    def execute(self, tup, collector):
        if tup["value"] == BAD:
            raise Raise.error()


class Refuse(Bolt):
    """Fails a tuple with a reason that is no text."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup["value"] == BAD:
            self.collector.fail(tup, Hostile())
        else:
            self.collector.ack(tup)


def ends(made=lambda: BAD, grouping="shuffle", bolt=Pass):
    """How the messages end, and what is reported."""
    Source.made = staticmethod(made)
    builder = TopologyBuilder("hostile", workers=2)
    builder.set_spout("source", Source)
    declarer = builder.set_bolt("bolt", bolt, 2)
    if grouping == "shuffle":
        declarer.shuffle_grouping("source")
    elif grouping == "fields":
        declarer.fields_grouping("source", ["value"])
    else:
        declarer.partial_key_grouping("source", ["value"])
    driver = make_driver(builder).start()
    for _ in range(12):
        assert driver.step()
    (tasks,) = (t for w in driver.jobs._workers for t in w._tasks.values() if t._spouts)
    (spout,) = tasks._spouts
    found = dict(spout.instance.ends)
    driver.close()
    return found


def check(found, *words):
    assert {m for m, end in found.items() if end == "acked"} == set(range(1, TUPLES + 1)) - {BAD}
    for word in words:
        assert word in found[BAD]


@pytest.mark.parametrize("grouping", ["shuffle", "fields", "partial-key"])
@pytest.mark.parametrize("made", [Hostile, lambda: HostileList([1])])
def test_an_object_whose_methods_raise_fails_its_tuple_alone(made, grouping):
    found = ends(made, grouping)
    if grouping == "shuffle" or made is Hostile:
        check(found, "RuntimeError" if grouping != "shuffle" else "can't be pickled (no)")
    else:
        check(found)


@pytest.mark.parametrize("mapping", [False, True])
@pytest.mark.parametrize("grouping", ["shuffle", "fields", "partial-key"])
def test_a_value_that_is_nested_too_deeply_fails_its_tuple_and_says_so(mapping, grouping):
    found = ends(lambda: nested(3000, mapping), grouping)
    if grouping == "shuffle":
        check(found, "can't be pickled (maximum recursion depth exceeded")
    else:
        check(found, "no task can be chosen by a value of type")


@pytest.mark.parametrize("mapping", [False, True])
def test_a_value_that_is_nested_as_deeply_as_json_can_be_arrives(mapping):
    assert set(ends(lambda: nested(1024, mapping)).values()) == {"acked"}


@pytest.mark.parametrize("error", [Unsayable, type("Failed", (FailedException, Unsayable), {})])
def test_an_exception_that_can_not_be_printed_fails_its_tuple_alone(error):
    Raise.error = error
    check(ends(bolt=Raise), f"<{error.__qualname__}, whose __str__ raised RuntimeError>")


class Incomparable:
    """A message id that can't be compared, not even with None."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        raise AttributeError("no")


def test_message_ids_that_can_not_be_compared_are_acked_and_failed_as_any():
    ends, bad = [], (BAD, BAD + 1)

    def next_tuple(spout):
        spout.number = getattr(spout, "number", 0) + 1
        if spout.number <= 2 * TUPLES:  # each twice; some fail at first
            number = 1 + (spout.number - 1) % TUPLES
            spout.collector.emit([spout.number], msg_id=Incomparable(number))

    def execute(bolt, tup, collector):
        if tup["x"] in bad:
            raise FailedException("not yet")

    functions = {
        "next_tuple": next_tuple,
        "ack": lambda spout, msg_id: ends.append((msg_id.number, "acked")),
        "fail": lambda spout, msg_id, _: ends.append((msg_id.number, "failed")),
    }
    builder = TopologyBuilder("incomparable", max_spout_pending=1)
    builder.set_spout("source", HookSpout).set_config(hooks(**functions))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source")
    run(builder)
    numbers = range(1, TUPLES + 1)
    assert ends == [(n, "failed" if n in bad else "acked") for n in numbers] + [
        (n, "acked") for n in numbers
    ]


def test_a_reason_whose_methods_raise_fails_its_tuple_all_the_same():
    check(ends(bolt=Refuse), "<Hostile, whose __str__ raised RuntimeError>")


def test_what_an_object_says_about_itself_never_raises():
    assert text_of(Hostile()) == "<Hostile, whose __str__ raised RuntimeError>"
    assert repr_of(Hostile()) == "<Hostile, whose __repr__ raised RuntimeError>"
    assert error_text(Unsayable()) == "Unsayable: <Unsayable, whose __str__ raised RuntimeError>"
    assert error_text(ValueError("a")) == "ValueError: a"
    assert error_text(ValueError()) == "ValueError"
    assert len(repr_of("x" * 1000)) == 200
