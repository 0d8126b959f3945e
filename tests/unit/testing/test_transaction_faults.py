"""Failures of transactions where a test asks for them, and what the result tells."""

import pytest

from fulmen.testing import TransactionFault, run
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.words import Split, four_phases, global_count

ROWS = [[f"row {i}" for i in range(6)], [f"row {i}" for i in range(3)]]


def counting(**spec):
    name = fresh_store()
    return name, global_count({"store": name}, ROWS, 2, **spec)


def count_of(name):
    return STORES[name].get("global")


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_without_faults_each_transaction_has_one_attempt(workers):
    name, builder = counting()
    result = run(builder, workers=workers)
    assert result.transactions.committed == [1, 2, 3]
    assert result.transactions.attempts == {1: 1, 2: 1, 3: 1}
    assert result.transactions.failed == result.transactions.given_up == []
    assert count_of(name) == (3, 9)


PLACES = [
    ("spout", "processing"),
    ("partial-count", "processing"),
    ("sum", "processing"),
    ("sum", "committing"),
]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("component", "phase"), PLACES)
def test_an_attempt_fails_where_it_is_asked_for(component, phase, moment, workers):
    name, builder = counting(max_spout_pending=2)
    fault = TransactionFault(2, component, phase, moment=moment, times=2)
    result = run(builder, workers=workers, failing=[fault])
    assert result.transactions.committed == [1, 2, 3]
    attempts = result.transactions.attempts
    assert (attempts[1], attempts[2]) == (1, 3)
    assert [(one.txid, one.component) for one in result.transactions.failed] == [(2, component)] * 2
    assert result.transactions.failed[0].reason == f"asked for: {fault}"
    assert count_of(name) == (3, 9)
    wrote = [event for event in STORES[name].notes() if event[:2] == ("committed", 2)]
    assert len(wrote) == (3 if (phase, moment) == ("committing", "after") else 1)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("component", "phase"), PLACES)
def test_a_worker_is_lost_where_it_is_asked_for(component, phase, moment, workers):
    name, builder = counting(max_spout_pending=2)
    fault = TransactionFault(1, component, phase, kills=True, moment=moment)
    result = run(builder, workers=workers, failing=[fault])
    assert result.transactions.committed == [1, 2, 3]
    assert result.transactions.attempts == {1: 2, 2: 2, 3: 1}
    assert result.transactions.failed == []
    assert len(result.notes) == 1
    assert f"asked for: {fault}" in result.notes[0]
    assert count_of(name) == (3, 9)


def test_a_fault_in_one_task_of_several():
    name, builder = counting()
    faults = [TransactionFault(1, "partial-count", task=task) for task in (0, 4)]
    result = run(builder, failing=faults)
    assert result.transactions.attempts[1] == 2  # both in the first attempt
    assert len(result.transactions.failed) == 1
    assert count_of(name) == (3, 9)


def test_a_basic_bolt_fails_with_its_tuples():
    name = fresh_store()
    builder = four_phases({"store": name})
    builder.set_bolt("E", Split).shuffle_grouping("A")
    result = run(builder, failing=[TransactionFault(1, "E", moment="before")])
    assert result.transactions.attempts == {1: 2}
    assert [one.component for one in result.transactions.failed] == ["E"]


def test_a_transaction_that_always_fails_is_given_up():
    _, builder = counting(max_replays=2)
    result = run(builder, failing=[TransactionFault(2, "partial-count", times=None)])
    assert result.transactions.committed == [1, 3]
    assert result.transactions.attempts == {1: 1, 2: 3, 3: 1}
    (given_up,) = result.transactions.given_up
    assert (given_up.txid, given_up.metadata) == (2, {"spout": 2})
    assert given_up.reason.startswith("asked for: TransactionFault(txid=2")


def test_a_run_goes_on_where_the_one_before_has_stopped():
    name, builder = counting()
    first = run(builder, until=lambda result: result.transactions.committed == [1])
    second = run(builder, checkpoint=first)
    assert first.transactions.committed == [1]
    assert second.transactions.committed[:2] == [2, 3]
    assert count_of(name)[1] == 9


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (TransactionFault(1, "some"), "there is no component 'some': there are ['spout', 'A', 'B'"),
        (TransactionFault(1, "A", "committing"), "'A' has no part in commits, which is for"),
    ],
)
def test_a_fault_that_can_t_happen_is_refused(fault, message):
    with pytest.raises(ValueError, match="TransactionFault") as raised:
        run(four_phases({"store": fresh_store()}), failing=[fault])
    assert message in str(raised.value)
