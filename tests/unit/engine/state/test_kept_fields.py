"""Fields and `self.state` that can't be kept in the checkpoint: what is told, and what stops."""

import threading

import pytest

from fulmen import Bolt, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import EOF, BoltHarness, ListSpout, run
from support.parts.hooks import (
    HookArrowBolt,
    HookBasicBolt,
    HookBolt,
    Topology,
    messages,
    with_bolt,
)
from support.runs.bolt_runs import WHO

LOCK = "cannot pickle '_thread.lock' object"


def stopped(execute, items=(1,), **options):
    """Why a topology stopped."""
    with pytest.raises(TopologyFailed) as failure:
        with_bolt(execute, items, **options)
    return failure.value.reason


# ---- fields --------------------------------------------------------------------------------------


def test_a_field_of_the_checkpoint_that_gets_what_can_not_be_pickled_stops_the_topology():
    def prepare(bolt):
        bolt.cache = {}

    def execute(bolt, tup):
        bolt.cache[tup["x"]] = threading.Lock()
        bolt.collector.ack(tup)

    assert stopped(execute, prepare=prepare) == (
        f"{WHO}: pickling its fields: field 'cache' can't be pickled any more ({LOCK}): what it"
        " held is in the checkpoint, and would be lost with its process. Keep only values in it"
        " that can be pickled, or name it in `transient` if it may be lost"
    )


def test_nothing_of_such_a_batch_is_committed():
    def prepare(bolt):
        bolt.cache = {}

    def execute(bolt, tup):
        bolt.cache[tup["x"]] = threading.Lock() if tup["x"] == "lock" else 1
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, ["a", EOF, "lock"])
    first = topology.run(functions={"execute": execute, "prepare": prepare})
    with pytest.raises(TopologyFailed, match="field 'cache'"):
        run(topology.builder, checkpoint=first.checkpoint)
    assert first.fields("bolt")["cache"] == {"a": 1}


def open_it(bolt, tup):
    if bolt.connection is None:
        bolt.connection = threading.Lock()
    bolt.total = 1
    bolt.collector.ack(tup)


def test_a_field_that_is_none_after_prepare_may_become_a_connection():
    def prepare(bolt):
        bolt.connection = None

    result = with_bolt(open_it, [1, 2], prepare=prepare)
    assert messages(result) == []
    assert result.fields("bolt") == {"total": 1}
    assert result.acked("source") == [0, 1]


def test_a_field_that_is_none_after_prepare_is_kept_once_it_is_in_the_checkpoint():
    def prepare(bolt):
        bolt.window = None

    def execute(bolt, tup):
        bolt.window = tup["x"] if tup["x"] != "lock" else threading.Lock()
        bolt.collector.ack(tup)

    stopped_by = "field 'window' can't be pickled any more"
    topology = Topology(HookBolt, ["a", EOF, "lock"])
    first = topology.run(functions={"execute": execute, "prepare": prepare})
    assert first.fields("bolt")["window"] == "a"
    with pytest.raises(TopologyFailed, match=stopped_by):  # in another process
        run(topology.builder, checkpoint=first.checkpoint)
    assert stopped_by in stopped(execute, ["a", "lock"], prepare=prepare, max_spout_pending=1)


def test_what_can_not_be_pickled_in_prepare_is_left_out():
    def prepare(bolt):
        bolt.connection = threading.Lock()

    result = with_bolt(open_it, prepare=prepare)
    assert messages(result) == []
    assert result.fields("bolt") == {"total": 1}


def test_what_can_not_be_pickled_and_comes_later_is_told():
    def execute(bolt, tup):
        bolt.model = threading.Lock()
        bolt.collector.ack(tup)

    result = with_bolt(execute)
    [message] = messages(result)
    assert message.startswith(f"field 'model' can't be pickled ({LOCK}) and is not set before")
    assert result.acked("source") == [0]


def test_a_field_that_could_not_be_pickled_is_kept_as_soon_as_it_can_be():
    def execute(bolt, tup):
        bolt.model = threading.Lock() if tup["x"] == "lock" else tup["x"]
        bolt.collector.ack(tup)

    result = with_bolt(execute, ["lock", "a"], max_spout_pending=1)
    assert result.fields("bolt") == {"model": "a"}


class Transient(HookBolt):
    transient = ("cache",)


