"""Results: what bolts emit by themselves is kept until it is acked, and emitted again if not."""

from itertools import pairwise
from threading import Lock

import pyarrow as pa
import pytest

from fulmen import ArrowBolt, BasicBolt, Bolt, FailedException, TopologyBuilder
from fulmen.checkpoint import read_commit
from fulmen.engine.driver.driver import Stop
from fulmen.engine.state.journals import RESULTS
from fulmen.errors import ValidationFailed
from fulmen.testing import CollectBolt, ListSpout, ManualClock, run
from support.runs.engine_runs import make_driver, new_store


class Sums(BasicBolt):
    """Emits the sum of each batch."""

    outputs = ("sum",)

    def __init__(self):
        self.sum = 0

    def execute(self, tup, collector):
        self.sum += tup[0]

    def end_batch(self, collector):
        if self.sum:
            collector.emit([self.sum])
        self.sum = 0


class LastTurn(BasicBolt):
    outputs = ("sum",)

    def __init__(self):
        self.sum = 0

    def execute(self, tup, collector):
        self.sum += tup[0]

    def drain(self, collector):
        if self.sum:
            collector.emit([self.sum])
        self.sum = 0


class AtTicks(LastTurn):
    def execute(self, tup, collector):
        if not tup.is_tick():
            self.sum += tup[0]
        else:
            self.drain(collector)

    def drain(self, collector):
        LastTurn.drain(self, collector)


class ByTimer(BasicBolt):
    outputs = ("sum",)

    def __init__(self):
        self.sum = 0

    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        self.sum += tup[0]
        self.timers.set_after("all", 0)

    def on_timer(self, key, at, collector):
        collector.emit([self.sum])
        self.sum = 0


class Unanchored(Bolt):
    """At a batch's end it emits the sum of what it acked, and what it kept, anchored."""

    outputs = ("sum",)

    def __init__(self):
        self.sum, self.kept = 0, []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.kept.append(tup)

    def end_batch(self):
        for tup in self.kept:
            self.sum += tup[0]
            self.collector.emit([-tup[0]], anchors=tup)
            self.collector.ack(tup)
        if self.sum:
            self.collector.emit([self.sum])
        self.sum, self.kept = 0, []


class ArrowSums(ArrowBolt):
    outputs = ("sum",)

    def __init__(self):
        self.sum = 0

    def execute(self, batch, collector):
        self.sum += sum(batch.column(0).to_pylist())

    def end_batch(self, collector):
        if self.sum:
            collector.emit(pa.record_batch({"sum": pa.array([self.sum], pa.int16())}))
        self.sum = 0


class Refuses(BasicBolt):
    """Fails each tuple so many times; notes when they come."""

    outputs = ("sum",)
    clock = ManualClock()

    def __init__(self, times=2):
        self.times, self.seen, self.at = times, {}, []

    def execute(self, tup, collector):
        self.at.append(type(self).clock())
        self.seen[tup[0]] = self.seen.get(tup[0], 0) + 1
        if tup[0] > 0 and self.seen[tup[0]] <= self.times:
            raise FailedException(f"not {tup[0]}")
        collector.emit([tup[0]])


@pytest.fixture
def clock():
    Refuses.clock = ManualClock()
    return Refuses.clock


def topology(bolt, times=2, tracked=True, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", ListSpout([1, 2, 3, 4]))
    sums = builder.set_bolt("sums", bolt).shuffle_grouping("source").set_track_results(tracked)
    if bolt is AtTicks:
        sums.set_tick_seconds(0.05)
    builder.set_bolt("refuses", Refuses(times)).shuffle_grouping("sums")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("refuses")
    return builder


EVERY = [Sums, LastTurn, AtTicks, ByTimer, Unanchored, ArrowSums]


@pytest.mark.parametrize("bolt", EVERY)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_result_that_fails_comes_again(bolt, workers, clock):
    result = run(topology(bolt), clock=clock, workers=workers)
    assert sum(n for [n] in result.collected("sink") if n > 0) == 10
    assert result.trees["acked"] == 4 + result.trees["failed"] // 2
    assert result.trees["failed"] == result.trees["replayed"] > 0
    assert result.trees["pending"] == 0


@pytest.mark.parametrize("bolt", EVERY)
def test_a_result_is_gone_if_it_is_not_tracked(bolt, clock):
    result = run(topology(bolt, tracked=False), clock=clock)
    assert not [n for [n] in result.collected("sink") if n > 0]
    assert result.trees["acked"] == 4
    assert result.trees["failed"] == 0


def test_nothing_is_tracked_without_ackers(clock):
    result = run(topology(Sums), clock=clock, ackers=0)
    assert result.trees["failed"] == 0
    assert not result.collected("sink")


def test_pauses_of_a_result_grow(clock):
    result = run(topology(LastTurn, times=6), clock=clock)
    at = result.fields("refuses")["at"]
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert len(pauses) == 6
    for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.4, 0.8, 1.6), strict=True):
        assert least <= pause <= least + 0.15


