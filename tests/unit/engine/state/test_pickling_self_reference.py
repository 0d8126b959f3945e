"""Fields that refer to what each process makes anew: the instance, its state, its collector."""

import os
import subprocess
import sys
import threading
from collections import defaultdict, deque
from unittest import mock

import pytest

from fulmen import BasicBolt, Bolt, TopologyBuilder
from fulmen.engine.state.pickling import Elsewhere, digest
from fulmen.errors import TopologyFailed
from fulmen.testing import ABORT, EOF, PAUSE, BoltHarness, ListSpout, run
from support.runs.bolt_runs import WHO

NUMBERS = [1, 2, PAUSE, 3, ABORT, 4, PAUSE, 5, EOF, 6, 7]


class Adder:
    """Adds to what its owner keeps."""

    def __init__(self, owner):
        self.owner = owner

    def add(self, number):
        self.owner.total += number
        self.owner.state["total"] = self.owner.state.get("total", 0) + number


class Methods(BasicBolt):
    def __init__(self):
        self.total = 0
        self.handlers = {"add": self.add}

    def add(self, number):
        Adder(self).add(number)

    def execute(self, tup, collector):
        self.handlers["add"](tup[0])


class MethodsOfPrepare(Methods):
    def __init__(self):
        self.total = 0

    def prepare(self, conf, context):
        self.handlers = {"add": self.add}


class Helped(BasicBolt):
    def __init__(self):
        self.total = 0
        self.helper = Adder(self)

    def execute(self, tup, collector):
        self.helper.add(tup[0])


class Window:
    """Keeps numbers, and sends what they come to."""

    def __init__(self, collector, state, context):
        self.collector, self.state, self.context = collector, state, context
        self.numbers = []

    def add(self, tup):
        self.numbers.append(tup[0])
        self.state["total"] = sum(self.numbers)
        self.collector.emit([sum(self.numbers)], anchors=tup)
        self.collector.ack(tup)


class Windowed(Bolt):
    outputs = ("sum",)

    def prepare(self, conf, context, collector):
        self.window = Window(collector, self.state, context)

    def execute(self, tup):
        self.window.add(tup)
        self.total = sum(self.window.numbers)


def both_runs(bolt):
    """What the numbers come to, and the result: up to EOF, and in the run that goes on from it."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout(NUMBERS))
    builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
    first = run(builder)
    return (15, first), (28, run(builder, checkpoint=first))


@pytest.mark.parametrize("bolt", [Methods, MethodsOfPrepare, Helped, Windowed])
def test_what_a_field_refers_to_is_that_of_the_new_process(bolt):
    for total, result in both_runs(bolt):
        assert result.state("bolt") == {"total": total}
        assert result.fields("bolt")["total"] == total
        assert result.errors == []


def test_who_only_looks_at_such_a_field_sees_what_it_refers_to():
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout([1]))
    builder.set_bolt("bolt", Methods).shuffle_grouping("numbers")
    [handler] = run(builder).fields("bolt")["handlers"].values()
    assert isinstance(handler, Elsewhere)
    assert repr(handler) == "<instance.add>"


# ---- containers that can't be pickled ------------------------------------------------------------


class Counting(BasicBolt):
    """Has a container that is made by a function of the test's."""

    def __init__(self, make):
        self.make = make

    def prepare(self, conf, context):
        self.counts = self.make()

    def execute(self, tup, collector):
        self.seen = tup[0]


def by_a_lambda():
    return defaultdict(lambda: 0)


def full():
    return defaultdict(lambda: 0, a=1)


def of_a_local_class():
    class Recent(deque):
        pass

    return Recent([1], 3)


def clients():
    return {"a": threading.Lock()}


def lock():
    return threading.Lock()


def plain():
    return defaultdict(int)


def errors_of(make):
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout([1, PAUSE, 2]))
    builder.set_bolt("bolt", Counting(make)).shuffle_grouping("numbers")
    return run(builder).errors


