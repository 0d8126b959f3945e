"""Random lives of three drivers that share a checkpoint, against a plain model of its content."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fulmen.checkpoint import CommitLog
from fulmen.checkpoint.garbage import FENCE_SECONDS, LogLimits
from fulmen.checkpoint.record import INLINE_BYTES
from fulmen.errors import Fenced
from support.stores.checkpoint import FakeClock, Model, memory_store, saved, stored

DRIVERS = st.sampled_from(["one", "two", "three"])
TASKS = st.sampled_from(["a/0", "a/1", "b/0"])
PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.binary(max_size=1).map(lambda data: data + b"x" * INLINE_BYTES),
)
CHANGES = st.lists(
    # The last is how many commits back payloads are kept; None keeps all.
    st.tuples(TASKS, st.sampled_from(["s", "t"]), PAYLOADS, st.none() | st.integers(0, 4)),
    max_size=4,
    unique_by=lambda change: change[:2],
)


SHORT_CYCLES = LogLimits(manifest_every=3, lag=1, sweep_every=2)


class Drivers(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.store, self.clock, self.model = memory_store(), FakeClock(), Model()
        self.opened = {}  # driver -> its log, not claimed yet
        self.claimed = {}  # driver -> its log
        self.owner = None
        self.tags = (f"t{number}" for number in itertools.count())

    @rule(driver=DRIVERS)
    def open(self, driver):
        self.claimed.pop(driver, None)
        self.opened[driver] = CommitLog(
            self.store, "wc", driver, clock=self.clock, limits=SHORT_CYCLES
        )
        self.owner = None if self.owner == driver else self.owner

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def claim(self, data):
        driver = data.draw(st.sampled_from(sorted(self.opened)))
        log = self.opened.pop(driver)
        try:
            claim = log.claim()
        except Fenced:  # its number was that of a claim long deleted: safe, if rarely needed
            return
        self.model.apply()
        assert claim.number == len(self.model.states) - 1
        self.claimed[driver] = log
        self.owner = driver

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), changes=CHANGES, removed=st.lists(TASKS, max_size=1))
    def commit(self, data, changes, removed):
        driver = data.draw(st.sampled_from(sorted(self.claimed)))
        log, tag = self.claimed[driver], next(self.tags)
        number = log.manifest.number + 1
        changes = [
            (task, journal, payload, 0 if back is None else max(number - back, 0))
            for task, journal, payload, back in changes
        ]
        updates = saved(self.store, number, tag, changes)
        draft = log.draft(tag=tag, clock=0.0, updates=updates, removed_tasks=removed)
        if driver == self.owner:
            log.commit(draft)
            self.model.apply(changes, removed)
        else:
            with pytest.raises(Fenced):
                log.commit(draft)
            del self.claimed[driver]

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def check(self, data):
        driver = data.draw(st.sampled_from(sorted(self.claimed)))
        if driver == self.owner:
            self.claimed[driver].check()
        else:
            with pytest.raises(Fenced):
                self.claimed.pop(driver).check()

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def collect(self, data):
        """Also by drivers that don't know yet that they were fenced."""
        self.claimed[data.draw(st.sampled_from(sorted(self.claimed)))].collect()

    @rule(seconds=st.sampled_from([1.0, FENCE_SECONDS / 2, FENCE_SECONDS]))
    def time_passes(self, seconds):
        self.clock.now += seconds

    @invariant()
    def the_newest_state_is_that_of_the_model(self):
        newest = CommitLog(self.store, "wc", "reader").manifest
        assert newest.number == len(self.model.states) - 1
        assert stored(self.store, newest.number) == self.model.payloads(newest.number)

    @invariant()
    def the_owner_knows_the_newest_state(self):
        if self.owner is not None:
            log = self.claimed[self.owner]
            newest = CommitLog(self.store, "wc", "reader").manifest
            assert log.manifest == newest
            assert (log.manifest.files, log.manifest.inline) == (newest.files, newest.inline)


TestDrivers = Drivers.TestCase
