"""What can be pickled and not unpickled is found when it is written, and told with its place."""

import sys
import threading

import numpy as np
import pytest

from fulmen import BasicBolt, Bolt, Spout, TopologyBuilder
from fulmen.engine.state import pickling
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.errors import StateError, TopologyFailed
from fulmen.testing import ListSpout, run
from support.runs.engine_runs import Kept


class Refused(Exception):
    """As authors write them: pickle calls it with its one text."""

    def __init__(self, order, why):
        super().__init__(f"order {order}: {why}")


class Key(str):
    """A text whose __new__ wants two arguments."""

    def __new__(cls, shop, number):
        return super().__new__(cls, f"{shop}/{number}")


class Restored:
    """Can be read as long as it has few attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __setstate__(self, state):
        if len(state) > 1:
            raise ValueError("too many attributes")
        self.__dict__.update(state)


class Counted:
    """Counts how often it was read."""

    read = 0

    def __init__(self):
        self.n = 1

    def __setstate__(self, state):
        type(self).read += 1


def refused():
    return Refused(1, "no stock")


WHY = (
    "it can be pickled, but not unpickled again: TypeError: Refused.__init__() missing 1 required"
    " positional argument: 'why'. Keep plain values in its place, or give its class a __reduce__"
    " with the arguments that its __init__ or __new__ needs"
)
WHY_KEY = WHY.replace("Refused.__init__", "Key.__new__").replace("'why'", "'number'")


def test_a_value_of_the_state_that_can_not_be_read_again_is_refused():
    state = KeyedState()
    state["x"] = [1, {"problem": refused()}]
    with pytest.raises(StateError) as error:
        state.updates(1)
    assert str(error.value) == f"self.state['x'] can't be kept ({WHY})"


def test_a_key_of_the_state_that_can_not_be_read_again_is_refused():
    state = KeyedState()
    state[Key("a", 1)] = 1
    with pytest.raises(StateError) as error:
        state.updates(1)
    assert str(error.value) == f"the key 'a/1' of self.state can't be kept ({WHY_KEY})"


def test_a_message_id_that_can_not_be_read_again_is_refused():
    pending = PendingMessages()
    pending.add(0, [1, ("a", Key("a", 1))])
    with pytest.raises(StateError) as error:
        pending.record(1)
    assert str(error.value) == f"message id ('a', 'a/1') can't be kept ({WHY_KEY})"


def test_an_object_of_another_shape_is_read_again():
    state, kept = KeyedState(), Kept()
    state["few"] = Restored(a=1)
    kept.add(1, state.updates(1))
    state["many"] = Restored(a=1, b=2)
    with pytest.raises(StateError, match="too many attributes"):
        state.updates(2)


class Exits:
    """Ends its process when it is written, or when it is read again."""

    def __init__(self, where):
        self.where = where

    def __getstate__(self):
        return sys.exit(3) if self.where == "written" else {"where": self.where}

    def __setstate__(self, state):
        sys.exit(3)


@pytest.mark.parametrize("where", ["written", "read"])
def test_a_value_that_ends_its_process_is_refused_with_its_place(where):
    state = KeyedState()
    state["x"] = [Exits(where)]
    with pytest.raises(StateError, match=r"self.state\['x'\] can't be .*SystemExit: 3|\(3\)"):
        state.updates(1)
    pending = PendingMessages()
    pending.add(0, [Exits("read")])
    with pytest.raises(StateError, match=r"message id .* can't be kept .*SystemExit: 3"):
        pending.record(1)


def test_objects_are_read_again_once():
    Counted.read = 0
    state, kept = KeyedState(), Kept()
    for number in range(1, 5):
        state[number] = [Counted() for _ in range(number)]
        kept.add(number, state.updates(number))
    assert Counted.read == 1


def test_what_the_instance_is_given_is_there_when_a_value_is_read_again():
    assert pickling.dumps(np.arange(3), {})


class Source(Spout):
    outputs = ("v",)

    def __init__(self):
        self.left = 3

    def open(self, conf, context, collector):
        self.collector, self.conf = collector, conf

    def next_tuple(self):
        if self.left:
            self.left -= 1
            value = refused() if self.conf["where"] == "kept tuple" else 1
            key = Key("a", self.left) if self.conf["where"] == "message id" else self.left
            self.collector.emit([value], msg_id=key)

    def is_exhausted(self):
        return not self.left


class Keep(Bolt):
    def __init__(self):
        self.kept = []

    def prepare(self, conf, context, collector):
        self.where, self.collector = conf["where"], collector
        if conf["where"] == "field of prepare":
            self.problem = refused()

    def execute(self, tup):
        self.kept.append(tup)
        if self.where == "value":
            self.state["x"] = refused()
        if self.where == "key":
            self.state[Key("a", 1)] = 1
        if self.where == "field":
            self.problem = refused()


def keeping(where):
    builder = TopologyBuilder("t", message_timeout_seconds=600, config={"where": where})
    builder.set_spout("source", Source)
    builder.set_bolt("keep", Keep).shuffle_grouping("source")
    return builder


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("value", "bolt 'keep', task 2: pickling self.state: self.state['x'] can't be kept"),
        ("key", "bolt 'keep', task 2: pickling self.state: the key 'a/1' of self.state can't"),
        ("kept tuple", "bolt 'keep', task 2: pickling its fields: field 'kept' can't be kept"),
        ("message id", "spout 'source', task 3: pickling its message ids: message id 'a/2' can't"),
    ],
)
def test_a_topology_stops_before_it_commits_what_it_could_not_go_on_from(where, what):
    with pytest.raises(TopologyFailed) as failure:
        run(keeping(where), batches=6)
    assert what in failure.value.reason
    assert "not unpickled again: TypeError" in failure.value.reason


@pytest.mark.parametrize("where", ["field", "field of prepare"])
def test_a_field_that_can_not_be_read_again_is_left_out_with_a_warning(where):
    first = run(keeping(where), batches=6)
    assert "problem" not in first.fields("keep")
    told = [error.message for error in first.errors]
    text = "field 'problem' can't be pickled (it can be pickled, but not unpickled again"
    assert any(text in message for message in told) == (where == "field")
    run(keeping(where), checkpoint=first, batches=2)


class Late(BasicBolt):
    """Makes a value in a field that was None: data, or what it connects to."""

    def __init__(self):
        self.problem = self.lock = None

    def execute(self, tup, collector):
        self.problem, self.lock = refused(), threading.Lock()
        self.total = 1


def test_a_value_in_a_field_that_was_none_is_told_if_it_can_be_written_and_not_be_read():
    builder = TopologyBuilder("t")
    builder.set_spout("source", ListSpout(["a"]))
    builder.set_bolt("late", Late).shuffle_grouping("source")
    result = run(builder)
    assert result.fields("late") == {"total": 1}
    [told] = [error.message for error in result.errors]
    assert "field 'problem' can't be pickled (it can be pickled, but not unpickled again" in told
