"""Methods that can't be called as Fulmen calls them."""

import functools

import pytest

from fulmen import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Spout,
    TopologyBuilder,
)
from fulmen.testing import run
from fulmen.topology.validation.check import check
from support.cli.documents import word_count
from support.parts.components import ByWeight, Count, Sentences

ME = f"{__name__}."
SPOUT, BOLT = "spec.spouts.0.class", "spec.bolts.1.class"


def problems_of(place, cls):
    """What validation says about the class, without where that is."""
    found = [str(problem) for problem in check(word_count({place: ME + cls.__name__})).problems]
    who = {
        SPOUT: "spec.spouts[0].class: spout 'sentences': ",
        BOLT: "spec.bolts[1].class: bolt 'count': ",
    }[place]
    assert all(text.startswith(who + ME) for text in found)
    return [text.removeprefix(who + ME) for text in found]


class AsyncArrowBolt(ArrowBolt):
    async def execute(self, batch, collector):
        pass


class AsyncGenerator(BasicBolt):
    async def execute(self, tup, collector):
        yield tup


class AsyncSpout(Spout):
    outputs = ("sentence",)

    async def next_tuple(self):
        pass


class Generator(BasicBolt):
    def execute(self, tup, collector):
        yield [tup[0]]


class OfABolt(BasicBolt):
    def execute(self, tup):
        pass


class OfABasicBolt(Bolt):
    def prepare(self, conf, context):
        pass

    def execute(self, tup):
        pass


class WithoutSelf(Bolt):
    def execute(tup):
        pass


class TooMuch(ArrowBolt):
    def execute(self, batch, collector, source):
        pass


class TwoMistakes(Sentences):
    def ack(self):
        pass

    def is_exhausted(self, now):
        return False


class FailOfNothing(Sentences):
    def fail(self):
        pass


@pytest.mark.parametrize(
    ("place", "cls", "expected"),
    [
        (BOLT, AsyncArrowBolt, ["execute is async, so a call of it would run nothing. "
                                "Write def execute(self, batch, collector) without it."]),
        (BOLT, AsyncGenerator, ["execute is async, so a call of it would run nothing. "
                                "Write def execute(self, tup, collector) without it."]),
        (SPOUT, AsyncSpout, ["next_tuple is async, so a call of it would run nothing. "
                             "Write def next_tuple(self) without it."]),
        (BOLT, Generator, ["execute has a yield, so a call of it would run nothing. "
                           "Write def execute(self, tup, collector) without it."]),
        (BOLT, OfABolt, ["execute can't be called with (tup, collector). "
                         "Write def execute(self, tup, collector)."]),
        (BOLT, OfABasicBolt, ["prepare can't be called with (conf, context, collector). "
                              "Write def prepare(self, conf, context, collector)."]),
        (BOLT, WithoutSelf, ["execute can't be called with (tup). Write def execute(self, tup)."]),
        (BOLT, TooMuch, ["execute can't be called with (batch, collector). "
                         "Write def execute(self, batch, collector)."]),
        (SPOUT, TwoMistakes, ["ack can't be called with (msg_id). Write def ack(self, msg_id).",
                              "is_exhausted can't be called with no arguments. "
                              "Write def is_exhausted(self)."]),
        (SPOUT, FailOfNothing, ["fail can't be called with (msg_id, reason). "
                                "Write def fail(self, msg_id, reason)."]),
    ],
)  # fmt: skip
def test_a_method_that_can_not_be_called_is_a_mistake(place, cls, expected):
    assert problems_of(place, cls) == [f"{cls.__name__}.{text}" for text in expected]


# ---- what is no mistake --------------------------------------------------------------------------


def timed(method):
    """Hands its arguments on, whatever they are."""

    @functools.wraps(method)
    def wrapper(*args):
        return method(*args)

    return wrapper


def with_batch_size(method):
    """Hands on more than it is given: it says to be called like the method, but is not."""

    @functools.wraps(method)
    def wrapper(self, tup):
        return method(self, tup, 100)

    return wrapper


class StormFail(Sentences):
    def fail(self, msg_id):
        pass


class Decorated(Bolt):
    @timed
    def prepare(self, conf, context, collector):
        pass

    @with_batch_size
    def execute(self, tup, batch_size):
        pass


class Defaults(Bolt):
    def prepare(self, conf, context, collector, clock=None):
        pass

    def execute(self, tup, *, retries=3, **options):
        pass

    def cleanup(self, *args):
        pass


class Renamed(Bolt):
    def execute(this, message):
        pass


class Static(Bolt):
    @staticmethod
    def execute(tup):
        pass


class Own(Count):
    """Methods that Fulmen doesn't call may be anything."""

    async def look_up(self, key):
        pass

    def words(self, line):
        yield line


