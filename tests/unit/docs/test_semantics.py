"""What docs/semantics.md says of Fulmen where it differs from Storm."""

import pytest

from fulmen import BasicBolt, Bolt, FailedException, Spout, Stream, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, ManualClock, Message, run

HEARD = []


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()
    return HEARD


class Numbers(Spout):
    """Emits 0, 1, 2 with these as message ids, and tells what it hears."""

    outputs = ("n",)

    def __init__(self):
        self.n = 0

    def open(self, conf, context, collector):
        HEARD.append("open")
        self.collector = collector

    def activate(self):
        HEARD.append("activate")

    def next_tuple(self):
        if self.n < 3:
            self.collector.emit([self.n], msg_id=self.n)
            HEARD.append(f"emitted {self.n}")
            self.n += 1

    def ack(self, msg_id):
        HEARD.append(f"ack {msg_id}")

    def fail(self, msg_id, reason):
        HEARD.append(f"fail {msg_id}: {reason}")

    def is_exhausted(self):
        return self.n == 3


class Hears(BasicBolt):
    def execute(self, tup, collector):
        HEARD.append("tick" if tup.is_tick() else f"executed {tup[0]}")


class Raises(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        collector.emit([tup[0]])
        raise ValueError("bad")


class Holds(Bolt):
    """Keeps every tuple, and acks all of them at the third."""

    def __init__(self):
        self.held = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.held.append(tup)
        if len(self.held) == 3:
            for one in self.held:
                self.collector.ack(one)
                self.collector.ack(one)
                self.collector.fail(one, "too late")
            self.held = []


def topology(spout, bolt=Hears, tasks=1, tick_seconds=None, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("spout", spout)
    declarer = builder.set_bolt("bolt", bolt, tasks).shuffle_grouping("spout")
    if tick_seconds:
        declarer.set_tick_seconds(tick_seconds)
    return builder


def test_acks_come_in_a_later_batch_than_the_emits():
    run(topology(Numbers), batches=1)
    emits, executes = [f"emitted {n}" for n in range(3)], [f"executed {n}" for n in range(3)]
    assert ["open", "activate", *emits, *executes] == HEARD
    HEARD.clear()
    run(topology(Numbers))
    assert HEARD[8:] == ["ack 0", "ack 1", "ack 2"]


def test_a_topology_that_starts_inactive_opens_its_spouts():
    run(topology(Numbers, state="Inactive"), batches=2)
    assert HEARD == ["open"]


def test_without_ackers_ack_is_called_inside_of_emit():
    result = run(topology(Numbers, ackers=0))
    assert HEARD[2:4] == ["ack 0", "emitted 0"]
    assert set(result.trees.values()) == {0}


class EmitsInOpen(Numbers):
    def open(self, conf, context, collector):
        collector.emit([0])


class EmitsInPrepare(Bolt):
    outputs = ("n",)

    def prepare(self, conf, context, collector):
        collector.emit([0])

    def execute(self, tup):
        pass


@pytest.mark.parametrize(
    "parts", [(EmitsInOpen,), (Numbers, EmitsInPrepare)], ids=["open", "prepare"]
)
def test_an_emit_before_the_first_batch_stops_the_topology(parts):
    with pytest.raises(TopologyFailed, match="outside of a callback"):
        run(topology(*parts))


class SourceIsAway(Numbers):
    def next_tuple(self):
        super().next_tuple()
        raise OSError("away")


def test_an_exception_in_next_tuple_ends_the_turn():
    result = run(topology(SourceIsAway), until=lambda result: result.trees["acked"] == 3)
    assert {error.message for error in result.errors} == {"next_tuple: OSError: away"}
    assert HEARD[2:5] == ["emitted 0", "executed 0", "ack 0"]
    with pytest.raises(TopologyFailed, match="OSError: away"):
        run(topology(SourceIsAway, on_error="crash"))


class CantHear(Numbers):
    def ack(self, msg_id):
        raise KeyError(msg_id)


def test_an_exception_in_another_method_of_a_spout_stops_the_topology():
    with pytest.raises(TopologyFailed, match="ack: KeyError: 0"):
        run(topology(CantHear))


def test_a_task_emits_no_more_than_max_spout_pending_in_a_batch():
    result = run(topology(ListSpout(range(10)), max_spout_pending=2), batches=4)
    # 8 as a rule; a turn that the machine holds up ends earlier.
    assert 4 <= result.report["components"]["spout"]["emitted"] <= 8


def test_a_second_ack_or_fail_changes_nothing():
    result = run(topology(Numbers, Holds))
    assert (result.trees["acked"], result.trees["failed"]) == (3, 0)


def test_kept_tuples_outlive_processes():
    result = run(topology(ListSpout([0, PAUSE, 1, PAUSE, ABORT, 2]), Holds))
    assert result.acked("spout") == [0, 2, 5]  # places in the list
    assert result.report["failed_attempts"] == 1


def test_an_exception_fails_the_tuple_and_what_was_emitted_is_sent():
    builder = topology(ListSpout([5], replays=False), Raises)
    builder.set_bolt("behind", CollectBolt).shuffle_grouping("bolt")
    result = run(builder)
    assert result.failed("spout") == [(0, "bolt 'bolt': execute: ValueError: bad")]
    assert result.collected("behind") == [[5]]


class Reports(BasicBolt):
    def execute(self, tup, collector):
        raise FailedException("no use")


def test_a_message_that_was_given_up_is_acked():
    builder = topology(ListSpout(["x"]), Reports, max_replays=2)
    builder.set_bolt("dead", CollectBolt).global_grouping("spout", "__dead_letters")
    result = run(builder)
    assert result.failed("spout") == [(0, "no use")] * 2
    assert result.collected("dead") == [["default", ["x"], 0, 2, "no use"]]
    assert result.acked("spout") == [0]


def test_a_tuple_that_is_directed_to_nobody_is_acked():
    stream = {"default": Stream(("x",), direct=True)}
    builder = TopologyBuilder()
    builder.set_spout("spout", ListSpout([Message(["x"], task=99)], streams=stream))
    builder.set_bolt("bolt", CollectBolt).direct_grouping("spout")
    result = run(builder)
    assert (result.acked("spout"), result.collected("bolt")) == ([0], [])


class Forgets(Bolt):
    def execute(self, tup):
        pass


def test_a_tree_times_out_in_the_first_batch_that_is_late_enough():
    clock, batch, longest_pause = ManualClock(), 0.5, 0.25
    forgetful = topology(ListSpout([0], replays=False), Forgets, message_timeout_seconds=5)
    timed_out = lambda result: result.trees["timed_out"] == 1  # noqa: E731
    run(forgetful, until=timed_out, clock=clock, batch_seconds=batch)
    assert 5 < clock.now - batch <= 5 + batch + longest_pause


def test_time_stands_still_while_a_topology_is_down():
    forgetful = topology(ListSpout([0], replays=False), Forgets, message_timeout_seconds=5)
    before = run(forgetful, batches=4, batch_seconds=1)
    later = ManualClock(1_000_000)
    after = run(forgetful, batches=1, clock=later, checkpoint=before.checkpoint)
    assert (after.trees["pending"], after.trees["timed_out"]) == (1, 0)


def test_pending_trees_outlive_their_ackers():
    holds = topology(ListSpout([0, 1, PAUSE, PAUSE, 2]), Holds)
    pending = run(holds, batches=2, ackers=2)
    assert pending.trees["pending"] == 2
    result = run(holds, ackers=3, checkpoint=pending.checkpoint)
    assert result.acked("spout") == [0, 1, 4]  # places in the list


def test_turning_acking_off_fails_what_is_pending():
    holds = topology(ListSpout([0, PAUSE, PAUSE], replays=False), Holds)
    pending = run(holds, batches=2)
    result = run(holds, batches=2, ackers=0, checkpoint=pending.checkpoint)
    assert result.failed("spout") == [(0, "acking was turned off")]


def test_ticks_come_last_and_once_in_a_batch():
    builder = topology(ListSpout([0, PAUSE, 1, 2]), tick_seconds=0.1)
    run(builder, batches=2, batch_seconds=1)
    assert HEARD == ["executed 0", "executed 1", "executed 2", "tick"]


def test_an_acker_counts_messages_before_they_are_combined():
    builder = topology(ListSpout(range(3)))
    builder.set_bolt("all", CollectBolt, 4).all_grouping("spout")
    result = run(builder)
    inits, acks = 3, 3 + 12
    assert result.report["components"]["__acker"]["executed"] == inits + acks


def test_a_spout_counts_timeouts_as_failed():
    forgetful = topology(ListSpout([0], replays=False), Forgets, message_timeout_seconds=5)
    result = run(forgetful, batches=9, batch_seconds=1)
    assert result.report["components"]["spout"]["failed"] == 1
    assert (result.trees["failed"], result.trees["timed_out"]) == (0, 1)
