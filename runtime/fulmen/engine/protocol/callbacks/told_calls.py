"""Calls of authors' code that last, in workers on other machines than the driver.

A job's rows arrive when it ends, which is too late for a call that hangs. What workers and driver
share all the time is the checkpoint's store. So a worker puts a small object there when a call has
lasted for seconds, and deletes it when the call has ended. The driver looks only while a job takes
that long: nothing of this costs a batch anything.

What a worker leaves there when it dies, the driver deletes after the job, or the checkpoint's
garbage collection later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgpack  # type: ignore[import-untyped]

from fulmen.checkpoint import Store, new_tag
from fulmen.checkpoint.names import CALLS as FOLDER
from fulmen.engine.protocol.callbacks.calls import CALLS, Call, Calls
from fulmen.errors import CheckpointError

TELLS = "FULMEN_TELLS_CALLS"
"""Environment variable: set where the driver can't read the files of `calls.FOLDER`."""
LOOK_SECONDS = 5.0


class CallTeller:
    """Tells of this process's calls that last, from a thread of its own."""

    def __init__(self, calls: Calls = CALLS) -> None:
        self._calls = calls
        self._run, self._hang_seconds = "", 0.0
        self._store: Store | None = None
        self._told: dict[tuple[int, str], str] = {}  # call -> key
        self._thread: threading.Thread | None = None

    def serve(self, run: str, store: Store, hang_seconds: float) -> None:
        """Tell the driver of this run of calls that have lasted so long, from now on."""
        self._run, self._store, self._hang_seconds = run, store, hang_seconds
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="fulmen-calls", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(min(LOOK_SECONDS, self._hang_seconds))
            with suppress(CheckpointError):  # the next look tells what this one could not
                self.look()

    def look(self) -> None:
        """Tell what has lasted long enough by now, and take back what has ended.

        Raises:
            CheckpointError: The store does not take it.
        """
        store = self._store
        assert store is not None
        long = [c for c in self._calls.under_way() if c.seconds >= self._hang_seconds]
        now = {(call.task, call.callback): call for call in long}
        for key in [key for key in self._told if key not in now]:
            store.delete([self._told[key]])
            del self._told[key]
        for key, call in now.items():
            if key not in self._told:
                name = f"{FOLDER}{self._run}/{call.task}-{new_tag()}"
                store.put(name, msgpack.packb(tuple(call)))
                self._told[key] = name


class ToldCalls:
    """Calls that workers have told, for the driver. One thread asks.

    Args:
        store: The checkpoint's.
        run: The run whose workers are meant.
        clock: Steady seconds.
    """

    def __init__(self, store: Store, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._folder, self._clock = store, f"{FOLDER}{run}/", clock
        self._looked: float | None = None
        self._seen: dict[str, tuple[Call, float]] = {}  # key -> what it says, and when it was read

    def read(self) -> list[Call]:
        """The calls that go on, as was told. The store is asked every few seconds."""
        now = self._clock()
        if self._looked is None or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            with suppress(CheckpointError):
                self._look(now)
        return [
            Call(task, callback, seconds + now - read)
            for (task, callback, seconds), read in self._seen.values()
        ]

    def _look(self, now: float) -> None:
        keys = self._store.list(self._folder)
        self._seen = {key: seen for key, seen in self._seen.items() if key in keys}
        for key in [key for key in keys if key not in self._seen]:
            with suppress(CheckpointError):  # it has ended just now
                self._seen[key] = Call(*msgpack.unpackb(self._store.get(key))), now

    def forget(self) -> None:
        """Forget the calls of a job that has ended."""
        seen, self._seen, self._looked = self._seen, {}, None
        with suppress(CheckpointError):
            self._store.delete(seen)
