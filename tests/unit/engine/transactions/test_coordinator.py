"""Storm's coordinator in micro-batches: against a model of Storm's, whatever happens."""

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.batches.ledger import GIVEN_UP_KEPT, METADATA_SHOWN, Ledger, shown_metadata
from fulmen.engine.batches.transactions import (
    FAILURES_ALONE,
    FAILURES_BEFORE_ALONE,
    FAILURES_DROPPED,
    FIRST_PAUSE,
)
from fulmen.engine.protocol.transaction_work import FailedAttempt
from support.worlds.transaction_world import SOURCE, World

INDICES = st.lists(st.integers(0, 5), max_size=3)
EVENTS = st.one_of(
    st.tuples(st.just("batch"), st.just(()), st.just(()), st.booleans()),
    st.tuples(st.just("batch"), INDICES, INDICES, st.booleans()),
    st.tuples(st.just("lose"), st.booleans()),
    st.tuples(st.just("wait"), st.floats(0, 10)),
    st.tuples(st.just("fill"), st.integers(1, 6)),
    st.tuples(st.just("replan")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("restart in a batch")),
)


@given(
    st.lists(EVENTS, max_size=80),
    st.integers(1, 5),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 3)),
)
def test_it_does_what_storm_does_whatever_happens(events, most, has_committers, max_replays):
    world = World(most, has_committers, max_replays)
    world.ready = 3
    for what, *args in events:
        match what:
            case "batch":
                world.batch(*args)
            case "lose":
                world.lose(*args)
            case "wait":
                world.now += args[0]
            case "fill":
                world.ready += args[0]
            case "replan":
                world.replan()
            case "restart":
                world.begin_driver()
            case "restart in a batch":
                world.begin()
                world.begin_driver()
        if world.it.ended:
            world.begin_driver()
    world.to_the_end()
    assert len(world.model.committed) + len(world.model.given_up) == world.it.ledger.committed


# ---- one thing at a time ------------------------------------------------------------------------


def world(most=1, ready=10, **shape):
    made = World(most, **shape)
    made.ready = ready
    return made


def phases(made):
    return {txid: str(one.phase) for txid, one in made.it.active.items()}


def test_one_transaction_is_processed_then_committed():
    made = world()
    assert made.batch().committed == ()
    assert phases(made) == {1: "processed"}
    assert [one.attempt.txid for one in made.batch().committed] == [1]
    assert phases(made) == {}


def test_a_batch_processes_new_ones_and_commits_the_oldest_processed_before():
    made = world(most=3)
    made.batch()
    assert phases(made) == {1: "processed", 2: "processed", 3: "processed"}
    work = made.begin()
    assert work.commits.txid == 1
    assert work.processes == []  # three are active
    made.it.committed(made.it.finish([], made.now), made.now)
    made.fill()
    assert [o.attempt.txid for o in made.it.begin(made.now).processes] == [4]


def test_without_committers_what_is_processed_is_committed():
    made = world(most=3, has_committers=False)
    assert [one.attempt.txid for one in made.batch().committed] == [1, 2, 3]
    assert made.it.ledger.committed == 3


def test_one_that_fails_fails_all_later_ones_and_no_earlier_one():
    made = world(most=4)
    made.batch()
    made.begin()
    second = made.it.active[2].attempt
    outcome = made.it.finish([FailedAttempt(second, "bolt", 3, "no")], made.now)
    assert [one.attempt.txid for one in outcome.committed] == [1]
    assert outcome.active == {}
    assert (outcome.failed[0].attempt, outcome.cascaded) == (second, 2)
    assert outcome.ledger.failures == {2: 1}
    assert outcome.ledger.reasons == {2: "no"}


def test_an_attempt_that_is_no_more_fails_nothing():
    made = world(most=2)
    made.batch(fails=[0])
    made.now += 10
    old = made.attempts[0]
    made.begin()
    outcome = made.it.finish([FailedAttempt(old, "bolt", 3, "late")], made.now)
    assert (outcome.failed, outcome.cascaded) == ((), 0)
    assert len(outcome.active) == 2


