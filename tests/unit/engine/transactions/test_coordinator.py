"""Storm's coordinator in micro-batches: against a model of Storm's, whatever happens."""

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.batches.transactions import (
    FAILURES_ALONE,
    FAILURES_BEFORE_ALONE,
    FAILURES_DROPPED,
    GIVEN_UP_KEPT,
    LONGEST_PAUSE,
    Phase,
    Transactions,
    attempts_in,
    ledger_of,
)
from fulmen.engine.protocol.transaction_work import FailedAttempt
from support.storm_coordinator import StormCoordinator


class World:
    """Transactions, the model beside them, and what a driver and a source do with both.

    Attributes:
        durable: What the last commit holds.
        ready: For how many transactions more the source has something.
        made: How many metadata the source has made.
        seen: Txid -> the metadata with which it was processed in a batch that counted.
    """

    def __init__(self, most=1, has_committers=True, max_replays=None):
        self.shape = {"most": most, "has_commit_phase": has_committers, "max_replays": max_replays}
        self.model = StormCoordinator(most, has_committers, max_replays)
        self.now = 1000.0
        self.epoch = 0
        self.durable = b""
        self.ready = 0
        self.made = 0
        self.seen = {}
        self.attempts = []
        self.hold_until = 0.0
        self.in_vain = self.alone = 0
        self.begin_driver()

    def begin_driver(self):
        """A driver begins: what it knows is in the last commit."""
        self.epoch += 1
        durable = {"transactions": self.durable} if self.durable else {}
        self.it = Transactions(self.epoch, ledger_of(durable), **self.shape)
        self.model.active = {}
        ledger = self.it.ledger
        assert ledger.committed == self.model.current - 1
        self.model.failures = dict(ledger.failures)
        self.hold_until = 0.0
        self.in_vain = self.alone = 0

    @property
    def most(self):
        return 1 if self.in_vain >= FAILURES_BEFORE_ALONE else self.shape["most"]

    def fill(self):
        while self.ready and (wanted := self.it.to_initialize()) is not None:
            txid, previous = wanted
            assert previous == self.it.ledger.metadata.get(txid - 1)
            assert (previous is None) == (txid == 1)
            self.ready -= 1
            self.made += 1
            self.it.initialize(txid, pickle.dumps((txid, self.made)))

    def begin(self):
        self.fill()
        metadata = self.it.ledger.metadata
        before = {t: a for t, (a, _) in self.model.active.items()}
        expected = self.model.sync(metadata, self.most, opens=self.now >= self.hold_until)
        work = self.it.begin(self.now)
        assert (work.commits and work.commits.txid, [o.attempt.txid for o in work.processes]) == (
            expected
        )
        assert work.committed == self.model.current - 1
        assert {a.txid: a for a in work.waiting} == before
        if work.commits is not None:
            assert work.commits == before[work.commits.txid]
        for opened in work.processes:
            attempt = opened.attempt
            assert all(attempt.attempt > old.attempt for old in self.attempts), "numbers only rise"
            assert opened.metadata == metadata[attempt.txid]
            if attempt.txid in self.seen:
                assert opened.metadata == self.seen[attempt.txid], "metadata outlive attempts"
            assert opened.is_dropped == self.model.is_given_up(attempt.txid)
            self.attempts.append(attempt)
            self.model.emitted(attempt.txid, attempt)
        assert bool(work) == bool(work.processes or work.commits)
        self.check()
        return work

    def batch(self, fails=(), losses=(), stale=False):
        """A batch that counts, in which some of the active attempts fail."""
        work = self.begin()
        running = [o.attempt for o in work.processes] + [work.commits] * (work.commits is not None)
        running.sort()
        failed = [self._failed(running, i) for i in fails if running]
        failed += [self._failed(running, i, is_loss=True) for i in losses if running]
        if stale and self.attempts:
            failed += [FailedAttempt(a, "bolt", 1, "late") for a in self.attempts[:3]]
            failed = [f for f in failed if f.attempt in running or f.attempt not in self._active()]
        outcome = self.it.finish(failed, self.now)
        self.now += 0.01
        self.settle(failed, running)
        self.it.committed(outcome, self.now)
        self.durable = self.it.ledger.encode()
        for opened in work.processes:
            self.seen[opened.attempt.txid] = opened.metadata
        assert [one.attempt.txid for one in outcome.committed] == self.newly_committed
        assert (outcome.given_up and [outcome.given_up.txid]) == (self.newly_given_up or None)
        if self.newly_committed or self.newly_given_up:
            self.in_vain = self.alone = 0
        self.check()
        return outcome

    def settle(self, failed, running):
        """Tell the model: first failures, since what they fail can't be acked any more."""
        before = len(self.model.committed), len(self.model.given_up)
        current = sorted(f.attempt for f in failed if f.attempt in self._active())
        if current:
            first = current[0]
            counts = any(not f.is_loss for f in failed if f.attempt == first)
            self.model.fail(first, counts=counts)
            pause = 0.05 * 2 ** (max(1, self.model.failures.get(first.txid, 0)) - 1)
            self.hold_until = self.now + min(LONGEST_PAUSE, pause)
        for attempt in running:
            self.model.ack(attempt)
        self.newly_committed = self.model.committed[before[0] :]
        self.newly_given_up = self.model.given_up[before[1] :]

    def _active(self):
        return [attempt for attempt, _ in self.model.active.values()]

    def _failed(self, running, i, is_loss=False):
        return FailedAttempt(running[i % len(running)], "bolt", i, f"reason {i}", is_loss)

    def lose(self, is_outage):
        """A batch came to nothing."""
        self.begin()
        had = bool(self.model.active)
        self.it.came_to_nothing("a worker was lost", is_outage=is_outage)
        self.model.active = {}
        if had and not is_outage:
            self.in_vain += 1
            if self.in_vain > FAILURES_BEFORE_ALONE:
                self._blame(self.model.current)
        self.check()

    def _blame(self, head):
        was_given_up = self.model.is_given_up(head)
        self.model.failures[head] = self.model.failures.get(head, 0) + 1
        self.alone = 0 if self.model.is_given_up(head) and not was_given_up else self.alone + 1
        if was_given_up:
            assert bool(self.it.ended) == (self.alone >= FAILURES_DROPPED)
        else:
            endless = self.shape["max_replays"] is None
            assert bool(self.it.ended) == (endless and self.alone >= FAILURES_ALONE)

    def replan(self):
        """What waits in workers is gone."""
        assert self.it.reset() == len(self.model.active)
        self.model.active = {}
        self.check()

    def check(self):
        """The two know the same."""
        assert {t: (a.attempt, str(a.phase)) for t, a in self.it.active.items()} == {
            t: (a, status) for t, (a, status) in self.model.active.items()
        }
        ledger = self.it.ledger
        assert ledger.committed == self.model.current - 1
        assert dict(ledger.failures) == self.model.failures
        assert set(ledger.reasons) == set(ledger.failures)
        assert [one.txid for one in ledger.given_up] == self.model.given_up[-GIVEN_UP_KEPT:]
        done = sorted(self.model.committed + self.model.given_up)
        assert done == list(range(1, self.model.current)), "nothing is skipped"
        assert self.model.committed == sorted(self.model.committed), "the order is strict"
        assert min(ledger.metadata, default=1) >= max(1, ledger.committed)
        assert set(self.model.active) <= set(ledger.metadata)
        is_done = not self.model.active and max(ledger.metadata, default=0) <= ledger.committed
        assert self.it.is_settled == is_done
        for phase in Phase:
            of_model = [status for _, status in self.model.active.values()]
            assert attempts_in(self.it.active.values(), phase) == of_model.count(str(phase))
        assert len(ledger.encode()) < 100_000

    def to_the_end(self):
        """No further failures: everything that was opened ends."""
        for _ in range(500):
            if self.it.is_settled and not self.ready:
                return
            self.batch()
            self.now += LONGEST_PAUSE
        raise AssertionError("it does not end")


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
    assert outcome.failed == ()
    assert len(outcome.active) == 2


