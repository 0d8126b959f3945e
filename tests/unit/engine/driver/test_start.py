"""What a driver's start does to time, and workers that come a little later."""

from types import SimpleNamespace

import pytest

from fulmen import Bolt, Spout, TopologyBuilder
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.spark import jobs
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.errors import FulmenError
from fulmen.testing import ListSpout, ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store

CLOCK = ManualClock()


class Keep(Bolt):
    """Acks nothing."""

    def execute(self, tup):
        pass


class Pinned(Spout):
    """Emits one number, in the driver."""

    outputs = ("number",)
    pinned = True

    def open(self, conf, context, collector):
        self.collector = collector
        self.is_emitted = False

    def next_tuple(self):
        if not self.is_emitted:
            self.collector.emit([1], msg_id=1)
            self.is_emitted = True
            return True
        return False


class SlowToStart(Steady):
    def start(self, placed):
        workers = super().start(placed)
        self.clock.advance(1000)
        return workers


class ComesLater(Steady):
    """Jobs that begin without worker 1, which is there a moment later.

    Attributes:
        starts_without: How many times they begin without it.
    """

    def __init__(self, clock, starts_without=1, **options):
        super().__init__(clock, **options)
        self.starts_without = starts_without
        self.started = []

    def start(self, placed):
        workers = super().start(placed)
        self.started.append(workers)
        return workers if len(self.started) > self.starts_without else workers[:1]


def test_a_worker_that_comes_while_jobs_begin_takes_part():
    builder = TopologyBuilder(name="late", workers=2)
    builder.set_spout("numbers", ListSpout([1, 2]), 2)
    clock, store = ManualClock(), new_store()
    jobs = ComesLater(clock, store=store)
    driver = make_driver(builder, store=store, clock=clock, jobs=jobs).start()
    assert jobs.started == [(0, 1), (0, 1)]
    assert driver.placed.workers == (0, 1)
    driver.step()
    driver.look_for_workers()
    driver.close()
    assert len(jobs.started) == 2


def test_a_worker_that_is_late_twice_is_looked_for():
    builder = TopologyBuilder(name="late", workers=2)
    builder.set_spout("numbers", ListSpout([1, 2]), 2)
    clock, store = ManualClock(), new_store()
    jobs = ComesLater(clock, starts_without=2, store=store)
    driver = make_driver(builder, store=store, clock=clock, jobs=jobs).start()
    assert len(jobs.started) == 2
    for _ in range(2):  # then they run on all workers
        clock.advance(LIMITS.look_seconds)
        driver.look_for_workers()
    driver.close()
    assert len(jobs.started) == 3


class GoneAtOnce(ComesLater):
    """Nobody is there when jobs have begun; what they run on is taken from the first stage."""

    there = ()

    def alive(self):
        return self.there

    def run(self, header, timeout_seconds):
        assert len(self._placed.workers) == len(self.started[-1]) == 1, "rows would be lost"
        return super().run(header, timeout_seconds)


def test_jobs_whose_workers_are_gone_at_once_run_on_those_that_they_began_with():
    builder = TopologyBuilder(name="gone", workers=2)
    builder.set_spout("numbers", ListSpout([1, 2]), 2)
    store = new_store()
    jobs = GoneAtOnce(ManualClock(), store=store)
    driver = make_driver(builder, store=store, jobs=jobs).start()
    assert driver.placed.workers == driver.planner.hosting == (0,)
    assert driver.step()
    driver.close()


def test_jobs_do_not_begin_without_any_worker(monkeypatch, tmp_path):
    builder = TopologyBuilder(name="lost")
    builder.set_spout("numbers", ListSpout([1, 2]))
    driver = make_driver(builder).start()
    workers = SimpleNamespace(alive=lambda: ())
    started = SimpleNamespace(workers=workers, start=lambda: None, close=lambda: None)
    monkeypatch.setattr(jobs, "RunningSpark", lambda settings: started)
    with pytest.raises(FulmenError, match="the workers that had started are gone again"):
        LocalSparkJobs(1, {}, None, tmp_path / "log").start(driver.placed)
    driver.close()


class Refusing(Steady):
    closed = 0

    def start(self, placed):
        raise FulmenError("no Spark")

    def close(self):
        self.closed += 1


def test_jobs_are_closed_if_they_can_t_start():
    builder = TopologyBuilder(name="refused")
    builder.set_spout("numbers", ListSpout([1, 2]))
    jobs = Refusing(ManualClock())
    with pytest.raises(FulmenError, match="no Spark"):
        make_driver(builder, jobs=jobs).start()
    assert jobs.closed == 1


def test_jobs_that_begin_with_all_workers_are_started_once():
    builder = TopologyBuilder(name="late", workers=2)
    builder.set_spout("numbers", ListSpout([1, 2]), 2)
    jobs = ComesLater(ManualClock(), store=(store := new_store()))
    jobs.started.append("before")
    driver = make_driver(builder, store=store, jobs=jobs).start()
    driver.close()
    assert jobs.started == ["before", (0, 1)]


def test_trees_do_not_grow_older_while_workers_start():
    builder = TopologyBuilder(name="kept", workers=1, message_timeout_seconds=30)
    builder.set_spout("numbers", ListSpout([1, 2]))
    builder.set_bolt("keep", Keep).shuffle_grouping("numbers")
    store = new_store()
    for batches in (1, 2):
        clock = ManualClock()
        jobs = SlowToStart(clock, 1.0, store=store)
        driver = make_driver(builder, store=store, clock=clock, jobs=jobs).start()
        for _ in range(batches):
            driver.step()
        driver.close()
    assert driver.totals.trees.pending == 2
    assert driver.totals.trees.timed_out == 0
    driver = make_driver(builder, store=store, seconds=20.0).start()
    for _ in range(4):
        driver.step()
    driver.close()
    assert driver.totals.trees.timed_out > 0


class Opens(Pinned):
    """Its connection takes its time."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        CLOCK.advance(1000)


def test_trees_do_not_grow_older_while_pinned_spouts_are_opened():
    builder = TopologyBuilder(name="slow", message_timeout_seconds=10)
    builder.set_spout("numbers", Opens)
    builder.set_bolt("keep", Keep).shuffle_grouping("numbers")
    store = new_store()
    for _ in range(2):
        driver = make_driver(builder, store=store, clock=CLOCK, jobs=Steady(CLOCK, store=store))
        driver = driver.start()
        for _ in range(3):
            driver.step()
        driver.close()
        assert (driver.totals.trees.pending, driver.totals.trees.timed_out) == (1, 0)
