"""Spouts with `backoff`: when they hear of failures, in a running topology."""

from itertools import pairwise

import pytest

from fulmen import BasicBolt, FailedException, Spout, TopologyBuilder
from fulmen.testing import CollectBolt, ManualClock, run


class Numbers(Spout):
    """Emits numbers, and again those that fail; notes when."""

    outputs = ("n",)
    backoff = True
    clock = ManualClock()

    def __init__(self, count=3):
        self.count, self.at, self.again, self.heard = count, 0, [], []

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.again:
            n = self.again.pop(0)
        elif self.at < self.count:
            n, self.at = self.at, self.at + 1
        else:
            return False
        self.collector.emit([n], msg_id=n)
        return True

    def fail(self, msg_id, reason):
        self.heard.append((msg_id, round(type(self).clock(), 3), reason))
        self.again.append(msg_id)

    def is_exhausted(self):
        return self.at == self.count and not self.again


class Pinned(Numbers):
    pinned = True


class AtOnce(Numbers):
    backoff = False


class Refuses(BasicBolt):
    """Fails the number 1 so many times, or for ever."""

    outputs = ("n",)

    def __init__(self, times=10**9):
        self.left = times

    def execute(self, tup, collector):
        if tup["n"] == 1 and self.left:
            self.left -= 1
            raise FailedException("not 1")
        collector.emit([tup["n"]])


def topology(times, count=3, spout=Numbers, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", spout(count))
    builder.set_bolt("refuses", Refuses(times)).shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("refuses")
    return builder


@pytest.fixture
def clock():
    Numbers.clock = ManualClock()
    return Numbers.clock


@pytest.mark.parametrize("spout", [Numbers, Pinned])
def test_the_pauses_of_a_message_grow(clock, spout):
    result = run(topology(5, spout=spout), clock=clock)
    heard = [moment for _, moment, _ in result.fields("source")["heard"]]
    pauses = [later - earlier for earlier, later in pairwise(heard)]
    assert len(pauses) == 4
    for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert least <= pause <= least + 0.15
    assert sorted(n for [n] in result.collected("sink")) == [0, 1, 2]


def test_failures_before_an_ack_are_forgotten(clock):
    """The same message id comes twice, and fails once each time: it is no dead letter."""
    builder = topology(0, spout=Twice, max_replays=2)
    builder.set_bolt("first", FailsFirst).shuffle_grouping("source")
    result = run(builder, clock=clock)
    assert result.fields("source")["acks"] == 2
    assert result.trees["dead_lettered"] == 0


class Twice(Numbers):
    """Emits one message, and once more when it is acked."""

    def __init__(self, count):
        super().__init__(1)
        self.acks = 0

    def ack(self, msg_id):
        self.acks += 1
        if self.acks < 2:
            self.again.append(msg_id)

    def is_exhausted(self):
        return self.acks == 2


class FailsFirst(BasicBolt):
    """Fails each other tuple."""

    def __init__(self):
        self.seen = 0

    def execute(self, tup, collector):
        self.seen += 1
        if self.seen % 2:
            raise FailedException("the first of two")


def test_a_topology_is_not_drained_while_a_message_rests(clock):
    result = run(topology(12), clock=clock)
    assert sorted(n for [n] in result.collected("sink")) == [0, 1, 2]
    assert clock() > 30


def test_a_message_rests_on_after_a_restart(clock):
    builder = topology(10**9)
    result = run(builder, clock=clock, until=lambda r: len(heard_of(r)) >= 5)
    at, before = clock(), len(heard_of(result))
    result = run(builder, clock=clock, checkpoint=result, until=lambda r: len(heard_of(r)) > before)
    assert clock() - at > 0.5  # the sixth pause is 1.6 s long


def heard_of(result):
    try:
        return result.fields("source")["heard"]
    except (KeyError, ValueError):
        return []


def test_new_messages_go_first(clock):
    """Of 20,000 messages each tenth fails for ever: the good ones need few batches all the same."""
    builder = TopologyBuilder()
    builder.set_spout("source", Numbers(20_000))
    builder.set_bolt("tenth", Tenth).shuffle_grouping("source")
    result = run(builder, clock=clock, until=lambda r: r.trees["acked"] >= 18_000)
    assert result.trees["replayed"] < 0.2 * 18_000


class Tenth(BasicBolt):
    def execute(self, tup, collector):
        if tup["n"] % 10 == 0:
            raise FailedException("a tenth")


def test_with_too_many_resting_messages_nothing_new_is_emitted(clock, monkeypatch):
    monkeypatch.setattr("fulmen.engine.tasks.spouts.spout_task.MOST_RESTING", 100)
    builder = TopologyBuilder()
    builder.set_spout("source", Numbers(100_000))
    builder.set_bolt("none", Nothing).shuffle_grouping("source")
    result = run(builder, clock=clock, batches=300)
    assert result.fields("source")["at"] < 2_000


class Nothing(BasicBolt):
    def execute(self, tup, collector):
        raise FailedException("none")


def test_with_a_limit_a_message_is_given_up_after_its_pauses(clock):
    result = run(topology(10**9, max_replays=4), clock=clock)
    assert result.trees["dead_lettered"] == 1
    assert clock() > 0.05 + 0.1 + 0.2


def test_without_backoff_a_spout_hears_of_a_failure_in_the_next_batch(clock):
    result = run(topology(4, spout=AtOnce), clock=clock)
    heard = [moment for _, moment, _ in result.fields("source")["heard"]]
    assert heard[-1] - heard[0] < 0.1
