"""What the coordinator of batches does with transactions. They themselves: engine/transactions."""

from dataclasses import replace

import pytest

from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.ledger import Ledger
from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END
from fulmen.engine.batches.transactions import FIRST_PAUSE, Phase, Transactions
from fulmen.engine.protocol.transaction_work import FailedAttempt
from fulmen.topology.resource.spec import TransactionalSpoutSpec
from support.runs.coordinators import Checked, placed


@pytest.fixture
def checked():
    """A coordinator with one transaction that is opened, of a topology with an interval."""
    it = placed(batch_interval_millis=1000)
    [spout] = it.topology.spec.spouts
    sources = (TransactionalSpoutSpec(**spout.model_dump()),)
    spec = it.topology.spec.model_copy(update={"spouts": (), "transactional": sources})
    made = Checked(replace(it, topology=it.topology.model_copy(update={"spec": spec})))
    made.it.transactions = Transactions(1, Ledger(), has_commit_phase=True)
    made.it.transactions.initialize(1, {"source": b""})
    return made


def batch(checked, **summary):
    """A batch that counts. Returns what it was to do for transactions."""
    header = checked.it.begin(checked.now)
    checked.it.committed(checked.it.finish([checked.summary(**summary)], 0.1))
    return header.transactions


def test_a_transaction_is_processed_and_then_committed_each_in_a_batch_with_a_commit(checked):
    it, number = checked.it, checked.it.last.number
    [opened] = batch(checked).processes
    assert (it.last.number, it.pending, it.settled) == (number + 1, 1, False)
    assert batch(checked).commits == opened.attempt
    assert (it.last.number, it.pending, it.settled) == (number + 2, 0, True)
    assert not batch(checked)
    assert it.last.number == number + 2


def test_after_a_new_plan_what_was_processed_is_processed_again(checked):
    [opened] = batch(checked).processes
    checked.it.current.placed = replace(checked.it.placed, run="other")
    work = batch(checked)
    assert work.commits is None
    [again] = work.processes
    assert again.attempt.attempt > opened.attempt.attempt
    assert batch(checked).commits == again.attempt  # and that once only


def test_an_attempt_that_a_component_failed_is_not_committed(checked):
    checked.it.begin(checked.now)
    [active] = checked.it.transactions.active.values()
    failed = FailedAttempt(active.attempt, "count", 3, "no")
    checked.it.committed(checked.it.finish([checked.summary(failed_attempts=[failed])], 0.1))
    assert checked.it.transactions.ledger.failures == {1: 1}
    assert checked.it.pending == 0
    assert not checked.it.settled
    assert batch(checked).commits is None


def test_a_batch_with_a_transaction_that_comes_to_nothing_makes_no_tuple_suspect(checked):
    for _ in range(2):
        checked.it.begin(checked.now)
        checked.it.failed(VoidAttempt("killed", fault=Fault.SERVICE), checked.now)
    assert checked.it.blame.crashes == Crashes()
    header = checked.it.begin(checked.now)
    assert header.default_permit > 0
    assert [opened.attempt.txid for opened in header.transactions.processes] == [1]


def test_a_batch_without_a_transaction_that_comes_to_nothing_is_counted(checked):
    for _ in range(2):
        batch(checked)
    for _ in range(2):
        checked.it.begin(checked.now)
        checked.it.failed(VoidAttempt("killed"), checked.now)
    assert checked.it.blame.crashes.failures == 2


def test_the_source_says_whether_more_transactions_will_come(checked):
    for is_exhausted in (False, True):
        checked.it.transactions.exhausted_sources = ["source"] * is_exhausted
        batch(checked)
        assert checked.it.exhausted is is_exhausted


def test_the_seconds_of_a_batch_belong_to_the_phases_of_its_transactions(checked):
    it = checked.it
    it.begin(checked.now)
    it.committed(it.finish([checked.summary()], 0.5))
    [active] = it.transactions.active.values()
    assert active.seconds(checked.now + 2) == {
        Phase.PROCESSING: pytest.approx(0.5),
        Phase.PROCESSED: pytest.approx(1.5),
    }


def test_the_pause_of_a_transaction_that_failed_begins_when_its_batch_has_ended(checked):
    it = checked.it
    it.begin(checked.now)
    [active] = it.transactions.active.values()
    failed = FailedAttempt(active.attempt, "count", 3, "no")
    it.committed(it.finish([checked.summary(failed_attempts=[failed])], 0.5))
    end = checked.now + 0.5
    for now, txids in ((end + FIRST_PAUSE - 0.01, []), (end + FIRST_PAUSE + 0.01, [1])):
        work = it.begin(now).transactions
        assert [opened.attempt.txid for opened in work.processes] == txids


@pytest.mark.parametrize("is_away", [False, True])
def test_batches_without_transactions_are_the_end_unless_the_source_is_away(checked, is_away):
    checked.it.transactions.source_is_away = is_away
    for _ in range(2 + IDLE_BATCHES_TO_END):
        batch(checked)
    assert checked.it.has_nothing_more is not is_away


def test_batches_in_the_pause_of_a_transaction_that_failed_are_not_the_end(checked):
    it = checked.it
    it.begin(checked.now)
    [active] = it.transactions.active.values()
    failed = FailedAttempt(active.attempt, "count", 3, "no")
    it.committed(it.finish([checked.summary(failed_attempts=[failed])], 0.1))
    for _ in range(2 + IDLE_BATCHES_TO_END):
        assert not batch(checked)
    assert not it.has_nothing_more


def test_batches_in_which_something_happens_are_not_the_end(checked):
    for _ in range(2 + IDLE_BATCHES_TO_END):
        batch(checked, did_something=True)
    assert checked.it.settled
    assert not checked.it.has_nothing_more


def test_no_batch_waits_for_more_while_a_transaction_is_open(checked):
    for seconds in (0.0, 0.9):  # the first one processes it, the second one commits it
        batch(checked, emitted=1)
        assert checked.it.idle_seconds() == pytest.approx(seconds)
