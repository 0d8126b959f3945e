"""What is counted of transactions: each attempt once, by how it ended, and how long it took."""

import numpy as np
import pytest

from fulmen.engine.batches.ledger import Ledger
from fulmen.engine.batches.transactions import Phase, Transactions
from fulmen.engine.protocol.transaction_work import FailedAttempt
from fulmen.engine.totals.transaction_totals import (
    ATTEMPTS_KEPT,
    COMPLETE,
    PLANNED_ANEW,
    AttemptOutcome,
    TransactionTotals,
)
from support.transactions.sources import Countdown
from support.transactions.transacted import PLAIN, run_transacted, transacted_driver


class Course:
    """Transactions that are run by hand, and what is counted of them."""

    def __init__(self, **options):
        options = {"most": 3, "has_commit_phase": True, **options}
        self.transactions = Transactions(epoch=1, ledger=Ledger(), **options)
        self.totals = TransactionTotals()
        self.now = 0.0

    def begin(self, opens=0):
        """A batch begins, before which transactions have been initialized."""
        for _ in range(opens):
            txid, _ = self.transactions.to_initialize()
            self.transactions.initialize(txid, {"rows": b"N."})
        self.transactions.begin(self.now)
        self.totals.begin(self.transactions.ledger, self.transactions.active, {}, self.now)

    def finish(self, *failed, run=1.0, commit=0.5):
        """It counts; `failed` are txids that a component failed."""
        attempts = [self.transactions.active[txid].attempt for txid in failed]
        self.now += run
        outcome = self.transactions.finish(
            [FailedAttempt(attempt, "count", 4, "as told") for attempt in attempts], self.now
        )
        self.transactions.committed(outcome, self.now)
        self.now += commit
        return self.totals.add(outcome, self.now)

    def fail(self, reason="a worker was lost"):
        """It comes to nothing."""
        self.transactions.came_to_nothing(reason, is_outage=False)
        self.totals.nothing(reason, self.now)

    @property
    def attempts(self):
        return dict(self.totals.attempts)

    @property
    def recent(self):
        return [(one.attempt.txid, str(one.outcome), one.reason) for one in self.totals.recent]


@pytest.fixture
def course():
    return Course()


def test_a_transaction_is_processed_waits_and_is_committed(course):
    course.begin(opens=1)
    assert course.totals.active_in(Phase.PROCESSING) == 1
    assert course.finish(run=1.0, commit=0.5) == []
    assert course.totals.active_in(Phase.PROCESSED) == 1
    course.now += 2
    course.begin()
    assert course.totals.active_in(Phase.COMMITTING) == 1
    assert course.finish(run=0.25, commit=0.5) == [4.25]
    assert (course.totals.committed, course.totals.active) == (1, {})
    assert course.attempts == {"committed": 1}
    seconds = {phase: histogram.seconds for phase, histogram in course.totals.phases.items()}
    assert seconds == {"processing": 1.0, "processed": 2.5, "committing": 0.75, "complete": 4.25}


def test_without_committers_there_is_no_phase_but_processing():
    course = Course(has_commit_phase=False)
    course.begin(opens=2)
    assert course.finish(run=1.0, commit=0.5) == [1.5, 1.5]
    counts = {phase: histogram.count for phase, histogram in course.totals.phases.items()}
    assert counts == {"processing": 2, "processed": 0, "committing": 0, COMPLETE: 2}


def test_an_attempt_that_fails_fails_those_behind_it(course):
    course.begin(opens=3)
    course.finish(2)
    assert course.attempts == {"failed": 1, "cascaded": 1}
    assert course.recent == [
        (2, "failed", "'count', task 4: as told"),
        (3, "cascaded", "transaction 2 failed"),
    ]
    assert course.totals.last_failure == "transaction 2 failed: 'count', task 4: as told"
    assert course.totals.head_failures == 0  # the head is 1, which has not failed
    course.begin()
    course.finish()
    assert (course.totals.head_failures, course.totals.head_reason) == (1, "as told")


def test_of_several_that_fail_the_first_is_to_blame(course):
    course.begin(opens=3)
    course.finish(3, 1)
    assert course.attempts == {"failed": 1, "cascaded": 2}
    assert [txid for txid, outcome, _ in course.recent if outcome == "failed"] == [1]


def test_of_several_tasks_that_fail_an_attempt_the_first_gives_the_reason(course):
    course.begin(opens=1)
    attempt = course.transactions.active[1].attempt
    failed = [FailedAttempt(attempt, "count", task, f"of {task}") for task in (5, 4)]
    outcome = course.transactions.finish(failed, course.now)
    course.totals.add(outcome, course.now)
    assert course.totals.recent[0].reason == "'count', task 4: of 4"
    assert course.totals.head_reason == "of 4"


