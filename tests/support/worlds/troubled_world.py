"""A transactional topology in which anything may fail at any moment, until it comes to its end."""

import itertools
import random
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import numpy as np

from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.errors import Unreachable
from fulmen.testing import ManualClock
from support.lives.chaos import Chaos, DriverDied, chaotic
from support.runs.engine_runs import Steady, make_driver, new_store
from support.stores.outside_stores import STORES
from support.worlds.troubled_parts import Trouble, kept, stored, troubled

COUNTED = {"pass": 1, "partial": 1, "first": 1, "behind": 2, "last": 1}
"""Bolts that keep state, and how often they see each row."""


class Bounded(Silent):
    """Gives up on a topology that does not come to its end."""

    def __init__(self):
        self.committed = []

    def batch(self, totals, done):
        assert totals.batches < 3000, "it never ends"
        self.committed += [one.attempt.txid for one in done.transactions.committed]


class Unsteady(Steady):
    """Some of the workers are gone after a failure, and may be back later."""

    def recover(self):
        if self.chaos.random.random() < 0.7:
            return super().recover()
        everyone = super().alive()
        gone = self.chaos.random.sample(everyone, self.chaos.random.randrange(len(everyone)))
        return [worker for worker in everyone if worker not in gone]

    def run(self, header, timeout_seconds):
        if self.chaos.random.random() < self.chaos.rate / 3:  # between two batches
            worker = self.chaos.random.randrange(len(self._workers))
            self._workers[worker] = self._worker()
        return super().run(header, timeout_seconds)


class World:
    """One source, one store outside, and drivers one after the other."""

    def __init__(self, seed, kind):
        choose = random.Random(f"{seed} {kind}")
        self.kind, self.choose = kind, choose
        self.chaos = Chaos(seed, choose.randint(0, 12), choose.choice((0.003, 0.02, 0.1)))
        self.partitions = [
            [choose.choice("abcdefgh") for _ in range(choose.randrange(25))]
            for _ in range(choose.randint(1, 4))
        ]
        self.outside = Trouble(choose, choose.randint(0, 12), choose.choice((0.01, 0.05)))
        self.name = f"world-{len(STORES)}"
        STORES[self.name] = self.outside
        self.store, self.clock = new_store(), ManualClock()
        self.limits = EngineLimits(look_seconds=0.5, collect_every=5)
        self.keeps = choose.random() < 0.5

    def topology(self):
        return troubled(
            self.kind,
            {"store": self.name, "opaque": "opaque" in self.kind, "keeps": self.keeps},
            self.partitions,
            workers=self.choose.randint(1, 3),
            max_spout_pending=1 if self.keeps else self.choose.choice((1, 2, 3, 5)),
        ).build()

    def live(self):
        """Drivers, until one of them comes to the end. Returns the last one."""
        numbers = itertools.count(self.choose.randrange(10**9))
        generator = lambda: np.random.Generator(np.random.PCG64(next(numbers)))  # noqa: E731
        committed = []
        while True:
            failing = chaotic(self.store, self.chaos)
            jobs = Unsteady(self.clock, 0.05, self.chaos.fault, failing, generator)
            jobs.chaos = self.chaos
            driver = make_driver(
                self.topology(),
                store=failing,
                clock=self.clock,
                jobs=jobs,
                observer=Bounded(),
                generator=generator,
                limits=self.limits,
            )
            try:
                running = driver.start()
                self.chaos.crashes = lambda r=running: self.suspects(r)
                running.run(self.stop(running))
                return running, committed + driver.observer.committed
            except (Unreachable, DriverDied):
                self.chaos.crashes = None
                committed += driver.observer.committed

    def stop(self, running):
        """Drained; maybe it becomes another topology meanwhile."""
        stop = Stop(when_drained=True)
        if self.choose.random() < 0.3:
            stop.topology = running.planner.with_committers(self.topology())
        return stop

    @staticmethod
    def suspects(running):
        """Nothing is lost while a transaction that has done no harm would be blamed for it."""
        return SimpleNamespace(alone=running.coordinator.transactions._nothings >= 2)

    def check(self, driver, committed):
        expected = Counter(row for rows in self.partitions for row in rows)
        assert stored(self.outside, "first") == expected
        assert stored(self.outside, "last") == expected
        assert stored(self.outside, "behind") == expected + expected
        for bolt, times in COUNTED.items() if self.keeps else ():
            counts = Counter({row: times * count for row, count in expected.items()})
            assert kept(driver, self.store, bolt) == {"executed": counts, "finished": counts}, bolt
        ledger = driver.coordinator.transactions.ledger
        assert driver.coordinator.transactions.is_settled
        assert set(committed) <= set(range(1, ledger.committed + 1))
        assert committed == sorted(set(committed)), "each once, in order, as far as was told"
        assert ledger.given_up == ()

    def simulate(self):
        """Live until the end, and check."""
        with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
            self.check(*self.live())
