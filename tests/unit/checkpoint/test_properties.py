"""Random lives of three drivers that share a checkpoint, against a plain model of its content."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fulmen.checkpoint import CommitLog, load_many
from fulmen.checkpoint.garbage import FENCE_SECONDS, LogLimits
from fulmen.checkpoint.names import commit_key
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_section, read_pinned
from fulmen.errors import Fenced
from support.stores.checkpoint import (
    FakeClock,
    Model,
    links_of,
    memory_store,
    saved,
    stored,
)

FILE_BYTES = 8
"""Payloads of this size or more are in state files."""
DRIVERS = st.sampled_from(["one", "two", "three"])
TASKS = st.sampled_from(["a/0", "a/1", "b/0"])
PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.binary(min_size=FILE_BYTES, max_size=FILE_BYTES + 1),
)
CHANGES = st.lists(
    # The last is how many commits back payloads are kept; None keeps all.
    st.tuples(TASKS, st.sampled_from(["s", "t"]), PAYLOADS, st.none() | st.integers(0, 4)),
    max_size=4,
    unique_by=lambda change: change[:2],
)
JOURNALS = st.sampled_from(["s", "t"])
MOVES = st.lists(st.tuples(TASKS, JOURNALS, TASKS, JOURNALS), max_size=2)


NAMES = st.sampled_from(["x", "y"])
REMOVED = st.lists(TASKS, max_size=1)

SHORT_CYCLES = LogLimits(manifest_every=3, lag=1, sweep_every=2)


class Drivers(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.store, self.clock, self.model = memory_store(), FakeClock(), Model()
        self.store.inline_bytes = FILE_BYTES
        self.opened = {}  # driver -> its log, not claimed yet
        self.claimed = {}  # driver -> its log
        self.owner = None
        self.kept = {}  # name of a pin -> it, its state, its transient sections
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
    @rule(data=st.data(), changes=CHANGES, removed=REMOVED, moves=MOVES)
    def commit(self, data, changes, removed, moves):
        driver = data.draw(st.sampled_from(sorted(self.claimed)))
        self.commit_of(driver, changes, removed, moves)

    @precondition(lambda self: self.owner)
    @rule(commits=st.lists(st.tuples(CHANGES, REMOVED, MOVES), max_size=6))
    def work(self, commits):
        """So that most of what is committed grows old."""
        for commit in commits:
            self.commit_of(self.owner, *commit)
            self.claimed[self.owner].collect()

    def commit_of(self, driver, changes, removed, moves):
        log, tag = self.claimed[driver], next(self.tags)
        number = log.manifest.number + 1
        changes = [
            (task, journal, payload, 0 if back is None else max(number - back, 0))
            for task, journal, payload, back in changes
        ]
        updates = saved(self.store, number, tag, changes)
        links = links_of(log.manifest, moves)
        draft = log.draft(tag=tag, clock=0.0, updates=updates, removed_tasks=removed, links=links)
        if driver == self.owner:
            log.commit(draft)
            self.model.apply(changes, removed, moves)
        else:
            with pytest.raises(Fenced):
                log.commit(draft)
            del self.claimed[driver]

    @precondition(lambda self: self.owner)
    @rule(name=NAMES, removes=NAMES | st.none())
    def pin(self, name, removes):
        """The state before this commit stays as it is, whatever follows; one that stayed may go."""
        log, number = self.claimed[self.owner], self.claimed[self.owner].manifest.number
        self.kept.pop(removes, None)
        self.kept[name] = (
            Pin(number + 1, 0.0),
            self.model.payloads(number),
            log.manifest.transient,
        )
        draft = log.draft(
            tag=next(self.tags),
            clock=0.0,
            sections={PINS: pins_section({name: pin for name, (pin, _, _) in self.kept.items()})},
            transient={"said": b"%d" % number},
            full=True,
        )
        log.commit(draft)
        self.model.apply()

    @precondition(lambda self: self.owner and self.kept)
    @rule(data=st.data())
    def go_back(self, data):
        """A later commit with the content of a pin."""
        log = self.claimed[self.owner]
        pin, state, _ = self.kept[data.draw(st.sampled_from(sorted(self.kept)))]
        before = read_pinned(self.store, "x", pin)
        draft = log.draft(
            tag=next(self.tags),
            clock=0.0,
            removed_tasks=list(log.manifest.tasks),
            links=before.tasks,
            lender=before,
        )
        log.commit(draft)
        self.model.states.append(self.model.states[pin.number])
        assert stored(self.store, draft.number) == state

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
    def pins_keep_the_same_bytes(self):
        for pin, state, transient in self.kept.values():
            before = read_pinned(self.store, "x", pin)
            assert (load_many(self.store, before, before.tasks), before.transient) == (
                state,
                transient,
            )

    @invariant()
    def the_owner_knows_the_newest_state(self):
        if self.owner is not None:
            log = self.claimed[self.owner]
            newest = CommitLog(self.store, "wc", "reader").manifest
            assert log.manifest == newest
            assert (log.manifest.files, log.manifest.inline) == (newest.files, newest.inline)

    def teardown(self):
        """Whatever has happened: the next driver leaves what is needed, and nothing else."""
        log = CommitLog(self.store, "wc", "last", clock=self.clock, limits=SHORT_CYCLES)
        log.claim()
        self.clock.now += FENCE_SECONDS
        log.collect()
        manifest = log.manifest
        needed = {*manifest.objects, commit_key(manifest.number)}
        for pin, _, _ in self.kept.values():
            needed |= read_pinned(self.store, "x", pin).objects | {commit_key(pin.commit)}
        assert set(self.store.list("")) == needed


TestDrivers = Drivers.TestCase
