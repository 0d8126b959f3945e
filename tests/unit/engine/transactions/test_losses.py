"""Workers that are lost, and plans that change, while transactions wait to be committed."""

import pytest

from fulmen import TransactionalTopologyBuilder, TransactionAttempt
from fulmen.engine.batches.pace.idle import WARM_BATCHES
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.transaction_work import FailedAttempt
from fulmen.engine.tasks.attempts import FailedAttempts
from fulmen.engine.worker.worker import void_row
from fulmen.errors import JobFailed, TopologyFailed
from fulmen.testing import ManualClock, TransactionFault, run
from support.runs.engine_runs import Steady, make_driver, new_store
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.driven import Driven, collecting
from support.transactions.sources import ChangingRows, Numbers, NumbersCoordinator
from support.transactions.words import CollectAtOnce, collected, four_phases


def test_a_worker_that_is_lost_between_batches_costs_an_attempt_and_no_transaction():
    name = fresh_store()
    driven = Driven(collecting(name, workers=2, max_replays=0, max_spout_pending=2))
    driven.step()
    driven.lose(0)
    driven.lose(1)
    driven.step()
    assert driven.transactions.active == {}
    assert driven.transactions.ledger.failures == {}
    driven.to_the_end()
    assert driven.transactions.ledger.given_up == ()
    assert sorted(collected(STORES[name].all())) == [1, 2, 3, 4, 5]


def test_a_worker_of_no_use_to_the_commit_may_be_lost():
    name = fresh_store()
    driven = Driven(four_phases({"store": name}, workers=3))
    driven.step()
    plan = driven.driver.plan
    needed = {plan.worker_of(t) for c in "BCD" for t in plan.tasks(c)}
    (spare,) = {0, 1, 2} - needed or {None}
    if spare is not None:
        driven.lose(spare)
    driven.step()
    assert driven.transactions.ledger.committed == 1
    driven.driver.close()


class OneLess(Steady):
    """A worker is gone, and does not come back."""

    gone = ()

    def alive(self):
        return tuple(w for w in super().alive() if w not in self.gone)

    recover = alive


def test_what_waited_comes_again_when_it_is_planned_anew():
    name, store, clock = fresh_store(), new_store(), ManualClock()
    jobs = OneLess(clock, store=store)
    builder = collecting(name, workers=2, max_replays=0)
    driver = make_driver(builder, store=store, clock=clock, jobs=jobs).start()
    driver.step()
    (before,) = driver.coordinator.transactions.active.values()
    jobs.gone = (1,)
    driver.planner.replan(jobs.alive())
    driver.step()
    (after,) = driver.coordinator.transactions.active.values()
    assert after.attempt > before.attempt
    assert after.attempt.txid == before.attempt.txid == 1
    assert driver.coordinator.transactions.ledger.failures == {}
    driver.run(Stop(when_drained=True))
    driver.close()
    assert sorted(collected(STORES[name].all())) == [1, 2, 3, 4, 5]


class Late(NumbersCoordinator):
    """Has one transaction without any tuple when it has been asked so often."""

    asked = 0

    def is_ready(self):
        self.asked += 1
        return self.asked > WARM_BATCHES + 50 and self.end is None

    def is_exhausted(self):
        return self.end is not None

    def initialize_transaction(self, txid, previous_metadata):
        self.end = 0
        return 0, 0


class LateNumbers(Numbers):
    def get_coordinator(self, conf, context):
        return Late(self)


def test_a_transaction_without_tuples_is_finished_though_stages_rested_before():
    name = fresh_store()
    result = run(
        collecting(name, LateNumbers(), workers=2),
        until=lambda result: result.transactions.committed == [1] or result.batches > 400,
    )
    assert result.batches > WARM_BATCHES
    assert result.transactions.committed == [1]
    assert STORES[name].notes() == [("committed", 1)] * 2


def test_an_emitter_is_not_asked_for_what_has_failed_already():
    name = fresh_store()
    builder = collecting(name, Numbers(6, 2), max_spout_pending=3)
    fault = TransactionFault(1, "spout", moment="before", times=2)
    result = run(builder, failing=[fault], emits=True)
    assert sorted(v[1] for v in result.emitted("spout")) == [0, 1, 2, 3, 4, 5]
    assert sorted(collected(STORES[name].all())) == [0, 1, 2, 3, 4, 5]


def test_a_source_is_at_its_end_only_when_nothing_can_come_again():
    """The first attempt has all rows, the second one leaves some."""
    name = fresh_store()
    spout = ChangingRows([[1, 2, 3, 4]], {1: [4, 3]}, 4)
    builder = TransactionalTopologyBuilder("end", "spout", spout, config={"store": name})
    builder.set_bolt("collect", CollectAtOnce).shuffle_grouping("spout")
    result = run(builder, failing=[TransactionFault(1, "collect")])
    assert result.transactions.attempts == {1: 2, 2: 1}
    assert collected(STORES[name].all()) == [1, 2, 3, 4]


class Told(Silent):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def resting(told, run):
    """A topology whose source rests, and whose batches all end like this."""
    driven = Driven(collecting(fresh_store()), observer=told)
    driven.driver.follow(Stop(active=False))
    driven.jobs.run = run
    return driven


def test_a_worker_that_is_lost_without_any_transaction_is_waited_for():
    """A component may end its process although the source rests."""
    told = Told()
    driven = resting(told, lambda *_: raising(JobFailed("a worker was lost")))
    for _ in range(20):
        assert not driven.driver.step()
    (note,) = told.notes
    assert "The batch is tried until it succeeds" in note
    assert driven.clock.now > 20  # it waits between them
    del driven.jobs.run
    driven.driver.follow(Stop(active=True))
    driven.to_the_end()
    assert driven.transactions.ledger.committed == 3


def test_a_stage_that_fails_without_any_transaction_ends_the_topology():
    driven = resting(Told(), lambda *_: [void_row("broken")])
    with pytest.raises(TopologyFailed, match="without any tuple of a spout in it: broken"):
        steps(driven.driver, 20)


def steps(driver, times):
    for _ in range(times):
        driver.step()


def raising(error):
    raise error


def failed(txid, attempt=1):
    return FailedAttempt(TransactionAttempt(txid, attempt), "bolt", 7, f"reason {txid}")


def test_one_that_failed_has_failed_all_later_ones():
    attempts = FailedAttempts()
    assert TransactionAttempt(1, 1) not in attempts
    attempts.add(failed(3))
    assert TransactionAttempt(2, 9) not in attempts
    assert all(TransactionAttempt(txid, 9) in attempts for txid in (3, 4, 500))
    attempts.add(failed(4))
    attempts.add(failed(3))
    attempts.add(failed(2))
    assert [one.attempt.txid for one in attempts.own] == [3, 2]


def test_what_failed_elsewhere_is_known_and_not_told_again():
    attempts = FailedAttempts()
    attempts.hear([TransactionAttempt(5, 1), TransactionAttempt(3, 1)])
    attempts.hear([])
    attempts.add(failed(4))
    assert attempts.own == []
    assert TransactionAttempt(2, 1) not in attempts
    assert TransactionAttempt(3, 1) in attempts
