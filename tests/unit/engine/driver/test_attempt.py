"""Light batches leave out stages that have nothing to do, and nobody can tell from the results."""

from itertools import pairwise

from fulmen import BasicBolt, Bolt, Spout, TopologyBuilder
from fulmen.engine.batches.pace.idle import WARM_BATCHES
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.figures.statistics import RESTORED
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import ManualClock
from support.runs.engine_runs import Steady, make_driver, state_of

ACKERS = 2  # the number of the last stage


class Lines(Spout):
    """Emits the numbers below `limit`; nothing before `after` calls."""

    outputs = ("number",)

    def __init__(self, limit=50, after=0):
        self.limit = limit
        self.calls = -after
        self.position = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        self.calls += 1
        if self.calls > 0 and self.position < self.limit:
            self.collector.emit([self.position], msg_id=self.position)
            self.position += 1
            return True
        return False

    def is_exhausted(self):
        return self.position >= self.limit


class Even(BasicBolt):
    outputs = ("number",)

    def execute(self, tup, collector):
        for _ in range(2):
            collector.emit([tup[0]])


class Count(Bolt):
    """Counts numbers; acks each `late` tuples only with the tick that follows."""

    def __init__(self, late=0):
        self.late = late
        self.held = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup.is_tick():
            while self.held:
                self.collector.ack(self.held.pop())
            return
        self.state[tup[0]] = self.state.get(tup[0], 0) + 1
        if self.late and tup[0] % self.late == self.late - 1:
            self.held.append(tup)
        else:
            self.collector.ack(tup)


class Jobs(Steady):
    """Notes which stages ran: a list for each attempt."""

    def __init__(self, clock, store=None):
        super().__init__(clock, store=store)
        self.attempts = []

    def run(self, header, timeout_seconds):
        n = len(self._placed.plan.stages)
        if header.first == 0:
            self.attempts.append([])
        self.attempts[-1].append((header.first, header.stop_before or n))
        return super().run(header, timeout_seconds)


def make(limit=50, after=0, late=0, tick_seconds=None, limits=LIMITS):
    builder = TopologyBuilder(name="light", workers=2, ackers=2)
    builder.set_spout("lines", Lines(limit, after), 1)
    builder.set_bolt("even", Even, 2).shuffle_grouping("lines")
    count = builder.set_bolt("count", Count(late), 2).fields_grouping("even", ["number"])
    if tick_seconds:
        count.set_tick_seconds(tick_seconds)
    clock = ManualClock()
    driver = make_driver(builder, clock=clock, limits=limits)
    driver.jobs = Jobs(clock, driver.store)
    return driver.start()


def steps(driver, n):
    """What ran in each of `n` batches."""
    before = len(driver.jobs.attempts)
    for _ in range(n):
        assert driver.step()
    return driver.jobs.attempts[before:]


def limited(driver, permit, n):
    """The same, with so many tuples in each."""
    ran = []
    for _ in range(n):
        driver.coordinator.size.permit = permit
        ran += steps(driver, 1)
    return ran


def test_acker_tasks_rest_while_trees_end_in_their_batch():
    driver = make()
    assert limited(driver, 5, 4) == [[(0, 4)], [(0, 3)], [(0, 3)], [(0, 3)]]
    trees = driver.totals.trees
    assert (trees.acked, trees.pending) == (20, 0)
    driver.run(Stop(when_drained=True))
    assert state_of(driver, "count") == dict.fromkeys(range(50), 2)
    assert driver.totals.sum(RESTORED) == 0


def test_acker_tasks_count_the_same_whoever_did_their_work():
    counted = []
    for emits in (LIMITS.light_emits, -1):
        driver = make(late=20, tick_seconds=0.5, limits=EngineLimits(light_emits=emits))
        limited(driver, 5, 10)
        driver.run(Stop(when_drained=True))
        counted.append({k: n for k, n in driver.totals.counts.items() if "__acker" in k[0]})
        assert any(len(ran) > 1 for ran in driver.jobs.attempts) == (emits > 0)
    # the number of acks depends on how many of them met on their way
    streams = ("__ack_init", "__ack_ack")
    few, all_of_it = ({s: c["__acker", "executed", s] for s in streams} for c in counted)
    assert few == all_of_it
    assert few["__ack_init"] == 50


def test_a_tree_that_outlives_its_batch_is_kept_by_its_acker():
    driver = make(late=7, tick_seconds=0.5)
    assert limited(driver, 5, 1) == [[(0, 4)]]  # 0 to 4
    assert limited(driver, 5, 2) == [[(0, 3), (3, 4)], [(0, 4)]]  # 6 is held
    assert driver.coordinator.pending == 2
    driver.run(Stop(when_drained=True))
    assert driver.totals.trees.acked == 50
    assert driver.totals.sum(RESTORED) == 0


def test_all_stages_run_for_a_while_when_trees_outlive_their_batches():
    driver = make(limit=500, late=7, tick_seconds=0.1)
    ran = limited(driver, 5, 60)
    twice = [i for i, jobs in enumerate(ran) if len(jobs) > 1]
    assert twice
    assert all(b - a > LIMITS.whole_batches for a, b in pairwise(twice))


def test_an_idle_topology_asks_its_spouts_only_when_it_is_warm():
    driver = make(after=WARM_BATCHES + 5)
    assert set(map(tuple, steps(driver, WARM_BATCHES)[1:])) == {((0, 3),)}
    assert steps(driver, 3) == [[(0, 1)], [(0, 1)], [(0, 1)]]
    ran = steps(driver, 3)  # its calls succeed now
    assert [(0, 1), (1, 3)] in ran
    assert driver.totals.trees.acked > 0
    driver.run(Stop(when_drained=True))
    assert state_of(driver, "count") == dict.fromkeys(range(50), 2)
    assert driver.totals.sum(RESTORED) == 0


def test_an_idle_topology_runs_all_stages_when_a_tick_is_due():
    driver = make(limit=0, tick_seconds=0.035)
    driver.coordinator.idle.warmed = WARM_BATCHES
    ran = steps(driver, 12)
    assert [(0, 1)] in ran
    assert [(0, 3)] in ran
    ticks = driver.totals.counts["count", "executed", "__system:__tick"]
    assert ticks == 2 * int(driver.coordinator.clock.seconds // 0.035) > 0


def test_rows_that_are_too_many_for_a_header_go_through_the_checkpoint():
    driver = make(after=6, late=7, tick_seconds=0.5, limits=EngineLimits(header_bytes=10))
    driver.run(Stop(when_drained=True))
    assert any(len(ran) > 1 for ran in driver.jobs.attempts)
    assert state_of(driver, "count") == dict.fromkeys(range(50), 2)
    assert driver.totals.trees.acked == 50


def test_a_batch_that_failed_runs_whole():
    driver = make()
    limited(driver, 5, 2)
    stages = []

    def fault(stage, partition, moment):
        stages.append(stage)
        if stage == 1 and not driver.totals.failed_attempts:
            raise Crash("killed")

    driver.jobs.fault = fault
    assert not driver.step()
    assert limited(driver, 5, 2) == [[(0, 4)], [(0, 3)]]
    driver.run(Stop(when_drained=True))
    assert state_of(driver, "count") == dict.fromkeys(range(50), 2)
