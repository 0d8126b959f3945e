"""The driver with a store and workers that do what a test wants."""

from unittest import mock

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END
from fulmen.engine.driver.checkpoints.committer import OUTAGE_SECONDS, CommitWriter
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import CheckpointError, Fenced, TopologyFailed, Unreachable
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.parts.hooks import HookBasicBolt, HookBolt, HookSpout, hooks
from support.runs.engine_runs import Steady, make_driver, new_store, state_of


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


def counting(n=20, workers=1, tasks=2, **spec):
    """Counts the numbers from 0 to 9, of which n come."""
    builder = TopologyBuilder(name="counting", workers=workers, **spec)
    builder.set_spout("source", ListSpout([i % 10 for i in range(n)]), tasks)
    bolt = builder.set_bolt("count", HookBasicBolt, tasks).set_config(hooks(execute=count))
    bolt.fields_grouping("source", ["value"])
    return builder


class Log(Silent):
    """Writes down what it is told."""

    def __init__(self):
        self.events = []

    def batch(self, totals, done):
        self.events.append(("batch", totals.batches))

    def error(self, error):
        self.events.append(("error", error.message))

    def attempt_failed(self, number, reason):
        self.events.append(("failed", number, reason))

    def note(self, text):
        self.events.append(("note", text))

    def of(self, kind):
        return [event[1:] for event in self.events if event[0] == kind]


class Backend:
    """A store's backend whose verbs fail as long as a test says so."""

    def __init__(self, store):
        self.backend = store._backend
        self.failing = {}

    def __getattr__(self, verb):
        def call(key, *args):
            left = self.failing.get(verb, 0)
            if left:
                self.failing[verb] = left - 1
                raise Unreachable("memory://x", str(key), "no answer", unknown=verb == "put")
            return getattr(self.backend, verb)(key, *args)

        return call


def failing_store():
    store = new_store()
    backend = Backend(store)
    return Store(store.uri, backend), backend


def started(topology, **options):
    return make_driver(topology, **options).start()


def finished(driver):
    driver.run(Stop(when_drained=True))
    driver.close()
    return driver


# ---- the end ---------------------------------------------------------------------------------


def endless(spout):
    spout.__dict__.setdefault("n", 0)
    spout.n += 1
    spout.collector.emit([spout.n], msg_id=spout.n)


def endless_topology(**spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=endless))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=lambda *args: None))
    bolt.shuffle_grouping("source")
    return builder


def test_draining_ends_when_nothing_is_pending():
    driver = started(endless_topology(workers=2))
    for _ in range(3):
        driver.step()
    assert driver.coordinator.spout_pending > 0
    driver.run(Stop(drain=True))
    assert driver.coordinator.settled
    assert driver.totals.trees.acked == driver.totals.counts["source", "emitted", "default"]


def test_after_so_many_seconds():
    driver = started(endless_topology(), seconds=0.5)
    driver.run(Stop(after_seconds=3))
    assert driver.coordinator.settled
    assert 6 <= driver.totals.batches <= 9
    assert driver.totals.seconds == pytest.approx(0.5 * driver.totals.batches, abs=1)


def test_now_ends_after_the_batch_at_hand():
    driver = started(endless_topology())
    stop = Stop()

    class Stopper(Silent):
        def batch(self, totals, done):
            stop.now = totals.batches == 2

    driver.observer = Stopper()
    driver.run(stop)
    assert driver.totals.batches == 2


def test_a_topology_without_news_is_drained():
    builder = TopologyBuilder()
    builder.set_spout("source", HookSpout).set_config(hooks())  # is never exhausted
    driver = started(builder)
    driver.run(Stop(when_drained=True))
    assert IDLE_BATCHES_TO_END <= driver.totals.batches <= 25


def test_instances_are_closed_at_the_end():
    closed = []
    builder = TopologyBuilder(workers=2)
    builder.set_spout("source", ListSpout([1]))
    functions = {
        "execute": lambda bolt, tup: bolt.collector.ack(tup),
        "cleanup": lambda bolt: closed.append(bolt.context.task_index),
    }
    bolt = builder.set_bolt("bolt", HookBolt, 3).set_config(hooks(**functions))
    bolt.shuffle_grouping("source")
    finished(started(builder))
    assert sorted(closed) == [0, 1, 2]