class Connected(Bolt):
    """Is what `prepare` makes: until then there is nothing to look at."""

    def prepare(self, conf, context, collector):
        self.connection = print

    @property
    def execute(self):
        return self.connection


class Columns(ArrowSpout):
    outputs = ("sentence",)

    def open(self, conf, context, collector):
        pass

    def next_tuple(self):
        pass

    def ack_batch(self, msg_ids):
        pass


@pytest.mark.parametrize(
    ("place", "cls"),
    [
        (SPOUT, StormFail),
        (BOLT, Decorated),
        (BOLT, Defaults),
        (BOLT, Renamed),
        (BOLT, Static),
        (BOLT, Own),
        (SPOUT, Columns),
        (BOLT, Connected),
    ],
)
def test_what_can_be_called_is_no_mistake(place, cls):
    assert problems_of(place, cls) == []


def test_a_decorator_that_takes_too_little_is_a_mistake_whatever_it_wraps():
    assert problems_of(BOLT, NarrowlyDecorated) == [
        "NarrowlyDecorated.execute can't be called with (tup, collector). "
        "Write def execute(self, tup, collector)."
    ]


class NarrowlyDecorated(BasicBolt):
    @with_batch_size
    def execute(self, tup, collector):
        pass


class Fails(BasicBolt):
    def execute(self, tup, collector):
        raise ValueError("no")


def reason_of(spout):
    b = TopologyBuilder("t")
    b.set_spout("source", spout)
    b.set_bolt("bolt", Fails).shuffle_grouping("source")
    return run(b).fields("source")["heard"]


class Once(Spout):
    outputs = ("sentence",)

    def open(self, conf, context, collector):
        self.collector, self.is_done = collector, False

    def next_tuple(self):
        if not self.is_done:
            self.is_done = True
            self.collector.emit([1], msg_id=1)

    def is_exhausted(self):
        return self.is_done


class FailWithDelay(Once):
    def fail(self, msg_id, delay=0.5):
        self.heard = delay


class FailWithReason(Once):
    def fail(self, msg_id, reason="none"):
        self.heard = reason


class FailWithWhy(Once):
    def fail(self, msg_id, why):
        self.heard = why


class FailWithAll(Once):
    def fail(self, msg_id, *args):
        (self.heard,) = args


class FailWithOption(Once):
    def fail(self, msg_id, *, delay=0.5):
        self.heard = delay


class FailDecorated(Once):
    @timed
    def fail(self, msg_id, delay=0.5):
        self.heard = delay


WHY = "bolt 'bolt': execute: ValueError: no"
WITHOUT_REASON = (
    "fail is called without the reason: its argument 'delay' has a default, and another name. "
    "Call it reason, or write def fail(self, msg_id, *, delay=...) if it is none."
)


@pytest.mark.parametrize(
    ("cls", "heard", "told"),
    [
        (FailWithDelay, 0.5, [WITHOUT_REASON]),
        (FailWithReason, WHY, []),
        (FailWithWhy, WHY, []),
        (FailWithAll, WHY, []),
        (FailWithOption, 0.5, []),
        (FailDecorated, 0.5, [WITHOUT_REASON]),
    ],
)
def test_fail_gets_the_reason_in_the_argument_that_is_for_it(cls, heard, told):
    assert problems_of(SPOUT, cls) == [f"{cls.__name__}.{text}" for text in told]
    assert reason_of(cls) == heard


# ---- groupings -----------------------------------------------------------------------------------


class ByValues(CustomStreamGrouping):
    def choose_tasks(self, values):
        return []


class OneByOne(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        yield self.tasks[0]


class Async(CustomStreamGrouping):
    async def choose_tasks(self, task_id, values):
        return []


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (ByWeight, []),
        (OneByOne, []),
        (
            Async,
            [
                "spec.bolts[0].inputs[0].grouping.class: bolt 'split', input from 'sentences': "
                f"{ME}Async.choose_tasks is async, so a call of it would run nothing. "
                "Write def choose_tasks(self, task_id, values) without it."
            ],
        ),
        (
            ByValues,
            [
                "spec.bolts[0].inputs[0].grouping.class: bolt 'split', input from 'sentences': "
                f"{ME}ByValues.choose_tasks can't be called with (task_id, values). "
                "Write def choose_tasks(self, task_id, values)."
            ],
        ),
    ],
)
def test_a_grouping_that_can_not_be_called_is_a_mistake(cls, expected):
    grouping = {"type": "custom", "class": f"{cls.__module__}.{cls.__name__}"}
    changes = {"spec.bolts.0.inputs.0.grouping": grouping}
    assert [str(problem) for problem in check(word_count(changes)).problems] == expected
