"""Committers in a test's own process: what they write, and what happens to them."""

import itertools
import threading

from fulmen.transactional import StoreUnavailable, plus
from fulmen.transactional.conformance import at


class Committing(threading.Thread):
    """Commits one transaction after another, each with 1 for every key, again until it is written.

    Attributes:
        done: How many transactions were written.
        failures: How often the store was away.
    """

    def __init__(self, a_map, keys, first=1):
        super().__init__(daemon=True)
        self.done, self.failures, self.error = first - 1, 0, None
        self._map, self._partials = a_map, dict.fromkeys(keys, 1)
        self._stop_it = threading.Event()

    def run(self):
        attempts = itertools.count(1)
        try:
            while not self._stop_it.is_set():
                attempt = at(self.done + 1, next(attempts))
                try:
                    self._map.update(attempt, self._partials, plus)
                except StoreUnavailable:
                    self.failures += 1
                    self._stop_it.wait(0.01)
                else:
                    self.done += 1
        except Exception as error:  # noqa: BLE001 (a thread's, for the test)
            self.error = error

    def end(self):
        """Let it end what it does."""
        self._stop_it.set()
        self.join(30)
        assert self.error is None, repr(self.error)


class Paused:
    """A `combine` in which a writer stops, until it is told to go on."""

    def __init__(self):
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self, old, partial):
        self.entered.set()
        assert self.go_on.wait(30)
        return plus(old, partial)


class Writing(threading.Thread):
    """One update, in a thread. `result()` is None, or what it raised."""

    def __init__(self, a_map, *arguments):
        super().__init__(daemon=True)
        self._map, self._arguments, self._error = a_map, arguments, None
        self.start()

    def run(self):
        try:
            self._map.update(*self._arguments)
        except Exception as error:  # noqa: BLE001 (for the test)
            self._error = error

    def result(self):
        """How it ended."""
        self.join(30)
        assert not self.is_alive()
        return self._error