@pytest.mark.parametrize("limit", [None, 7])
def test_components_know_how_many_trees_may_be_pending(limit):
    told = []
    builder = TopologyBuilder(max_spout_pending=limit)
    builder.set_spout("source", ListSpout([1]))
    functions = {
        "prepare": lambda bolt: told.append(bolt.context.max_spout_pending),
        "execute": lambda bolt, tup: bolt.collector.ack(tup),
    }
    builder.set_bolt("bolt", HookBolt).set_config(hooks(**functions)).shuffle_grouping("source")
    finished(started(builder))
    assert told == [limit]


# ---- lost workers ----------------------------------------------------------------------------


class Fragile(Steady):
    """Loses workers when told to.

    Attributes:
        lost: Those that are not there after a failure.
    """

    def __init__(self, clock, **options):
        super().__init__(clock, **options)
        self.lost = set()
        self.failures = 0
        self.recovery_seconds = 0
        self.fault = self.fail

    def fail(self, stage, worker, moment):
        if self.failures and moment == "after":
            self.failures -= 1
            raise Crash("pulled the plug")

    def alive(self):
        return tuple(w for w in range(self._placed.plan.workers) if w not in self.lost)

    def recover(self):
        self.clock.advance(self.recovery_seconds)
        return self.alive()


def fragile(topology):
    clock, store, log = ManualClock(), new_store(), Log()
    jobs = Fragile(clock, store=store)
    return started(topology, store=store, clock=clock, jobs=jobs, observer=log), log


def counted(driver):
    return state_of(driver, "count")


def test_executors_of_a_lost_worker_move_and_come_back():
    driver, log = fragile(counting(0, workers=3, tasks=3))
    plan = driver.plan
    driver.step()
    driver.jobs.lost, driver.jobs.failures = {1}, 1
    assert not driver.step()
    assert driver.placed.workers == (0, 2)
    assert {driver.plan.worker_of(t) for t in range(1, driver.plan.task_count + 1)} == {0, 2}
    driver.step()
    driver.jobs.lost = set()
    driver.clocks.sleep(LIMITS.look_seconds)
    driver.look_for_workers()
    assert driver.placed.workers == (0, 1, 2)
    assert {driver.plan.worker_of(t) for t in plan.component_tasks["count"]} == {0, 1, 2}
    assert log.of("note") == [
        ("workers [1] are not there: planned anew",),
        ("all workers are there: planned anew",),
    ]


def test_state_moves_with_its_executors():
    driver, log = fragile(counting(100, workers=3, tasks=3))
    driver.coordinator.size.permit = 10
    for lost in ({0}, {0, 2}, set(), {1}):
        driver.step()
        driver.jobs.lost, driver.jobs.failures = lost, 1
        driver.step()
    finished(driver)
    assert counted(driver) == dict.fromkeys(range(10), 10)
    assert len(log.of("failed")) == 4


def test_recovering_takes_no_time_from_tuples():
    """A tuple that is kept for 2 of its 3 seconds, and then an hour until the worker is back."""

    def execute(bolt, tup):
        if tup.is_tick():
            bolt.ticks += 1
            if bolt.ticks == 2:
                bolt.collector.ack(bolt.kept.pop())
        else:
            bolt.kept.append(tup)

    def prepare(bolt):
        bolt.kept, bolt.ticks = [], 0

    builder = TopologyBuilder(message_timeout_seconds=3)
    builder.set_spout("source", ListSpout([1]))
    bolt = builder.set_bolt("bolt", HookBolt).set_config(hooks(execute=execute, prepare=prepare))
    bolt.shuffle_grouping("source").set_tick_seconds(1)
    driver, log = fragile(builder)
    driver.jobs.seconds = 0.9
    driver.step()
    driver.jobs.failures = 2
    driver.jobs.recovery_seconds = 3600
    finished(driver)
    assert len(log.of("failed")) == 2
    assert (driver.totals.trees.acked, driver.totals.trees.timed_out) == (1, 0)


def test_a_failed_attempt_counts_for_nothing():
    driver, log = fragile(counting(50))
    driver.jobs.failures = 1
    finished(driver)
    assert log.of("failed") == [(3, "worker 0 was lost in stage 0: pulled the plug")]
    assert driver.totals.failed_attempts == 1
    assert driver.totals.counts["count", "executed", "source:default"] == 50
    assert driver.totals.trees.acked == 50


# ---- the store -------------------------------------------------------------------------------


def test_a_commit_is_made_again_until_it_is_made():
    store, backend = failing_store()
    log = Log()
    driver = started(counting(), store=store, observer=log)
    backend.failing["put"] = 300
    finished(driver)
    assert counted(driver) == dict.fromkeys(range(10), 2)
    notes = [text for (text,) in log.of("note")]
    assert len(notes) == 25 + 1  # one a minute
    assert all(" Trying again; it is so since 20" in text for text in notes[:-1])
    assert notes[-1] == "the checkpoint answers again"
    assert driver.recovery.outage is None
    assert driver.totals.failed_attempts == 0


