"""Bolts with full buffers hold the spouts: nothing is emitted, nothing is idle, ticks go on."""

import pytest

from fulmen import BasicBolt, Bolt, Spout, TopologyBuilder, TransactionalTopologyBuilder
from fulmen.engine.batches.failures.blame import VoidAttempt
from fulmen.engine.driver.driver import Stop
from fulmen.errors import JobFailed
from fulmen.testing import ManualClock, NotDrained, run
from support.runs.engine_runs import Steady, make_driver, new_store
from support.transactions.sources import Rows
from support.transactions.transacted import PAST, Count

ROOM = 50


class Endless(Spout):
    """Emits numbers as long as it is asked."""

    outputs = ("number",)
    limit = 10_000

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.at < self.limit:
            self.collector.emit([self.at], msg_id=self.at)
            self.at += 1
            return True
        return False


class PinnedEndless(Endless):
    pinned = True


class Few(Endless):
    limit = 500

    def is_exhausted(self):
        return self.at == self.limit


class Buffer(BasicBolt):
    """Has room for so many numbers, and writes some of them at each tick."""

    def __init__(self, per_tick=10):
        self.rows = []
        self.written = []
        self.most = 0
        self.per_tick = per_tick

    def prepare(self, conf, context):
        self.context = context
        self.look()

    def execute(self, tup, collector):
        if tup.is_tick():
            self.written += self.rows[: self.per_tick]
            self.rows = self.rows[self.per_tick :]
        else:
            self.rows.append(tup[0])
        self.look()

    def look(self):
        self.most = max(self.most, len(self.rows))
        if len(self.rows) >= ROOM:
            self.context.hold_spouts(f"{len(self.rows)} rows wait")
        elif len(self.rows) <= ROOM // 2:
            self.context.release_spouts()


def buffered(spout=Endless, bolt=Buffer, **spec):
    builder = TopologyBuilder("held", **spec)
    builder.set_spout("numbers", spout)
    builder.set_bolt("buffer", bolt).shuffle_grouping("numbers").set_tick_seconds(0.1)
    return builder


class Jobs(Steady):
    """Keeps the headers, and loses its workers when it is told to."""

    def __init__(self, clock, store):
        super().__init__(clock, 0.02, store=store)
        self.headers = []
        self.loses = 0

    def run(self, header, timeout_seconds):
        self.headers.append(header)
        if self.loses:
            self.loses -= 1
            self.start(self._placed)
            raise JobFailed("all workers were lost", is_clusters=True)
        return super().run(header, timeout_seconds)


@pytest.fixture
def jobs():
    clock = ManualClock()
    return Jobs(clock, new_store())


def started(builder, jobs):
    return make_driver(builder, store=jobs.store, clock=jobs.clock, jobs=jobs).start()


def until_held(driver, most=50):
    for _ in range(most):
        driver.step()
        if driver.coordinator.last.holds:
            return
    raise AssertionError("nothing was held")


@pytest.mark.parametrize("spout", [Endless, PinnedEndless])
def test_while_a_bolt_holds_them_spouts_emit_nothing_and_go_on_when_they_are_released(jobs, spout):
    driver = started(buffered(spout), jobs)
    until_held(driver)
    emitted = driver.totals.component("numbers")["emitted"]
    batches = 0
    while driver.coordinator.last.holds:
        assert driver.step()
        batches += 1
        if driver.coordinator.last.holds:
            assert driver.totals.component("numbers")["emitted"] == emitted
            assert not any(jobs.headers[-1].permit(task) for task in driver.plan.tasks("numbers"))
            assert jobs.headers[-1].active
    assert batches > 10  # the ticks have emptied the buffer, ten rows each
    for _ in range(3):
        driver.step()
    assert driver.totals.component("numbers")["emitted"] > emitted
    driver.close()


def test_what_is_held_is_told_with_its_reason(jobs):
    driver = started(buffered(), jobs)
    until_held(driver)
    (task,) = driver.plan.tasks("buffer")
    rows = driver.totals.component("buffer")["executed"]
    assert driver.totals.waits.holds == {task: f"{rows} rows wait"}
    while driver.coordinator.last.holds:
        driver.step()
    assert driver.totals.waits.holds == {}
    driver.close()