def test_a_result_that_always_fails_goes_to_the_dead_letters(clock):
    builder = topology(Sums, times=10**9, max_replays=3)
    builder.set_bolt("dead", CollectBolt).shuffle_grouping("sums", "__dead_letters")
    result = run(builder, clock=clock)
    [[stream, values, number, failures, reason]] = result.collected("dead")
    assert (stream, list(values), failures, reason) == ("default", [10], 3, "not 10")
    assert isinstance(number, int)
    assert result.trees["dead_lettered"] == 1
    assert result.trees["failed"] == 3
    assert result.trees["replayed"] == 2
    assert result.trees["acked"] == 4 + 1


# ---- restarts


def rests(times=4):
    """Whether the result has failed so many times."""
    return lambda result: result.trees["failed"] >= times


@pytest.mark.parametrize("ackers", [1, 3])
@pytest.mark.parametrize("bolt", [Sums, Unanchored, ArrowSums])
def test_a_result_comes_again_after_a_restart(bolt, ackers, clock):
    before = run(topology(bolt, times=5), clock=clock, until=rests())
    assert not [n for [n] in before.collected("sink") if n > 0]
    after = run(topology(bolt, times=5), clock=clock, checkpoint=before, workers=2, ackers=ackers)
    assert [n for [n] in after.collected("sink") if n > 0] == [10]
    assert after.trees["replayed"] == 2  # of the first run's pauses, the last one was not over


def test_a_pending_result_is_tracked_after_a_restart(clock):
    """Its only tuple is held by a bolt, and acked by the next run."""
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2, 3, 4]))
    builder.set_bolt("sums", Sums).shuffle_grouping("source")
    builder.set_bolt("holds", Holds).shuffle_grouping("sums")
    before = run(builder, clock=clock, until=lambda r: r.trees["acked"] >= 4)
    assert before.trees["pending"] == 1
    after = run(builder, clock=clock, checkpoint=before)
    assert (after.trees["acked"], after.trees["pending"]) == (1, 0)
    assert after.fields("holds")["had"] == [10]


class Holds(Bolt):
    """Acks what it got when it is drained."""

    def __init__(self):
        self.kept, self.had = [], []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.kept.append(tup)

    def drain(self):
        self.had += [tup[0] for tup in self.kept]
        for tup in self.kept:
            self.collector.ack(tup)
        self.kept = []


def test_a_result_that_is_never_acked_times_out_and_comes_again(clock):
    builder = TopologyBuilder(message_timeout_seconds=1)
    builder.set_spout("source", ListSpout([1, 2, 3, 4]))
    builder.set_bolt("sums", Sums).shuffle_grouping("source")
    builder.set_bolt("forgets", Forgets).shuffle_grouping("sums")
    result = run(builder, clock=clock, batch_seconds=0.1)
    assert (result.trees["timed_out"], result.trees["acked"]) == (1, 5)


class Forgets(Bolt):
    def __init__(self):
        self.seen = 0

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.seen += 1
        if self.seen > 1:
            self.collector.ack(tup)


def test_a_checkpoint_without_results_goes_on_with_them(clock):
    before = run(topology(LastTurn, tracked=False), clock=clock, batches=2)
    after = run(topology(LastTurn), clock=clock, checkpoint=before)
    assert [n for [n] in after.collected("sink")] == [10]


def test_results_that_are_kept_end_though_no_more_are_tracked(clock):
    before = run(topology(Sums, times=5), clock=clock, until=rests())
    after = run(topology(Sums, times=5, tracked=False), clock=clock, checkpoint=before)
    assert after.collected("sink") == [[10]]
    assert after.trees["pending"] == 0


def test_results_are_emitted_once_more_when_acking_is_turned_off(clock):
    before = run(topology(Sums, times=4), clock=clock, until=rests())
    after = run(topology(Sums, times=4), clock=clock, checkpoint=before, ackers=0)
    assert after.collected("sink") == [[10]]