@pytest.mark.parametrize("is_loss", [False, True])
def test_one_that_failed_comes_again_after_a_pause_that_grows(is_loss):
    made, pauses = world(), []
    made.fill()
    for _ in range(10):
        while not made.it.begin(made.now).processes:
            made.now += 0.005
        pauses.append(made.now)
        failed = FailedAttempt(made.it.active[1].attempt, "bolt", 1, "no", is_loss)
        made.it.committed(made.it.finish([failed], made.now), made.now)
    waits = [later - earlier for earlier, later in pairwise(pauses)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.006)


@pytest.mark.parametrize("max_replays", [0, None])
def test_the_pause_is_short_again_after_one_was_committed_or_given_up(max_replays):
    made = world(has_committers=False, max_replays=max_replays)
    made.batch(fails=[0])
    made.now += 10
    made.batch()
    assert made.it.ledger.committed == 1
    made.batch(losses=[0])
    made.now += FIRST_PAUSE
    assert [o.attempt.txid for o in made.begin().processes] == [2]


def test_a_lost_instance_is_no_failure_of_the_transaction():
    made = world(max_replays=0)
    for _ in range(5):
        made.batch(losses=[0])
        made.now += 1
    assert made.it.ledger.failures == {}
    made.to_the_end()
    assert made.model.given_up == []


def test_one_that_failed_after_a_lost_one_is_not_to_blame():
    made = world(most=2)
    outcome = made.batch(fails=[1], losses=[0])
    assert (outcome.ledger.failures, outcome.cascaded) == ({}, 1)


def test_one_that_failed_too_often_is_given_up_alone_and_the_next_goes_on():
    made = world(most=3, max_replays=1)
    for _ in range(2):
        made.batch(fails=[0])
        made.now += 10
    work = made.begin()
    assert [(o.attempt.txid, o.is_dropped) for o in work.processes] == [(1, True)]
    assert work.finishing(in_commit_phase=False) == []
    made.it.committed(made.it.finish([], made.now), made.now)
    work = made.it.begin(made.now)  # with nothing: so stores take back what they have of it
    assert [attempt.txid for attempt in work.finishing(in_commit_phase=True)] == [1]
    outcome = made.it.finish([], made.now)
    given_up = outcome.given_up
    assert (given_up.txid, given_up.reason, given_up.failures) == (1, "reason 0", 2)
    assert given_up.metadata == made.it.ledger.metadata[1]
    made.it.committed(outcome, made.now)
    made.fill()
    assert [o.attempt.txid for o in made.it.begin(made.now).processes] == [2, 3, 4]


def test_one_that_is_given_up_is_left_out_only_when_all_before_it_are_committed():
    made = world(most=3, max_replays=0)
    made.batch(fails=[1])
    made.now += 10
    work = made.begin()
    assert (work.commits.txid, work.processes) == (1, [])
    made.it.committed(made.it.finish([], made.now), made.now)
    made.fill()
    assert [(o.attempt.txid, o.is_dropped) for o in made.it.begin(made.now).processes] == [
        (2, True)
    ]


def test_the_newest_given_up_are_kept():
    made = world(max_replays=0, ready=GIVEN_UP_KEPT + 5)
    for _ in range(GIVEN_UP_KEPT + 5):
        made.batch(fails=[0])
        made.now += 10
        made.batch()
        made.batch()
    assert [one.txid for one in made.it.ledger.given_up] == list(range(6, GIVEN_UP_KEPT + 6))


def test_after_losses_it_goes_on_with_one_at_a_time_until_one_is_committed():
    made = world(most=4)
    for _ in range(FAILURES_BEFORE_ALONE):
        made.lose(is_outage=False)
    assert [o.attempt.txid for o in made.begin().processes] == [1]
    made.it.committed(made.it.finish([], made.now), made.now)
    assert made.it.begin(made.now).processes == []  # processed is not yet committed
    made.it.committed(made.it.finish([], made.now), made.now)
    made.fill()
    assert [o.attempt.txid for o in made.it.begin(made.now).processes] == [2, 3, 4, 5]


def test_one_that_ends_its_workers_again_and_again_ends_the_topology():
    made = world(most=2)
    for _ in range(FAILURES_BEFORE_ALONE + FAILURES_ALONE - 1):
        made.lose(is_outage=False)
        assert made.it.ended == ""
    made.lose(is_outage=False)
    assert made.it.ended == (
        "transaction 1 (metadata (1, 1)), alone in its batch, came to nothing 5 times in a row:"
        " a worker was lost. Mend what ends the workers, or set spec.maxReplays to give such a"
        " transaction up; it is tried again when the topology starts again"
    )


