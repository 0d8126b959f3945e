"""How many workers there are under simulated loads, and why there are no more."""

from datetime import timedelta
from math import cos, pi
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.topology.resource.status import RememberedWorkers
from fulmen_operator.model import text_of
from fulmen_operator.reconcile.scaling.autoscaling import (
    FORGET_SECONDS,
    FULL_SECONDS,
    LIMITED,
    ROOM,
    ScalingReason,
)
from support.operator.simulated_load import Simulation, Work

HOUR = 3600
SCALE = {"maxWorkers": 8}
TARGET = 0.7
NOISE = 1.03


def constant(rate):
    return lambda at: rate


def wave(low, high, period):
    return lambda at: low + (high - low) * (1 - cos(2 * pi * at / period)) / 2


def numbers(run):
    return [workers for _, workers in run.history]


def changes(run, since=0.0):
    return sum(at > since for at, _ in run.history)


def is_right(run, work):
    """Whether there are enough workers, and no more than what is kept as room."""
    enough = work.needed(run.at, TARGET * NOISE)
    return enough <= run.status.workers <= work.needed(run.at, ROOM * TARGET / NOISE)


# ---- the number follows the load


@pytest.mark.parametrize("rate", [0, 50, 100, 200, 300, 500])
def test_a_constant_load_gets_the_workers_that_it_needs_and_keeps_them(rate):
    work = Work(constant(rate))
    run = Simulation(work, SCALE).run(HOUR)
    assert is_right(run, work)
    assert changes(run.run(12 * HOUR), since=HOUR) == 0


def test_many_workers_for_nothing_become_the_fewest_in_one_step():
    run = Simulation(Work(constant(0)), {"maxWorkers": 8, "minWorkers": 2}, workers=8).run(HOUR)
    assert numbers(run) == [8, 2]
    assert run.history[1][0] >= 600


def test_steps_are_followed_up_in_minutes_and_down_after_a_while():
    def rate(at):
        return 300 if HOUR <= at < 2 * HOUR else 30

    run = Simulation(Work(rate), SCALE).run(4 * HOUR)
    assert numbers(run)[0] == numbers(run)[-1] == 1
    assert max(numbers(run)) >= 5
    assert changes(run) <= 5
    assert run.worst_lag < 300
    assert run.history[-1][0] >= 2 * HOUR + 600


def test_workers_that_were_no_faster_are_tried_at_once_when_what_batches_waited_for_is_faster():
    def rate(at):
        return 300 if at >= HOUR else 55

    run = Simulation(Work(rate, service=60), SCALE).run(HOUR)
    assert run.status.reason == "NoFaster"
    tried = numbers(run)
    run.work.service = None
    run.run(600)
    assert run.status.workers >= 4 > max(tried)


def test_what_gathered_before_the_start_is_worked_off_without_more_workers():
    run = Simulation(Work(constant(20)), SCALE, gathered=600).run(HOUR)
    assert numbers(run) == [1]
    assert (run.worst_lag > 500, run.lag) == (True, 0)
    assert any("is worked off" in message for message in run.messages)


def test_on_a_full_node_there_is_more_patience_with_what_has_gathered():
    work = Work(constant(20), processors=0.4)  # 40 a second instead of 100
    run = Simulation(work, SCALE, gathered=300).run(HOUR)
    assert numbers(run) == [1]
    assert (run.worst_lag > 250, run.lag) == (True, 0)
    slow = Simulation(Work(constant(20), cost=1 / 40), SCALE, gathered=300).run(HOUR)
    assert max(numbers(slow)) > 1, "the same pace, with a processor for each worker"


def test_what_would_be_worked_off_too_slowly_gets_more_workers():
    run = Simulation(Work(constant(20)), SCALE, gathered=HOUR).run(HOUR)
    assert max(numbers(run)) > 1


def test_a_daily_wave_is_followed_without_going_up_and_down_on_the_way():
    work = Work(wave(20, 400, 24 * HOUR))
    run = Simulation(work, SCALE).run(24 * HOUR)
    top = numbers(run).index(8)
    assert numbers(run)[:top] == sorted(numbers(run)[:top])
    assert numbers(run)[top:] == sorted(numbers(run)[top:], reverse=True)
    assert changes(run) <= 14
    assert run.worst_lag < 30


def test_waves_too_short_to_follow_make_fewer_and_fewer_changes():
    run = Simulation(Work(wave(20, 400, 1800)), SCALE).run(24 * HOUR)
    assert changes(run, since=12 * HOUR) <= 4
    assert run.worst_lag < 30