class OtherFields(Sums):
    outputs = ("sum", "more")

    def end_batch(self, collector):
        return


def test_a_result_whose_stream_has_other_fields_now_goes_to_the_dead_letters(clock):
    before = run(topology(Sums, times=4), clock=clock, until=rests())
    builder = topology(OtherFields)
    builder.set_bolt("dead", CollectBolt).shuffle_grouping("sums", "__dead_letters")
    after = run(builder, clock=clock, checkpoint=before)
    [[stream, values, _, failures, reason]] = after.collected("dead")
    assert (stream, list(values), failures, reason) == ("default", [10], 4, "not 10")
    assert any("other fields" in error.message for error in after.errors)


# ---- what is in commits


def test_a_result_that_is_acked_in_its_batch_is_in_no_commit(clock):
    written = {
        (bolt, times): journals_of_results(bolt, times, clock) for bolt in EVERY for times in (0, 1)
    }
    assert written == {(bolt, times): times > 0 for bolt, times in written}


def journals_of_results(bolt, times, clock):
    """Whether any commit has something of results. They fail so many times."""
    store = new_store()
    driver = make_driver(topology(bolt, times), store=store, clock=clock).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert driver.totals.trees.acked >= 5
    commits = [read_commit(store, n + 1) for n in range(driver.coordinator.last.number)]
    journals = {j for c in commits for of_task in c.updates.values() for j in of_task}
    return any(journal.startswith(RESULTS) for journal in journals)


# ---- what can't be kept


class Locked(LastTurn):
    """Emits what can't be pickled, and goes nowhere but to a bolt of the same worker."""

    def drain(self, collector):
        if self.sum:
            collector.emit([Lock()])
            collector.emit([self.sum])
        self.sum = 0


class Accepts(Bolt):
    """Acks what it got in a later batch: until then it is kept."""

    outputs = ("sum",)
    transient = ("kept",)

    def prepare(self, conf, context, collector):
        self.collector, self.timers, self.kept = collector, context.timers, []

    def execute(self, tup):
        self.kept.append(tup)
        self.timers.set_after("later", 0.01)

    def on_timer(self, key, at):
        for tup in self.kept:
            self.collector.emit([type(tup[0]).__name__], anchors=tup)
            self.collector.ack(tup)
        self.kept = []


def test_a_result_that_cannot_be_pickled_is_tracked_all_the_same(clock):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2, 3, 4]))
    builder.set_bolt("sums", Locked).shuffle_grouping("source")
    builder.set_bolt("accepts", Accepts).local_or_shuffle_grouping("sums")
    builder.set_bolt("sink", CollectBolt).local_or_shuffle_grouping("accepts")
    result = run(builder, clock=clock)
    assert result.collected("sink") == [["lock"], ["int"]]
    assert result.trees["acked"] == 6
    [error] = result.errors
    assert error.is_warning
    assert "a result can't be kept, and is gone if its tree fails" in error.message


def test_only_bolts_that_keep_results_have_dead_letters(clock):
    builder = topology(Sums, tracked=False)
    builder.set_bolt("dead", CollectBolt).shuffle_grouping("sums", "__dead_letters")
    with pytest.raises(ValidationFailed, match="__dead_letters"):
        run(builder, clock=clock)


class Interrupts(BasicBolt):
    """Takes nothing; somebody presses Ctrl-C when it has refused something three times."""

    stop = Stop()
    refused = 0

    def execute(self, tup, collector):
        Interrupts.refused += 1
        Interrupts.stop.drain = Interrupts.stop.interrupted = Interrupts.refused >= 3
        raise FailedException("it has no place for that")


def test_ctrl_c_does_not_wait_for_results_that_always_fail_also_at_the_end_of_all():
    builder = TopologyBuilder("refused")
    builder.set_spout("numbers", ListSpout([1, 2]))
    builder.set_bolt("sums", LastTurn()).global_grouping("numbers")
    builder.set_bolt("refuses", Interrupts()).global_grouping("sums")
    store = new_store()
    for _ in range(2):  # another run has it again
        Interrupts.refused, Interrupts.stop = 0, Stop(when_drained=True, give_up_seconds=60.0)
        driver = make_driver(builder, store=store).start()
        driver.run(Interrupts.stop)
        driver.close()
        assert Interrupts.refused == 3