def test_a_batch_that_comes_to_nothing_loses_all_that_are_active(course):
    course.begin(opens=2)
    course.finish()
    course.begin(opens=1)
    course.fail()
    assert course.attempts == {"lost": 3}
    assert course.recent[0] == (1, "lost", "a worker was lost")
    assert course.totals.recent[0].phase is Phase.COMMITTING
    assert course.totals.last_failure == "transaction 3 was lost: a worker was lost"
    assert course.totals.active == {}
    course.begin()
    assert course.attempts == {"lost": 3}  # once


def test_what_is_planned_anew_loses_what_waits(course):
    course.begin(opens=1)
    course.finish()
    course.transactions.reset()
    course.begin()
    assert course.recent == [(1, "lost", PLANNED_ANEW)]


def test_a_transaction_that_is_given_up_is_an_attempt_of_its_own():
    course = Course(max_replays=0)
    course.begin(opens=1)
    course.finish(1)
    course.now += 10
    for _ in range(2):  # it is processed, and committed with nothing
        course.begin()
        course.finish()
    assert course.attempts == {"failed": 1, "given_up": 1}
    assert course.recent[-1] == (1, "given_up", "as told")
    assert course.totals.committed == 1
    assert course.totals.phases[COMPLETE].count == 0
    assert course.totals.report()["given_up"] == [{"txid": 1, "failures": 1, "reason": "as told"}]


def test_the_last_attempts_are_kept(course):
    for _ in range(ATTEMPTS_KEPT + 5):
        course.begin(opens=0 if course.transactions.ledger.metadata else 1)
        course.fail()
    assert len(course.totals.recent) == ATTEMPTS_KEPT
    assert course.attempts == {"lost": sum(course.attempts.values())}


def test_a_copy_does_not_change(course):
    course.begin(opens=1)
    course.finish()
    copy = course.totals.copy()
    course.begin()
    course.finish()
    assert (copy.attempts, copy.committed, list(copy.recent)) == ({}, 0, [])
    assert copy.phases[COMPLETE].count == 0
    assert [one.phase for one in copy.active.values()] == [Phase.PROCESSED]


# ---- of a driver ---------------------------------------------------------------------------------


def test_every_attempt_of_a_driver_is_counted_once():
    totals = run_transacted().totals
    report = totals.report()["transactions"]
    assert report["committed_txid"] == 7
    assert report["active"] == report["head_failures"] == 0
    assert report["lag"] == 0
    attempts = report["attempts"]
    assert attempts["committed"] == 6
    assert attempts["given_up"] == 1
    assert attempts["failed"] == 3  # one of "fail once", two of "fail always"
    assert attempts["cascaded"] > 0
    assert attempts["lost"] > 0
    (given_up,) = report["given_up"]
    assert given_up == {"txid": 6, "failures": 2, "reason": "fail always, as it was told"}


def test_attempts_that_are_lost_with_a_worker_say_so():
    driver = transacted_driver(["kill once", PLAIN]).start()
    driver.step()
    totals = driver.totals
    assert (totals.failed_attempts, totals.batches) == (1, 0)
    assert [(one.outcome, one.reason) for one in totals.transactions.recent] == [
        (AttemptOutcome.LOST, "a worker was killed")
    ] * 2
    driver.step()
    assert totals.batches == 1
    assert len(totals.transactions.active) == 2
    assert totals.trees.pending == 0  # these are no trees
    driver.close()


@pytest.mark.parametrize(
    ("said", "lag"), [(np.int64(7), 7), (-3, 0), (2.9, 2), (None, None), (True, 1)]
)
def test_a_lag_is_a_whole_number_whatever_the_source_says(said, lag, monkeypatch):
    monkeypatch.setattr(Countdown, "lag", lambda self: said)
    report = run_transacted([PLAIN]).totals.report()
    assert repr(report["transactions"]["lag"]) == repr(lag)


def test_a_lag_that_is_no_number_is_told_as_an_error_and_nothing_else_is_lost(monkeypatch):
    monkeypatch.setattr(Countdown, "lag", lambda self: "much")
    totals = run_transacted([PLAIN] * 2, max_spout_pending=1).totals
    assert totals.transactions.committed == 2
    assert totals.transactions.lag is None
    assert totals.errors["rows"][0]["message"].startswith("coordinator, lag: ValueError: ")


def test_complete_latencies_are_those_of_transactions():
    driver = run_transacted([PLAIN] * 4, max_spout_pending=1)
    totals = driver.totals
    assert totals.latencies.count == totals.transactions.attempts[AttemptOutcome.COMMITTED] == 4
    assert totals.report()["latency_ms"]["p50"] == pytest.approx(200, rel=0.02)  # two batches
    assert totals.trees.pending == 0


def test_totals_go_on_from_what_is_committed():
    first = run_transacted([PLAIN] * 3)
    driver = transacted_driver([PLAIN] * 3)
    driver.store = first.store
    later = driver.start()
    assert later.totals.transactions.committed == 3
    assert later.totals.transactions.ended == 0
    later.close()


def test_a_topology_that_never_started_reports_no_transactions():
    report = transacted_driver().unstarted_totals().report()
    assert report["transactions"]["committed_txid"] == 0