def test_spikes_of_a_minute_don_t_make_it_flap():
    run = Simulation(Work(lambda at: 500 if at % 900 < 60 else 30), SCALE).run(24 * HOUR)
    assert changes(run, since=12 * HOUR) <= 6


def test_a_spike_in_each_hour_is_worked_off_and_its_workers_given_back():
    run = Simulation(Work(lambda at: 500 if 1800 < at % HOUR < 2100 else 30), SCALE).run(6 * HOUR)
    assert run.lag == 0
    assert numbers(run).count(1) == 7
    assert changes(run) <= 1 + 6 * 5


# ---- what more workers can't cure


def test_a_service_that_is_slow_gets_its_second_worker_back_again_and_that_is_remembered():
    run = Simulation(Work(constant(100), service=60), SCALE).run(24 * HOUR)
    assert set(numbers(run)) == {1, 2}
    assert changes(run) <= 16
    tried = [at for at, workers in run.history if workers == 2]
    assert tried[1] - tried[0] > FORGET_SECONDS
    assert run.status.reason == "NoFaster"
    assert "wait for something outside" in run.status.message


def test_on_a_full_node_more_workers_are_tried_again_soon_and_the_node_is_told_of():
    run = Simulation(Work(constant(100), processors=0.6), SCALE).run(HOUR)
    assert set(numbers(run)) == {1, 2}
    tried = [at for at, workers in run.history if workers == 2]
    assert FULL_SECONDS < tried[1] - tried[0] < FORGET_SECONDS
    assert changes(run.run(24 * HOUR), since=HOUR) <= 20
    assert run.status.reason == "NodesAreFull"
    assert "too little of a processor" in run.status.message


def test_a_node_that_is_full_no_more_gives_a_topology_its_workers_at_once():
    run = Simulation(Work(constant(100), processors=0.6), SCALE).run(2 * HOUR)
    run.work.processors = None
    work = run.work
    assert run.run(1200).status.workers > 1
    assert is_right(run.run(HOUR), work)


def test_workers_without_a_processor_do_not_count_as_waiting_for_something_outside():
    run = Simulation(Work(constant(300), processors=2.0), SCALE).run(HOUR)
    assert "wait for something outside" not in " ".join(run.messages)
    first, second = numbers(run)[:2]
    assert (first, second) == (1, 2)
    assert run.history[2][1] == 4


def test_a_service_that_takes_more_from_more_workers_gets_them():
    work = Work(constant(300), service=1000)
    run = Simulation(work, SCALE).run(HOUR)
    assert run.lag == 0


@pytest.mark.parametrize(
    ("work", "most", "reason", "named"),
    [
        (Work(constant(180), hot=0.95), 1, "HotKey", "'split'"),
        (Work(constant(300), tasks=2), 2, "TasksAreTheLimit", "1 of the 2 tasks of 'split'"),
        (
            Work(constant(100), spout_cost=0.05, cost=0.001, partitions=3),
            3,
            "SourceIsTheLimit",
            "only 3 of 16 tasks of 'sentences'",
        ),
        (Work(constant(3000), tasks=64), 8, "AtMaximum", "maxWorkers is 8"),
    ],
    ids=["hot-key", "tasks", "partitions", "maximum"],
)
def test_it_says_why_there_are_no_more(work, most, reason, named):
    run = Simulation(work, SCALE).run(6 * HOUR)
    assert (run.status.workers, run.status.reason) == (most, reason)
    assert named in run.status.message
    assert run.status.message.startswith("messages of 'sentences' wait longer than maxLag, ")


def test_bolts_that_have_much_to_do_get_more_workers_than_the_source_has_partitions():
    run = Simulation(Work(constant(300), partitions=3), SCALE).run(HOUR)
    assert run.status.workers > 3


def test_a_source_that_lags_although_batches_have_time_gets_no_workers():
    run = Simulation(Work(constant(30)), SCALE)
    run.waiting.append((0.0, 1e9))
    load = run.load
    run.load = lambda workers, rate: load(workers, 30)
    run.run(HOUR)
    assert numbers(run) == [1]
    assert run.status.reason == "WorkersAreNotTheLimit"


# ---- any load