def test_with_max_replays_it_is_given_up_and_if_even_that_is_not_possible_the_topology_ends():
    made = world(max_replays=1)
    for _ in range(FAILURES_BEFORE_ALONE + 2):
        made.lose(is_outage=False)
    assert made.it.ended == ""
    assert made.it.ledger.failures == {1: 2}
    assert made.begin().processes[0].is_dropped
    made.replan()
    for _ in range(FAILURES_DROPPED):
        assert made.it.ended == ""
        made.lose(is_outage=False)
    assert made.it.ended == (
        "transaction 1 (metadata (1, 1)), even left out in its batch, came to nothing 3 times in a"
        " row: a worker was lost. Mend what ends the workers, or the spout that can't go past it;"
        " it is tried again when the topology starts again"
    )


def test_with_max_replays_no_losses_end_the_topology_before_it_is_given_up():
    made = world(max_replays=2 * FAILURES_ALONE)
    for _ in range(FAILURES_BEFORE_ALONE + 2 * FAILURES_ALONE):
        made.lose(is_outage=False)
        assert made.it.ended == ""
    assert not made.begin().processes[0].is_dropped


def test_outages_blame_nobody_however_many():
    made = world(most=3, max_replays=0)
    for _ in range(50):
        made.lose(is_outage=True)
    assert made.it.ledger.failures == {}
    assert len(made.begin().processes) == 3


def test_a_batch_without_transactions_blames_nobody():
    made = world(ready=0)
    for _ in range(50):
        made.lose(is_outage=False)
    assert (made.it.ended, made.it.ledger.failures) == ("", {})


def test_metadata_are_asked_for_in_order_with_the_last_of_each_source():
    made = world(most=2)
    assert made.it.to_initialize() == (1, {})
    made.it.initialize(1, {"a": b"one", "b": b"first"})
    assert made.it.to_initialize() == (2, {"a": b"one", "b": b"first"})
    made.it.initialize(2, {"a": b"two"})
    assert made.it.to_initialize() is None
    assert made.it.ledger.parts_before(3) == {"a": b"two", "b": b"first"}


def test_metadata_of_a_source_are_kept_while_transactions_without_it_are_committed():
    ledger = Ledger(metadata={1: {"a": b"1", "b": b"1"}, 2: {"a": b"2"}, 3: {"a": b"3"}})
    ledger = ledger.with_committed(1).with_given_up(2)
    assert ledger.metadata == {2: {"a": b"2", "b": b"1"}, 3: {"a": b"3"}}
    assert ledger.given_up[0].metadata == {"a": b"2"}
    assert ledger.without({"a"}).metadata == {2: {"b": b"1"}, 3: {}}


def test_the_metadata_of_the_last_committed_one_are_kept_for_the_next():
    made = world(ready=1)
    made.to_the_end()
    made.begin_driver()
    txid, previous = made.it.to_initialize()
    assert (txid, pickle.loads(previous[SOURCE])) == (2, (1, 1))
    assert made.it.is_settled


def test_attempts_of_a_later_driver_are_greater():
    made = world(most=5)
    for _ in range(20):
        made.lose(is_outage=True)
    last = max(made.attempts)
    made.begin_driver()
    made.batch()
    assert min(made.attempts[-5:]).attempt > last.attempt


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        (pickle.dumps((1, "a")), "metadata (1, 'a')"),
        (b"made by other code", "metadata of 18 bytes"),
        (pickle.dumps("a" * (METADATA_SHOWN - 11)), f"metadata '{'a' * (METADATA_SHOWN - 11)}'"),
        (pickle.dumps("a" * (METADATA_SHOWN - 10)), f"metadata '{'a' * (METADATA_SHOWN - 11)}…"),
    ],
)
def test_a_message_shows_metadata_as_far_as_they_are_short_and_can_be_read(metadata, shown):
    assert len(shown) <= METADATA_SHOWN
    assert shown_metadata({"rows": metadata}) == shown
    assert shown_metadata({"a": metadata, "b": pickle.dumps(1)}) == f"'a': {shown}, 'b': metadata 1"
