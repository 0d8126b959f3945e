"""The coordinator of transactions with the model of Storm's beside it: both hear of the same."""

import pickle

from fulmen.engine.batches.ledger import GIVEN_UP_KEPT, ledger_of
from fulmen.engine.batches.transactions import (
    FAILURES_ALONE,
    FAILURES_BEFORE_ALONE,
    FAILURES_DROPPED,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Phase,
    Transactions,
    attempts_in,
)
from fulmen.engine.protocol.transaction_work import FailedAttempt

PROCESSING, PROCESSED, COMMITTING = "processing", "processed", "committing"

SOURCE = "rows"


class StormCoordinator:
    """The algorithm, with numbers instead of streams.

    Attributes:
        current: The txid to be committed next.
        active: Txid -> [attempt, status].
        failures: Txid -> how many attempts have failed.
        committed: All txids that were committed, in that order.
        given_up: Those that were given up, in that order.
    """

    def __init__(self, most, has_committers, max_replays):
        self.most, self.has_committers, self.max_replays = most, has_committers, max_replays
        self.current = 1
        self.active = {}
        self.failures = {}
        self.committed, self.given_up = [], []

    def is_given_up(self, txid):
        return self.max_replays is not None and self.failures.get(txid, 0) > self.max_replays

    def sync(self, metadata, most, *, opens):
        """What to emit now: (txid to commit or None, txids to process)."""
        commit = None
        if self.current in self.active and self.active[self.current][1] == PROCESSED:
            self.active[self.current][1] = COMMITTING
            commit = self.current
        opened = []
        for txid in range(self.current, self.current + most):
            if not opens or txid not in metadata:
                break
            if self.is_given_up(txid):  # it must be gone before anything behind it begins
                if txid == self.current and txid not in self.active:
                    opened.append(txid)
                break
            if txid not in self.active:
                opened.append(txid)
        return commit, opened

    def emitted(self, txid, attempt):
        self.active[txid] = [attempt, PROCESSING]

    def ack(self, attempt):
        """All of an attempt that is on its way has succeeded."""
        of_txid = self.active.get(attempt.txid)
        if of_txid is None or of_txid[0] != attempt:
            return
        if of_txid[1] == COMMITTING:
            self._commit()
        else:
            of_txid[1] = PROCESSED
            while not self.has_committers and self._is_processed():
                self._commit()  # nobody subscribes to the commit: it is acked at once

    def _is_processed(self):
        return self.current in self.active and self.active[self.current][1] == PROCESSED

    def _commit(self):
        del self.active[self.current]
        ended = self.given_up if self.is_given_up(self.current) else self.committed
        ended.append(self.current)
        self._advance()

    def _advance(self):
        self.failures = {t: n for t, n in self.failures.items() if t > self.current}
        self.current += 1

    def fail(self, attempt, *, counts=True):
        """It has failed, and with it all later ones."""
        of_txid = self.active.get(attempt.txid)
        if of_txid is None or of_txid[0] != attempt:
            return
        if counts:
            self.failures[attempt.txid] = self.failures.get(attempt.txid, 0) + 1
        self.active = {t: a for t, a in self.active.items() if t < attempt.txid}


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
        self.in_vain = self.alone = self.failed_batches = 0
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
        self.in_vain = self.alone = self.failed_batches = 0

    @property
    def most(self):
        return 1 if self.in_vain >= FAILURES_BEFORE_ALONE else self.shape["most"]

    def fill(self):
        while self.ready and (wanted := self.it.to_initialize()) is not None:
            txid, previous = wanted
            assert previous == self.it.ledger.metadata.get(txid - 1, {})
            assert (not previous) == (txid == 1)
            self.ready -= 1
            self.made += 1
            self.it.initialize(txid, {SOURCE: pickle.dumps((txid, self.made))})

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
            self.in_vain = self.alone = self.failed_batches = 0
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
            self.failed_batches += 1
            failures = max(self.failed_batches, self.model.failures.get(first.txid, 1))
            pause = FIRST_PAUSE * 2 ** (failures - 1)
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
        assert self.it.came_to_nothing("a worker was lost", is_outage=is_outage) is had
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