@pytest.mark.parametrize(
    ("make", "kind"),
    [(by_a_lambda, "defaultdict"), (full, "defaultdict"), (of_a_local_class, "Recent")],
)
def test_a_container_that_can_not_be_pickled_is_told_once(make, kind):
    [error] = errors_of(make)
    assert error.message == (
        f"field 'counts' is a {kind} that can't be pickled, so what is put into it would be lost"
        " with its process. Use one that can, such as defaultdict(int) for defaultdict(lambda: 0),"
        " or self.state; or name it in `transient` if it may be lost"
    )
    assert f"bolt {error.component!r}, task {error.task}" == WHO


@pytest.mark.parametrize("make", [clients, lock, plain])
def test_what_is_made_anew_in_prepare_is_not(make):
    assert errors_of(make) == []


def test_a_harness_tells_it_as_well():
    with BoltHarness(Counting(by_a_lambda), fields=["x"]) as bolt:
        bolt.restart()
        assert "field 'counts' is a defaultdict" in bolt.errors[0]


# ---- self.state ----------------------------------------------------------------------------------


class KeepsMethods(BasicBolt):
    """Has what it calls in `self.state`."""

    def __init__(self):
        self.total = 0

    def prepare(self, conf, context):
        if not self.state:
            self.state["method"] = self.add
            self.state["helper"] = Adder(self)

    def add(self, number):
        self.total += number

    def execute(self, tup, collector):
        self.state["method"](tup[0])
        self.state["helper"].add(tup[0])


def test_what_self_state_refers_to_is_kept_once():
    for total, result in both_runs(KeepsMethods):
        assert result.fields("bolt") == {"total": 2 * total}
        assert result.state("bolt")["total"] == total


def test_a_value_of_self_state_that_can_not_be_pickled_is_named():
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout([1]))
    builder.set_bolt("bolt", KeepsLocks).shuffle_grouping("numbers")
    with pytest.raises(TopologyFailed) as failure:
        run(builder)
    assert failure.value.reason == (
        f"{WHO}: pickling self.state: self.state['b'] can't be pickled (cannot pickle"
        " '_thread.lock' object)"
    )


class KeepsLocks(BasicBolt):
    def execute(self, tup, collector):
        self.state.update(a=1, b=threading.Lock(), c=2)


# ---- values that are compared --------------------------------------------------------------------

WORDS = frozenset(f"word {n}" for n in range(100))
COMPARED = """
from fulmen.engine.state.pickling import digest

class Words(set):
    pass

words = [f"word {n}" for n in range(100)]
for _ in range(2):
    words.reverse()
    nested = {"a": [set(words), frozenset(words)], "b": Words(words)}
    nested["c"] = {frozenset({word}) for word in words}
    print(digest(set(words), {}).hex(), digest(nested, {}).hex())
"""


@pytest.mark.slow
def test_equal_sets_are_equal_in_every_process():
    seen = set()
    for seed in "123":
        command = [sys.executable, "-c", COMPARED]
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        seen.update(done.stdout.splitlines())
    assert len(seen) == 1
    assert digest(set(WORDS), {}).hex() in seen.pop()
    assert digest(set(WORDS), {}) != digest(set(WORDS) - {"word 7"}, {})
    assert digest(set(WORDS), {}) != digest(WORDS, {})


class KeepsWords(BasicBolt):
    def prepare(self, conf, context):
        self.words = set(WORDS)

    def execute(self, tup, collector):
        self.words.add(tup[0])


def test_a_set_that_prepare_makes_keeps_what_was_added():
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout([1, EOF, 2]))
    builder.set_bolt("bolt", KeepsWords).shuffle_grouping("numbers")
    first = run(builder)
    with mock.patch(f"{__name__}.WORDS", frozenset(sorted(WORDS, key=hash, reverse=True))):
        assert run(builder, checkpoint=first).fields("bolt")["words"] == WORDS | {1, 2}


# ---- what can't be pickled for a while -----------------------------------------------------------


class Opens(BasicBolt):
    """Has a connection in one batch, and a list in the next."""

    def __init__(self):
        self.source = None

    def execute(self, tup, collector):
        self.source = threading.Lock() if tup[0] == "open" else [tup[0]]


def test_a_field_that_can_be_pickled_again_is_kept():
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout(["open", PAUSE, 1, ABORT, PAUSE, EOF]))
    builder.set_bolt("bolt", Opens).shuffle_grouping("numbers")
    result = run(builder)
    assert result.fields("bolt") == {"source": [1]}
    assert result.errors == []
