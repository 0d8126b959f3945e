"""Batches that take long whatever they hold do not shrink to nothing, and others are as before."""

import pytest

from fulmen.engine.batches.size.batch_size import WHOLE_SHARE, BatchSize
from fulmen.engine.batches.size.fixed_cost import BATCHES_BETWEEN_TRIALS, FixedCost
from fulmen.engine.batches.size.permits import (
    ENOUGH_BATCHES,
    LAST_BATCHES,
    MOST_OVERHEAD,
    RecentBatches,
    is_full,
    next_permit,
)
from fulmen.engine.batches.summaries import BYTES_PER_SECOND
from fulmen.engine.protocol.summary import Summary
from support.runs.coordinators import Checked, batch_of, placed, told
from support.suite.seeds import generator, several

TARGET = 0.25


def batches(coordinator, number, seconds):
    """Run so many; how many tuples each of them has, and how long it takes.

    Args:
        coordinator: Of a topology whose spouts always have more.
        number: How many batches.
        seconds: How long one takes, by its tuples.
    """
    made = []
    for _ in range(number):
        tuples = coordinator.begin().default_permit
        took = seconds(tuples)
        coordinator.succeed(took, emitted=tuples, work=took)
        made.append((tuples, took))
    return made


def speed(made):
    return sum(tuples for tuples, _ in made) / sum(took for _, took in made)


@pytest.fixture
def coordinator():
    made = Checked()
    assert made.target_seconds == TARGET
    return made


