"""A transactional topology that stops, changes or starts again: what is open is committed."""

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.testing import TransactionFault, run
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.driven import Driven, collecting
from support.transactions.sources import Numbers
from support.transactions.words import collected

ACTIVE = 3


def numbers(name, workers=2, executors=2, take=2, **spec):
    spec = {"max_spout_pending": ACTIVE, **spec}
    builder = collecting(name, Numbers(60, take), workers=workers, **spec)
    builder._bolts["collect"]["parallelism"] = executors
    return builder.build()


def open_ones(driven):
    """The txids that have metadata and are not committed."""
    ledger = driven.transactions.ledger
    return [txid for txid in ledger.metadata if txid > ledger.committed]


@pytest.fixture
def name():
    return fresh_store()


@pytest.fixture
def driven(name):
    made = Driven(numbers(name))
    made.step(4)
    assert len(open_ones(made)) == ACTIVE - 1  # the last batch has committed one
    yield made
    made.driver.close()


def check_end(driven, name):
    driven.driver.run(Stop(when_drained=True))
    assert sorted(collected(STORES[name].all())) == list(range(60))
    numbers = [attempt.attempt for attempt in driven.attempts]
    assert max(numbers) >> 32 == driven.driver.log.epoch


def test_a_deactivated_topology_commits_what_is_open_and_opens_nothing(driven, name):
    was_open = open_ones(driven)
    stop = Stop(active=False)
    for _ in range(20):
        driven.driver.follow(stop)
        driven.driver.step()
    assert driven.transactions.ledger.committed == max(was_open)
    assert driven.transactions.is_settled
    assert driven.driver.coordinator.settled
    stop.active = True
    driven.driver.follow(stop)
    driven.step()
    assert open_ones(driven) == [max(was_open) + n for n in range(1, ACTIVE + 1)]
    check_end(driven, name)


def test_what_fails_while_it_is_deactivated_comes_again(driven, name):
    driven.driver.follow(Stop(active=False))
    was_open = open_ones(driven)
    for worker in (0, 1):
        driven.lose(worker)
    for _ in range(20):
        driven.driver.step()
        driven.clock.advance(1)
    assert driven.transactions.ledger.committed == max(was_open)
    driven.driver.follow(Stop(active=True))
    check_end(driven, name)


def test_a_drain_ends_when_all_that_are_open_are_committed(driven, name):
    was_open = open_ones(driven)
    driven.driver.run(Stop(drain=True))
    assert driven.transactions.ledger.committed == max(was_open)
    assert driven.transactions.is_settled
    counted = sorted(collected(STORES[name].all()))
    assert counted == list(range(2 * max(was_open)))


def test_a_drain_waits_for_what_fails_meanwhile(driven, name):
    was_open = open_ones(driven)
    driven.lose(0)
    driven.lose(1)
    driven.driver.run(Stop(drain=True))
    assert driven.transactions.ledger.committed == max(was_open)
    assert sorted(collected(STORES[name].all())) == list(range(2 * max(was_open)))


@pytest.mark.parametrize("take", [2, 3])
def test_another_run_goes_on_behind_a_drain(driven, name, take):
    """Metadata of what is committed tell the next one where to begin, with any batch size."""
    driven.driver.run(Stop(drain=True))
    result = run(numbers(name, workers=3, take=take), checkpoint=driven.store)
    first = driven.transactions.ledger.committed + 1
    rest = 60 - 2 * (first - 1)
    assert result.transactions.committed[0] == first
    assert len(result.transactions.committed) == -(-rest // take)
    assert sorted(collected(STORES[name].all())) == list(range(60))


def test_another_run_goes_on_with_what_was_open_when_the_driver_stopped(driven, name):
    open_before = open_ones(driven)
    result = run(numbers(name, workers=1), checkpoint=driven.store)
    assert result.transactions.committed[:2] == open_before
    assert sorted(collected(STORES[name].all())) == list(range(60))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"workers": 3}, id="a worker more"),
        pytest.param({"workers": 1}, id="a worker less"),
        pytest.param({"executors": 1}, id="executors"),
    ],
)
def test_a_rebalance_waits_until_all_that_are_open_are_committed(driven, name, changed):
    was_open = open_ones(driven)
    wanted = numbers(name, **changed)
    stop = Stop(topology=wanted)
    while stop.topology is not None:
        driven.driver.follow(stop)
        committed = driven.transactions.ledger.committed
        driven.step()
    assert committed == max(was_open)
    assert driven.driver.plan.workers == wanted.spec.workers
    assert STORES[name].notes().count(("committed", max(was_open))) == 2  # of two tasks
    check_end(driven, name)


@pytest.mark.parametrize("most", [1, 5])
def test_limits_change_at_once_and_what_was_open_comes_again(driven, name, most):
    before = dict(driven.transactions.active)
    was_open = open_ones(driven)
    driven.driver.follow(Stop(topology=numbers(name, max_spout_pending=most)))
    assert driven.transactions.most == most
    driven.step()
    for txid, one in driven.transactions.active.items():
        assert txid not in before or one.attempt > before[txid].attempt
    assert min(driven.transactions.active) == min(was_open)
    assert driven.transactions.ledger.failures == {}
    driven.step()
    assert len(driven.transactions.active) <= most
    check_end(driven, name)


def test_attempts_rise_over_any_number_of_changes(driven, name):
    for round_ in range(6):
        config = {"store": name, "round": round_}
        driven.driver.follow(Stop(topology=numbers(name, config=config)))
        driven.step()
    numbers_of = [attempt.attempt for attempt in driven.attempts]
    last = {}
    for attempt in driven.attempts:
        assert attempt.attempt >= last.get(attempt.txid, 0)
        last[attempt.txid] = attempt.attempt
    assert len(set(numbers_of)) > 6
    check_end(driven, name)


def test_runs_that_end_anywhere_and_begin_anew_store_each_row_once(name):
    checkpoint, faults = None, [TransactionFault(5, "collect", "committing", kills=True)]
    for batches in (1, 1, 2, 3, 5, 8, 13):
        result = run(
            numbers(name, workers=1 + batches % 3),
            checkpoint=checkpoint,
            batches=batches,
            failing=faults,
        )
        checkpoint = result.checkpoint
    run(numbers(name), checkpoint=checkpoint)
    assert sorted(collected(STORES[name].all())) == list(range(60))