def test_a_topology_whose_spouts_are_held_is_not_idle(jobs):
    driver = started(buffered(Few, Buffer(per_tick=1)), jobs)
    until_held(driver)
    driver.step()  # spouts are told of the last acks
    for _ in range(160):  # JVMs would be warm by then, and batches light
        executed = driver.totals.component("buffer")["executed"]
        driver.step()
        if driver.totals.component("buffer")["executed"] > executed:
            continue
        assert driver.coordinator.last.holds
        assert driver.coordinator.idle.batches == 0
        assert not driver.coordinator.has_nothing_more
        assert 0 < driver.coordinator.idle_seconds() <= 0.1
    driver.close()


def test_a_drain_waits_until_all_buffers_are_empty():
    result = run(buffered(Few))
    fields = result.fields("buffer")
    assert sorted(fields["rows"] + fields["written"]) == list(range(500))
    assert len(fields["rows"]) <= ROOM // 2
    assert result.trees["acked"] == 500


def test_a_drain_that_is_asked_for_waits_as_well(jobs):
    driver = started(buffered(), jobs)
    until_held(driver)
    driver.run(Stop(drain=True))
    driver.close()
    assert driver.coordinator.last.holds == {}


class WritesAtTheEnd(Buffer):
    """Writes some numbers at the end of each batch, and needs no ticks for that."""

    def end_batch(self, collector):
        self.written += self.rows[: self.per_tick]
        self.rows = self.rows[self.per_tick :]
        self.look()


def test_a_bolt_that_holds_has_an_end_of_each_batch(jobs):
    builder = TopologyBuilder("held")
    builder.set_spout("numbers", Few)
    builder.set_bolt("buffer", WritesAtTheEnd).shuffle_grouping("numbers")
    driver = started(builder, jobs)
    driver.run(Stop(when_drained=True))
    driver.close()
    assert driver.totals.trees.acked == 500
    assert driver.coordinator.last.holds == {}


class Stubborn(Buffer):
    """Never lets go."""

    def look(self):
        self.context.hold_spouts("never enough room")


def test_a_bolt_that_never_releases_the_spouts_is_never_drained():
    with pytest.raises(NotDrained):
        run(buffered(Few, Stubborn), at_most=100)


class FlushesLast(Bolt):
    """Keeps its tuples until its last turn."""

    def prepare(self, conf, context, collector):
        self.context, self.collector, self.kept, self.drains = context, collector, [], 0

    def execute(self, tup):
        if not tup.is_tick():
            self.kept.append(tup)
            self.context.hold_spouts("full")

    def drain(self):
        self.drains += 1
        if self.drains == 3:  # what it writes to is slow
            for tup in self.kept:
                self.collector.ack(tup)
            self.kept = []
            self.context.release_spouts()


def test_a_bolt_that_holds_gets_its_last_turn_again_until_it_releases_the_spouts(jobs):
    driver = started(buffered(Few, FlushesLast), jobs)
    until_held(driver)
    driver.run(Stop(drain=True))
    driver.close()
    assert sum(header.drains for header in jobs.headers) >= 3
    assert driver.totals.trees.pending == 0
    assert driver.totals.trees.acked > 0