def test_a_transient_field_may_hold_anything():
    def prepare(bolt):
        bolt.cache = {}

    def execute(bolt, tup):
        bolt.cache["lock"] = threading.Lock()
        bolt.collector.ack(tup)

    result = with_bolt(execute, kind=Transient, prepare=prepare)
    assert (messages(result), result.acked("source")) == ([], [0])


@pytest.mark.parametrize("value", [None, 0, "new"])
@pytest.mark.parametrize("looks_first", [False, True])
def test_a_field_that_has_become_transient_is_not_restored(value, looks_first):
    def prepare(bolt):
        if not looks_first or not hasattr(bolt, "cache"):
            bolt.cache = value

    def execute(bolt, tup):
        bolt.seen = [*getattr(bolt, "seen", []), (tup["x"], bolt.cache)]
        bolt.cache = "old"
        bolt.collector.ack(tup)

    functions = {"execute": execute, "prepare": prepare}
    first = Topology(HookBolt, [1, EOF, 2]).run(functions=functions)
    assert first.fields("bolt")["cache"] == "old"
    topology = Topology(Transient, [1, EOF, 2])
    second = topology.run(functions=functions, checkpoint=first.checkpoint)
    assert second.fields("bolt")["seen"] == [(1, value), (2, value)]
    assert "cache" not in second.fields("bolt")


# ---- self.state ----------------------------------------------------------------------------------

ASSIGNED = (
    "looking at self.state: self.state was assigned, or filled in __init__, but it is what Fulmen"
    " keeps in the checkpoint: change its items later, as in self.state[key] = value, or give the"
    " field another name"
)


def count(bolt, tup):
    bolt.state[tup["x"]] = bolt.state.get(tup["x"], 0) + 1
    bolt.collector.ack(tup)


def test_an_empty_state_in_prepare_keeps_what_was_restored():
    def prepare(bolt):
        bolt.state = {}

    topology = Topology(HookBolt, ["a", "a", EOF, "a", "b"])
    first = topology.run(functions={"execute": count, "prepare": prepare})
    assert first.state("bolt") == {"a": 2}
    assert run(topology.builder, checkpoint=first.checkpoint).state("bolt") == {"a": 3, "b": 1}


def test_a_state_that_is_filled_in_prepare_is_kept():
    result = with_bolt(count, ["a"], prepare=lambda bolt: bolt.state.update(begun=1))
    assert result.state("bolt") == {"begun": 1, "a": 1}


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt, HookArrowBolt])
@pytest.mark.parametrize("value", [{}, {"a": 1}, None])
def test_a_state_that_is_assigned_in_execute_stops_the_topology(kind, value):
    def execute(bolt, *args):
        bolt.state = value

    assert stopped(execute, kind=kind) == f"{WHO}: {ASSIGNED}"


def test_a_state_that_is_assigned_in_prepare_with_something_in_it_stops_the_topology():
    def prepare(bolt):
        bolt.state = {"a": 1}

    assert stopped(count, prepare=prepare) == f"{WHO}: {ASSIGNED}"


class Empty(Bolt):
    def __init__(self):
        self.state = {}

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.state[tup[0]] = self.state.get(tup[0], 0) + 1
        self.collector.ack(tup)


class Filled(Empty):
    def __init__(self):
        self.state = {}
        self.state["x"] = 1


def of_class(bolt):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(["a"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    return builder


def test_a_state_that_is_filled_in_init_stops_the_topology():
    with pytest.raises(TopologyFailed) as failure:
        run(of_class(Filled))
    assert failure.value.reason == f"{WHO}: {ASSIGNED}"


def test_an_empty_one_in_init_is_the_state():
    assert run(of_class(Empty)).state("bolt") == {"a": 1}


def test_a_state_that_is_deleted_is_still_there():
    def execute(bolt, tup):
        bolt.state["a"] = 1
        del bolt.state
        bolt.collector.ack(tup)

    assert with_bolt(execute).state("bolt") == {"a": 1}


def test_a_harness_looks_at_the_state_as_well():
    with BoltHarness(Empty, fields=["x"]) as bolt:
        bolt.execute(["a"])
        assert bolt.state == {"a": 1}
        bolt.restart()
        bolt.execute(["a"])
        assert bolt.state == {"a": 2}
        bolt.bolt.state = {}
        with pytest.raises(Exception, match=r"^self\.state was assigned"):
            bolt.execute(["a"])
    with pytest.raises(Exception, match=r"^self\.state was assigned"):
        BoltHarness(Filled)