def test_a_store_that_is_down_for_half_an_hour_ends_the_driver():
    store, backend = failing_store()
    driver = started(counting(), store=store)
    backend.failing["put"] = 10_000
    before = driver.clocks.steady()
    with pytest.raises(Unreachable):
        driver.run(Stop(when_drained=True))
    assert OUTAGE_SECONDS <= driver.clocks.steady() - before < OUTAGE_SECONDS + 60


def test_a_store_that_is_down_while_workers_read_blames_nobody():
    store, backend = failing_store()
    log = Log()
    driver = started(counting(), store=store, observer=log)
    before = driver.clocks.steady()
    backend.failing["get"] = 40
    finished(driver)
    assert counted(driver) == dict.fromkeys(range(10), 2)
    assert len(log.of("failed")) == 40
    assert driver.totals.counts["source", "dropped", ""] == 0
    assert driver.clocks.steady() - before > 100  # it waits longer and longer


def test_a_driver_that_is_idle_notices_its_successor():
    store = new_store()
    first = started(counting(0), store=store)
    for _ in range(3):
        first.step()
    started(counting(0), store=store)
    first.step()
    first.clocks.sleep(60)
    with pytest.raises(Fenced):
        first.step()


def test_a_driver_whose_checkpoint_is_taken_over_stops():
    store = new_store()
    first = started(counting(), store=store)
    first.step()
    finished(started(counting(), store=store))
    with pytest.raises(Fenced):
        first.run(Stop(when_drained=True))


def test_the_checkpoint_of_another_topology_is_refused():
    store = new_store()
    finished(started(counting(), store=store))
    other = TopologyBuilder(name="other")
    other.set_spout("source", ListSpout([1]))
    with pytest.raises(CheckpointError, match="is that of topology 'counting'"):
        started(other, store=store)


def test_a_long_run_leaves_a_small_checkpoint():
    """Whatever the batches, what is stored is in proportion to what is alive."""

    def execute(bolt, tup):
        bolt.state[tup[0] % 50] = tup[0]
        bolt.latest = tup
        bolt.collector.emit(["x"], anchors=tup)
        bolt.collector.ack(tup)

    store = new_store()
    builder = endless_topology(max_spout_pending=20)
    bolt = builder.set_bolt("rich", HookBolt, 2).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source")
    builder.set_bolt("sink", HookBasicBolt).set_config(
        hooks(execute=lambda *args: None)
    ).shuffle_grouping("rich")
    with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
        driver = started(builder, store=store)
        sizes = []
        for n in range(240):
            driver.step()
            if n % 60 == 59:
                keys = store.list("")
                sizes.append((len(keys), sum(len(store.get(key)) for key in keys)))
    most_objects, most_bytes = (max(column) for column in zip(*sizes, strict=True))
    assert most_objects < 160
    assert most_bytes < 1_000_000
    assert sizes[-1][0] < 1.5 * sizes[1][0]


# ---- errors ----------------------------------------------------------------------------------


def test_of_different_errors_at_most_five_are_told_in_ten_seconds():
    def execute(bolt, tup, collector):
        raise ValueError(tup[0])

    builder = TopologyBuilder(message_timeout_seconds=3)
    builder.set_spout("source", ListSpout(range(30), replays=False))
    bolt = builder.set_bolt("bolt", HookBasicBolt, 2).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source")
    log = Log()
    driver = finished(started(builder, observer=log))
    assert len(set(log.of("error"))) == len(log.of("error")) == 5
    assert driver.totals.sum(ERRORS, "bolt") == 30


def test_a_fatal_error_names_the_component_and_its_task():
    builder = TopologyBuilder(on_error="crash")
    builder.set_spout("source", ListSpout([1]))
    bolt = builder.set_bolt("bolt", HookBasicBolt)
    bolt.set_config(hooks(execute=lambda *args: 1 / 0)).shuffle_grouping("source")
    driver = started(builder)
    with pytest.raises(TopologyFailed) as failure:
        driver.run(Stop(when_drained=True))
    assert failure.value.reason == (
        "bolt 'bolt', task 2: execute: ZeroDivisionError: division by zero"
    )
    driver.close()


def test_what_is_collected_is_what_was_sent():
    builder = TopologyBuilder(workers=2)
    builder.set_spout("source", ListSpout(["a", "b"]))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    driver = finished(started(builder))
    assert state_of(driver, "sink") == {0: ["a"], 1: ["b"]}
