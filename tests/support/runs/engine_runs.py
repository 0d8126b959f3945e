"""Drivers of topologies that run in this process, for tests that look into them."""

import itertools
import time

import numpy as np
from obstore.store import MemoryStore

from fulmen import Spout
from fulmen.checkpoint import INLINE_BYTES, Store, load_many
from fulmen.checkpoint.remote import RemoteBackend
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.driver import Driver, Silent
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.testing import ManualClock
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.validation.check import check

_numbers = itertools.count()
A_PERSON = Author("ann@laptop", "for a test", at="2026-01-31 12:00:00 UTC")


def new_store(inline_bytes=INLINE_BYTES):
    uri = f"memory://test-{next(_numbers)}"
    return Store(uri, RemoteBackend(uri, MemoryStore()), inline_bytes)


class Steady(InProcessJobs):
    """Each attempt takes the same time."""

    def __init__(
        self, clock, seconds=0.01, fault=None, store=None, generator=np.random.default_rng
    ):
        super().__init__(fault, store, generator=generator)
        self.clock = clock
        self.seconds = seconds

    def run(self, header, timeout_seconds):
        self.clock.advance(self.seconds)
        return super().run(header, timeout_seconds)


class Numbers(Spout):
    """Emits the numbers up to the limit in its configuration, each of them once."""

    outputs = ("number",)

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.collector, self.limit = collector, conf["limit"]

    def next_tuple(self):
        if not self.is_exhausted():
            self.collector.emit([self.at], msg_id=self.at)
            self.at += 1

    def is_exhausted(self):
        return self.at == self.limit


class Losing(InProcessJobs):
    """Loses the first jobs that have a tuple of a spout in them.

    Args:
        losses: How many.
        failure: What is raised then.
    """

    def __init__(self, losses, failure, store):
        super().__init__(store=store)
        self.losses, self.failure = losses, failure

    def run(self, header, timeout_seconds):
        if self.losses and (header.default_permit or any(header.permits.values())):
            self.losses -= 1
            raise self.failure
        return super().run(header, timeout_seconds)


def make_driver(
    topology,
    *,
    store=None,
    clock=None,
    jobs=None,
    observer=None,
    seconds=0.01,
    code_folder=None,
    wall=time.time,
    generator=np.random.default_rng,
    limits=LIMITS,
):
    """A driver, not yet started."""
    if isinstance(topology, TopologyBuilder):
        topology = topology.build()
    clock, store = clock or ManualClock(), store or new_store()
    return Driver(
        check(topology, code_folder).runnable(code_folder),
        jobs or Steady(clock, seconds, store=store),
        store.uri,
        observer=observer or Silent(),
        store=store,
        clocks=Clocks(clock, clock.advance, wall),
        generator=generator,
        limits=limits,
    )


def state_of(driver, component):
    """The keyed state of a component's tasks together, as committed."""
    manifest = driver.log.manifest
    keys = [driver.plan.key_of(task) for task in driver.plan.tasks(component)]
    found = {}
    for journals in load_many(driver.store, manifest, keys).values():
        found |= KeyedState.restore(journals)
    return found


class Records:
    """What a checkpoint keeps of one journal: records, until a later one makes them superfluous."""

    def __init__(self):
        self.kept = []
        self.written = 0

    def add(self, number, update):
        if update is None:
            return
        data, keep_from = update
        assert keep_from <= number
        self.kept = [(n, old) for n, old in self.kept if n >= keep_from]
        self.kept.append((number, data))
        self.written += len(data)

    @property
    def payloads(self):
        return [data for _, data in self.kept]

    @property
    def bytes(self):
        return sum(map(len, self.payloads))


class Kept:
    """What a checkpoint keeps of a keyed state: journals, until they are dropped.

    Attributes:
        journals: Journal -> what is in it.
        written: Bytes, of all commits.
    """

    def __init__(self):
        self.journals = {}
        self.written = 0

    def add(self, number, updates):
        """A commit was made. Returns how many bytes it wrote."""
        before = self.written
        for journal, (data, keep_from) in updates.items():
            assert keep_from in (0, number)
            if keep_from:
                del self.journals[journal]
            if data is not None:
                self.journals.setdefault(journal, []).append(data)
                self.written += len(data)
        return self.written - before

    @property
    def bytes(self):
        return sum(len(data) for payloads in self.journals.values() for data in payloads)

    def restored(self):
        """The state, in another process."""
        return KeyedState.restore(self.journals)
