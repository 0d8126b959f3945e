"""What a driver says of its load: of the last minute, and only of the plan that is in force."""

import pytest

from fulmen import TopologyBuilder
from fulmen.api.signals import Lag
from fulmen.engine.driver.stop import Stop
from fulmen.engine.protocol.figures.statistics import (
    BATCHES,
    TASK_EMITTED,
    TASK_EXECUTED,
    TASK_SECONDS,
)
from fulmen.engine.totals.counted import StageSeconds
from fulmen.kube.driver.load_meter import LEAST_SECONDS, WINDOW_SECONDS, LoadMeter
from fulmen.kube.load import Load
from fulmen.plan.model import DRIVER
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.runs.engine_runs import make_driver


def built(workers=2):
    builder = TopologyBuilder(name="shop", workers=workers)
    builder.set_spout("orders", ListSpout([]), parallelism=3)
    builder.set_bolt("prices", CollectBolt, parallelism=2).shuffle_grouping("orders")
    return builder


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def driver(clock):
    driver = make_driver(built(), clock=clock).start()
    yield driver
    driver.close()


def work(totals, seconds=0.0, tuples=0, emitting=0, cpu=0.0, run_delay=0.0):
    """A batch in which the first task of the bolt worked so long."""
    plan = totals.placed.plan
    orders, prices = plan.tasks("orders"), plan.tasks("prices")
    totals.counts["", BATCHES, ""] += 1
    totals.tasks[prices.start, [TASK_EXECUTED, TASK_SECONDS]] += [tuples, seconds]
    totals.tasks[orders.start : orders.start + emitting, TASK_EMITTED] += tuples
    totals.stages.setdefault(plan.stage_of("orders"), StageSeconds())
    number = plan.stage_of("prices")
    before = totals.stages.get(number, StageSeconds())
    after = StageSeconds(seconds, 1.5 * seconds, 2, cpu, run_delay)
    totals.stages[number] = StageSeconds(*map(sum, zip(before, after, strict=True)))


def test_nothing_is_said_of_a_short_time(driver, clock):
    meter = LoadMeter()
    assert meter.measure(driver.totals) is None
    clock.advance(LEAST_SECONDS - 1)
    work(driver.totals)
    assert meter.measure(driver.totals) is None
    clock.advance(1)
    work(driver.totals)
    assert meter.measure(driver.totals) is not None


def test_what_was_done_is_told_as_shares_of_the_time(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    work(totals, seconds=20, tuples=4000, emitting=2, cpu=6, run_delay=12)
    clock.advance(40)
    load = meter.measure(totals)
    assert (load.workers, load.tuples, load.lag) == (2, 100.0, None)
    assert (load.cpu, load.run_delay) == (0.2, 0.4)
    stage = next(s for s in load.stages if "prices" in [c.name for c in s.components])
    assert (stage.slowest, stage.workers) == (0.5, 0.75)
    told = {part.name: part for stage in load.stages for part in stage.components}
    prices, orders = told["prices"], told["orders"]
    assert (prices.seconds, prices.busiest, prices.tasks, prices.active) == (0.5, 0.5, 2, 1)
    assert (orders.seconds, orders.tasks, orders.active) == (0.0, 3, 2)


def test_pinned_spouts_that_wait_in_the_driver_for_messages_are_no_load(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    work(totals, seconds=20, tuples=4000, emitting=2, cpu=30)
    totals.stages[DRIVER] = StageSeconds(slowest=40, workers=80, runs=2)
    clock.advance(40)
    load = meter.measure(totals)
    assert sum(stage.slowest for stage in load.stages) == 0.5
    assert (load.cpu, load.run_delay) == (1.0, 0.0)


def test_what_was_done_more_than_a_minute_ago_does_not_count(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    work(totals, seconds=30, tuples=100, emitting=1)
    for _ in range(7):
        clock.advance(WINDOW_SECONDS / 6)
        work(totals)
        load = meter.measure(totals)
    assert load.tuples == 0
    assert sum(stage.slowest for stage in load.stages) == 0


def test_an_idle_topology_says_the_same_whenever_it_is_asked(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    said = set()
    for _ in range(9):
        clock.advance(LEAST_SECONDS)
        work(totals, seconds=0.0004 * LEAST_SECONDS)
        load = meter.measure(totals)
        if load is not None:
            said.add(load.model_copy(update={"cpu": 1.0}).to_json())
    assert len(said) <= 2


def test_other_executors_are_measured_from_their_beginning(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    clock.advance(30)
    work(totals)
    assert meter.measure(totals) is not None
    stop = Stop(topology=built(workers=1).build())
    while stop.topology is not None:
        driver.follow(stop)
        driver.step()
    assert meter.measure(totals) is None
    clock.advance(LEAST_SECONDS)
    work(totals)
    assert meter.measure(totals).workers == 1


def test_a_batch_that_takes_minutes_is_no_time_without_work(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    for seconds in (90, 90):
        for _ in range(seconds // 5):
            clock.advance(5)
            load = meter.measure(totals)
            assert load is None or load.stages[-1].slowest == 1.0
        work(totals, seconds=seconds, tuples=1, emitting=1)
        assert meter.measure(totals).stages[-1].slowest == 1.0


def test_while_no_batch_succeeds_nobody_knows_what_there_is_to_do(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    clock.advance(30)
    work(totals, seconds=25, tuples=100, emitting=1)
    assert meter.measure(totals) is not None
    totals.attempt_failed("a service is away")
    for _ in range(3):
        assert meter.measure(totals) is None
        clock.advance(LEAST_SECONDS)
    work(totals, seconds=25, tuples=100, emitting=1)
    assert meter.measure(totals).stages[-1].slowest == 0.42


def test_an_attempt_that_fails_among_batches_is_no_reason_to_begin_anew(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    clock.advance(30)
    work(totals, seconds=15)
    totals.attempt_failed("a worker was lost")
    assert meter.measure(totals).stages[-1].slowest == 0.5


def test_what_was_counted_before_a_rest_is_not_of_the_last_minute(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    meter.measure(totals)
    meter.forget()
    clock.advance(10 * WINDOW_SECONDS)
    work(totals, seconds=1)
    assert meter.measure(totals) is None


def test_the_oldest_message_of_all_sources_counts(driver, clock):
    meter, totals = LoadMeter(), driver.totals
    tasks = totals.placed.plan.tasks("orders")
    totals.waits.lags = {tasks[0]: Lag(5, 3.2), tasks[1]: Lag(100, 61.4), tasks[2]: Lag(1, None)}
    meter.measure(totals)
    clock.advance(30)
    work(totals)
    load = meter.measure(totals)
    assert (load.lag, load.behind) == (61, "orders")


def test_another_version_of_the_operator_reads_it(driver, clock):
    meter = LoadMeter()
    meter.measure(driver.totals)
    clock.advance(30)
    work(driver.totals)
    load = meter.measure(driver.totals)
    assert Load.from_json(load.to_json()) == load