@pytest.mark.parametrize("each", [1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("fixed", [0.3, 0.5, 1.0, 3.0])
def test_half_of_the_time_is_for_tuples_where_batches_are_slow_whatever_they_hold(
    coordinator, fixed, each
):
    made = batches(coordinator, 200, lambda n: fixed + each * n)[100:]
    assert speed(made) > 0.4 / each
    assert max(took for _, took in made) < 2.2 * fixed
    assert coordinator.begin().emit_seconds == pytest.approx(WHOLE_SHARE * 2 * fixed)


@pytest.mark.parametrize("seed", several(3))
def test_it_does_not_matter_that_the_slow_call_is_not_equally_slow_each_time(coordinator, seed):
    with generator(seed) as rng:
        made = batches(coordinator, 300, lambda n: rng.uniform(0.5, 3) + 1e-3 * n)[150:]
    assert speed(made) > 100


@pytest.mark.parametrize("each", [1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("fixed", [0.0, 0.02, 0.1])
def test_batches_whose_tuples_take_most_of_their_time_keep_to_their_target(
    coordinator, fixed, each
):
    made = batches(coordinator, 200, lambda n: fixed + each * n)[20:]
    assert min(took for _, took in made) > TARGET / 2
    assert max(took for _, took in made) < 1.1 * TARGET
    assert coordinator.begin().emit_seconds == WHOLE_SHARE * TARGET


def test_batches_that_become_quicker_as_everything_becomes_warm_keep_to_their_target(coordinator):
    slowness = [max(1.0, 40 * 0.9**batch) for batch in range(200)]
    made = batches(coordinator, 200, lambda n: (0.02 + 1e-4 * n) * slowness.pop(0))
    assert max(took for _, took in made) < 8 * TARGET
    assert max(took for _, took in made[100:]) < 1.1 * TARGET


def test_it_is_noticed_when_a_slow_call_comes_and_when_it_is_over(coordinator):
    before = batches(coordinator, 60, lambda n: 1e-3 * n)
    slow = batches(coordinator, 60, lambda n: 2.0 + 1e-3 * n)
    after = batches(coordinator, 2 * BATCHES_BETWEEN_TRIALS, lambda n: 1e-3 * n)
    assert speed(before[20:]) == pytest.approx(1000)
    assert speed(slow[30:]) > 400
    assert max(took for _, took in after[-10:]) < 1.1 * TARGET


def test_spouts_that_have_few_tuples_change_nothing(coordinator):
    for _ in range(100):
        permit = coordinator.begin().default_permit
        coordinator.succeed(3.0, emitted=min(3, permit), work=3.0)
    assert coordinator.it.size.permit == 64


@pytest.mark.parametrize("seed", several(3))
def test_on_a_busy_machine_half_of_the_time_is_for_tuples_that_wait(coordinator, seed):
    """A bolt waits 7 ms for each tuple; processes wait for the CPU whatever batches hold."""
    with generator(seed) as rng:
        made = []
        for _ in range(200):
            tuples = coordinator.begin().default_permit
            asks, starved = 0.007 * tuples, rng.uniform(0.05, 0.4)
            took = asks + starved + rng.uniform(0.5, 1.5)
            cpu = 0.02 + 0.0003 * tuples
            coordinator.succeed(
                took, emitted=tuples, work=asks + starved, busy={1: asks}, cpu_seconds=cpu
            )
            made.append((tuples, took))
    assert speed(made[50:]) > 0.35 / 0.007
    assert max(took for _, took in made[50:]) < 4
    assert coordinator.begin().emit_seconds > TARGET


def test_a_machine_that_is_busy_no_more_has_batches_of_their_target(coordinator):
    def step(besides):
        tuples = coordinator.begin().default_permit
        asks = 0.007 * tuples
        coordinator.succeed(
            asks + besides, emitted=tuples, work=asks, busy={1: asks}, cpu_seconds=0.001
        )
        return asks + besides

    slow = [step(1.0) for _ in range(100)]
    assert max(slow) > 1.5
    quick = [step(0.005) for _ in range(100)]
    assert max(quick[80:]) < 1.2 * TARGET


def test_a_smaller_batch_is_wanted_when_none_was_for_long():
    cost = FixedCost()
    for tuples, number in ((10, BATCHES_BETWEEN_TRIALS), (8, BATCHES_BETWEEN_TRIALS + 1)):
        for _ in range(number - 1):
            cost.took(tuples, 1.0)
            assert not cost.wants_trial()
        cost.took(0, 1.0)  # it tells nothing
        assert not cost.wants_trial()
        cost.took(tuples, 1.0)
        assert cost.wants_trial()


def test_a_batch_that_is_slow_whatever_it_holds_is_made_smaller_now_and_then_but_not_empty():
    size, permits = BatchSize(), []
    for tuples in (6, *[4] * (BATCHES_BETWEEN_TRIALS + 1)):
        size.permit = 7
        made = [Summary(0, 0, emitted=tuples, seconds=0.9 + tuples / 100)]
        size.adapt(
            batch_of(*made, seconds=made[0].seconds), made[0].seconds, 0.0, placed().topology.spec
        )
        permits.append(size.permit)
    assert permits[1:] == [7] * BATCHES_BETWEEN_TRIALS + [1]


def test_tuples_may_take_as_long_as_the_last_batches_took_besides_them():
    recent = RecentBatches()
    for _ in range(ENOUGH_BATCHES):
        assert recent.at_least_overhead(TARGET) == TARGET
        recent.took(0, 9.0, 0.0)  # it had no tuples
        recent.took(1, 1.5, 0.5)
    assert recent.at_least_overhead(TARGET) == 1.0
    for besides, longest in ((1.0, 1.0), (0.5, 0.5), (0.1, TARGET), (9.0, MOST_OVERHEAD * TARGET)):
        for _ in range(2 * LAST_BATCHES // 3):
            recent.took(1, 0.5 + besides, 0.5)
        assert recent.at_least_overhead(TARGET) == pytest.approx(longest)


def test_the_newest_batch_is_compared_with_the_quickest_or_with_what_each_takes():
    recent = RecentBatches()
    for tuples, seconds in ((3, 0.5), (1, 3.0), (2, 2.0), (4, 5.0)):
        recent.took(tuples, seconds, 0.0)
    assert (recent.excess(0.0), recent.beyond_smaller(0.0)) == (4.5, 3.0)
    assert (recent.excess(4.0), recent.beyond_smaller(4.0)) == (1.0, 1.0)
    recent.took(1, 0.75, 0.0)
    assert (recent.excess(0.0), recent.beyond_smaller(0.0)) == (0.25, None)


FEW_OF_MANY_BYTES = Summary(0, 0, emitted=100, moved_bytes=int(BYTES_PER_SECOND))


@pytest.mark.parametrize(
    ("permit", "summaries", "work", "expected"),
    [
        pytest.param(1, [], 0.1, 1, id="nothing-ran"),
        pytest.param(1000, [], 0.5, 1000, id="nothing-ran-and-slow"),
        pytest.param(2, [Summary(0, 0, emitted=2)], 5.0, 1, id="one-tuple-at-least"),
        pytest.param(64, [Summary(0, 0, emitted=64), Summary(0, 1)], 0.1, 128, id="one-of-two"),
        pytest.param(1000, [FEW_OF_MANY_BYTES, Summary(0, 1)], 0.5, 45, id="large-tuples"),
        pytest.param(1000, [Summary(0, 0, emitted=100)], 0.5, 1000, id="small-tuples"),
    ],
)
def test_the_task_that_emitted_most_decides(permit, summaries, work, expected):
    assert next_permit(permit, summaries, work, 0.0, TARGET) == expected


@pytest.mark.parametrize(
    ("emitted", "pending", "limit", "full"),
    [
        ((), {}, None, False),
        ((0,), {}, None, False),
        ((1, 0), {}, None, True),
        ((0,), {4: 9, 5: 0}, 10, False),
        ((0,), {4: 10, 5: 0}, 10, True),
        ((0,), {4: 10}, None, False),
    ],
)
def test_a_batch_is_full_if_a_task_emitted_all_that_it_may(emitted, pending, limit, full):
    summaries = [
        Summary(0, n, emitted=one, **told(spout_pending=pending)) for n, one in enumerate(emitted)
    ]
    assert is_full(1, summaries, limit) is full