loads = st.builds(
    Work,
    rate=st.one_of(
        st.builds(constant, st.floats(0, 600)),
        st.builds(wave, st.floats(0, 100), st.floats(0, 600), st.floats(HOUR, 24 * HOUR)),
    ),
    cost=st.floats(0.0001, 0.02),
    tasks=st.integers(1, 32),
    hot=st.sampled_from([0.0, 0.0, 0.3, 0.9]),
    spout_cost=st.floats(0.00001, 0.005),
    partitions=st.integers(1, 16),
    service=st.one_of(st.none(), st.floats(10, 400)),
)


EACH_HELPS_HARDLY = Work(
    constant(109),
    cost=0.0078125,
    tasks=20,
    hot=0.3,
    spout_cost=0.00390625,
    partitions=6,
    service=167,
)


@given(loads, st.integers(1, 8), st.integers(0, 3))
@example(EACH_HELPS_HARDLY, 3, 1)
def test_a_load_that_stays_comes_to_rest_or_it_says_why_there_is_too_much(work, workers, seed):
    work.rate = constant(work.rate(0))
    run = Simulation(work, SCALE, workers, seed, step=60.0).run(3 * HOUR)
    assert all(1 <= number <= 8 for number in numbers(run))
    assert changes(run) <= 20  # what was no faster is tried again now and then
    assert changes(run, since=2 * HOUR) <= 4
    if run.lag > 60:
        assert {"TooFew", "Measuring", *LIMITED} >= set(run.reasons[-5:])
        assert set(LIMITED) & set(run.reasons[-10:])


@pytest.mark.parametrize(("limited", "times"), [(0, 0), (5 * HOUR, 2)])
def test_how_often_more_were_no_faster_is_known_until_the_load_falls_without_a_limit(
    limited, times
):
    run = Simulation(Work(constant(0)), SCALE, workers=4)
    run.look()
    until = text_of(run.now + timedelta(seconds=limited))
    most = RememberedWorkers(workers=4, until=until, times=2)
    run.status = run.status.model_copy(update={"most": most})
    run.run(HOUR)
    assert numbers(run) == [4, 1]
    assert run.status.most.times == times


@pytest.mark.parametrize("rate", [0, 300], ids=["down", "up"])
def test_a_clock_that_is_set_back_does_not_make_it_wait_for_its_old_time(rate):
    run = Simulation(Work(constant(rate)), SCALE, workers=3).run(50)
    assert run.status.pressure_since
    run.at = run.settled = -5.0 * HOUR
    run.run(1000)
    assert numbers(run)[1:]


def test_what_is_remembered_is_forgotten_in_time_although_the_clock_was_set_back():
    run = Simulation(Work(constant(300)), SCALE)
    run.look()
    until = text_of(run.now + timedelta(days=900))
    most = RememberedWorkers(workers=1, until=until, times=1)
    least = RememberedWorkers(workers=8, until=until, times=1)
    run.status = run.status.model_copy(update={"most": most, "least": least})
    run.look()
    assert (run.status.most.workers, run.status.least.workers) == (0, 0)


def test_workers_that_were_no_faster_are_not_remembered_as_too_few():
    scale = {**SCALE, "downAfter": "1h"}
    run = Simulation(Work(constant(100), service=60), scale).run(6 * HOUR)
    assert numbers(run)[:4] == [1, 2, 1, 2]
    assert run.status.least.times == 0


def test_a_lower_maximum_that_is_taken_back_is_not_remembered_as_too_few():
    run = Simulation(Work(constant(300)), SCALE).run(HOUR)
    spec = run.spec
    run.spec = spec.model_copy(
        update={"autoscale": spec.autoscale.model_copy(update={"max_workers": 2})}
    )
    run.run(60)
    run.spec = spec
    run.run(HOUR)
    assert numbers(run)[-1] > 2
    assert run.status.least.times == 0


def test_loads_of_the_property_show_all_that_there_is_to_say():
    seen = set()
    for seed in range(60):
        random = Random(seed)
        work = Work(
            constant(random.uniform(0, 300)),
            cost=random.uniform(0.0001, 0.02),
            tasks=random.randint(1, 32),
            hot=random.choice([0, 0, 0.3, 0.9]),
            spout_cost=random.uniform(0.00001, 0.01),
            partitions=random.randint(1, 16),
            service=random.choice([None, None, 50]),
            processors=random.choice([None, None, 0.5]),
        )
        seen |= set(Simulation(work, SCALE, random.randint(1, 8), step=60.0).run(HOUR / 2).reasons)
    elsewhere = {"Measuring", "WorkersMissing", "WorkersAreNotTheLimit"}
    assert seen == {*ScalingReason} - elsewhere