class Holding(Few):
    """Has not read that it is not for spouts."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        context.hold_spouts("wait")


class PinnedHolding(Holding):
    pinned = True


@pytest.mark.parametrize("spout", [Holding, PinnedHolding])
def test_a_spout_that_holds_the_spouts_is_told_that_it_can_t(spout):
    result = run(buffered(spout))
    assert result.trees["acked"] == 500
    (error,) = result.report["components"]["numbers"]["errors"]
    assert error["message"] == "hold_spouts is for bolts: a spout that waits emits nothing"
    assert error["count"] == 1


class Forgetful(BasicBolt):
    """Its buffer is gone with its process."""

    transient = ("rows",)

    def prepare(self, conf, context):
        self.context, self.rows = context, []

    def execute(self, tup, collector):
        if not tup.is_tick():
            self.rows.append(tup)
            if len(self.rows) >= ROOM:
                self.context.hold_spouts("full")


def test_a_task_that_is_lost_holds_nothing_any_more(jobs):
    driver = started(buffered(bolt=Forgetful), jobs)
    until_held(driver)
    emitted = driver.totals.component("numbers")["emitted"]
    for _ in range(30):
        driver.step()
    assert driver.coordinator.last.holds
    assert driver.totals.component("numbers")["emitted"] == emitted
    jobs.loses = 1
    assert not driver.step()
    assert driver.step()
    assert driver.coordinator.last.holds == {}
    driver.step()
    assert driver.totals.component("numbers")["emitted"] > emitted
    driver.close()


def test_a_task_whose_buffer_is_durable_holds_again_after_a_loss(jobs):
    driver = started(buffered(bolt=Buffer(per_tick=1)), jobs)
    until_held(driver)
    jobs.loses = 1
    assert not driver.step()
    assert driver.step()
    assert driver.coordinator.last.holds
    driver.close()


def test_batches_that_come_to_nothing_meanwhile_emit_nothing(jobs):
    driver = started(buffered(bolt=Buffer(per_tick=1)), jobs)
    until_held(driver)
    emitted = driver.totals.component("numbers")["emitted"]
    jobs.headers.clear()
    for _ in range(4):  # so often that a tuple is suspected
        driver.coordinator.begin(jobs.clock())
        driver.coordinator.failed(VoidAttempt("killed"), jobs.clock())
    assert driver.coordinator.blame.crashes.limit is not None
    while driver.coordinator.blame.crashes.limit is not None:
        assert driver.step()
        assert driver.totals.component("numbers")["emitted"] == emitted
        assert jobs.headers[-1].poisoned == ()
    driver.close()


class Pair(BasicBolt):
    """Two tasks: each holds until its own tick of a given number."""

    ticks = 0

    def prepare(self, conf, context):
        self.context = context
        self.until = 5 if context.task_index else 20

    def execute(self, tup, collector):
        if tup.is_tick():
            self.ticks += 1
        if self.ticks < self.until:
            self.context.hold_spouts(f"until tick {self.until}")
        else:
            self.context.release_spouts()


def test_spouts_are_held_until_the_last_task_has_released_them(jobs):
    builder = TopologyBuilder("held", workers=2)
    builder.set_spout("numbers", Endless)
    pair = builder.set_bolt("pair", Pair, 2).shuffle_grouping("numbers")
    pair.set_tick_seconds(0.1)
    driver = started(builder, jobs)
    seen = []
    for _ in range(200):
        driver.step()
        holds = sorted(driver.coordinator.last.holds.values())
        if not seen or seen[-1] != holds:
            seen.append(holds)
        if seen[-1] == [] and len(seen) > 1:
            break
    both, last = ["until tick 20", "until tick 5"], ["until tick 20"]
    assert seen[-3:] == [both, last, []]
    driver.close()


CONTEXTS = []


class HoldsAfterThree(Count):
    """Holds the spouts at the third transaction. Others release them."""

    def prepare(self, conf, context, collector, attempt):
        super().prepare(conf, context, collector, attempt)
        CONTEXTS.append(context)
        if attempt.txid == 3:
            context.hold_spouts("three are enough")


def test_no_transactions_are_opened_while_spouts_are_held(jobs):
    rows = Rows((tuple(map(str, range(20))),), take=1)
    builder = TransactionalTopologyBuilder("held", "rows", rows, max_spout_pending=1)
    builder.set_bolt("count", HoldsAfterThree).shuffle_grouping("rows")
    PAST["held"] = set()
    CONTEXTS.clear()
    driver = started(builder, jobs)
    for _ in range(30):
        assert driver.step()
    assert driver.totals.transactions.committed == 3
    assert not driver.coordinator.has_nothing_more
    CONTEXTS[-1].release_spouts()  # as a thread of the bolt does
    driver.run(Stop(when_drained=True))
    assert driver.totals.transactions.committed >= 20
    driver.close()