def test_one_that_failed_comes_again_after_a_pause_that_grows():
    made, pauses = world(), []
    made.fill()
    for _ in range(10):
        while not made.it.begin(made.now).processes:
            made.now += 0.005
        pauses.append(made.now)
        failed = FailedAttempt(made.it.active[1].attempt, "bolt", 1, "no")
        made.it.committed(made.it.finish([failed], made.now), made.now)
    waits = [later - earlier for earlier, later in pairwise(pauses)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.006)


def test_a_lost_instance_is_no_failure_of_the_transaction():
    made = world(max_replays=0)
    for _ in range(5):
        made.batch(losses=[0])
        made.now += 1
    assert made.it.ledger.failures == {}
    made.to_the_end()
    assert made.model.given_up == []


def test_one_that_failed_too_often_is_given_up_alone_and_the_next_goes_on():
    made = world(most=3, max_replays=1)
    for _ in range(2):
        made.batch(fails=[0])
        made.now += 10
    work = made.begin()
    assert [(o.attempt.txid, o.is_dropped) for o in work.processes] == [(1, True)]
    assert work.finishing(in_commit_phase=False) == []
    outcome = made.it.finish([], made.now)
    given_up = outcome.given_up
    assert (given_up.txid, given_up.reason, given_up.failures) == (1, "reason 0", 2)
    assert given_up.metadata == made.it.ledger.metadata[1]
    made.it.committed(outcome, made.now)
    made.fill()
    assert [o.attempt.txid for o in made.it.begin(made.now).processes] == [2, 3, 4]


def test_the_newest_given_up_are_kept():
    made = world(max_replays=0, ready=GIVEN_UP_KEPT + 5)
    for _ in range(GIVEN_UP_KEPT + 5):
        made.batch(fails=[0])
        made.now += 10
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


def test_metadata_are_asked_for_in_order_with_those_before():
    made = world(most=2)
    assert made.it.to_initialize() == (1, None)
    made.it.initialize(1, b"one")
    assert made.it.to_initialize() == (2, b"one")
    made.it.initialize(2, b"two")
    assert made.it.to_initialize() is None


def test_the_metadata_of_the_last_committed_one_are_kept_for_the_next():
    made = world(ready=1)
    made.to_the_end()
    made.begin_driver()
    txid, previous = made.it.to_initialize()
    assert (txid, pickle.loads(previous)) == (2, (1, 1))
    assert made.it.is_settled


def test_attempts_of_a_later_driver_are_greater():
    made = world(most=5)
    for _ in range(20):
        made.lose(is_outage=True)
    last = max(made.attempts)
    made.begin_driver()
    made.batch()
    assert min(made.attempts[-5:]).attempt > last.attempt
