"""A world that fails at random: workers that die, stores that don't answer, drivers that vanish."""

import random
from threading import current_thread, main_thread

from fulmen.checkpoint import Store
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import Unreachable
from fulmen.interruptions import Interruption


class DriverDied(Interruption):
    """Nothing of the engine's catches this, as nothing runs in a process that was killed."""


class Chaos:
    """Decides when something fails.

    Args:
        seed: Equal seeds, equal worlds.
        faults: How many, all in all.
        rate: How likely, at each place where something may fail.

    Attributes:
        crashes: The coordinator's. Nothing fails while a tuple that has done no harm would be
            blamed for it.
    """

    def __init__(self, seed, faults, rate):
        self.random = random.Random(seed)
        self.left = faults
        self.rate = rate
        self.crashes = None
        self.happened = []

    def strikes(self, where):
        if self.crashes is not None and self.crashes().alone:
            return False
        if self.left <= 0 or self.random.random() >= self.rate:
            return False
        self.left -= 1
        self.happened.append(where)
        return True

    def fault(self, stage, partition, moment):
        """For InProcessJobs."""
        if self.strikes(f"{moment} {stage}/{partition}"):
            raise Crash("killed") if self.random.random() < 0.7 else DriverDied


class ChaosBackend:
    """A store's backend that does not answer, or after whose answer the driver is gone."""

    def __init__(self, backend, chaos):
        self.backend = backend
        self.chaos = chaos

    def _do(self, verb, key, call):
        chaos = self.chaos
        if chaos.strikes(f"{verb} {key}"):
            if chaos.random.random() < 0.5:
                call()  # it took effect, but nobody learns of it
            if chaos.random.random() < 0.5 and current_thread() is main_thread():
                raise DriverDied  # others, such as one that reads ahead, are not where it dies
            raise Unreachable("memory://chaos", key, "no answer", unknown=verb == "put")
        return call()

    def put(self, key, data):
        return self._do("put", key, lambda: self.backend.put(key, data))

    def get(self, key):
        return self._do("get", key, lambda: self.backend.get(key))

    def get_many(self, keys):
        return self._do("get", str(keys[:1]), lambda: self.backend.get_many(keys))

    def list(self, prefix):
        if prefix.startswith("savepoints/"):  # by a thread of its own, which disturbs nobody
            return self.backend.list(prefix)
        return self._do("list", prefix, lambda: self.backend.list(prefix))

    def delete(self, keys):
        return self._do("delete", keys[0], lambda: self.backend.delete(keys))


def chaotic(store, chaos):
    return Store(store.uri, ChaosBackend(store._backend, chaos), store.inline_bytes)
