"""Random kills while state moves: other numbers of tasks, savepoints, and going back.

    make soak SOAK_ARGS="--state --kills 100"

Each start has other numbers of tasks, and has state on disk or in memory. Savepoints are made by
themselves all the time, asked for and deleted; the command that goes back to one is killed as well.
Drivers, JVMs and Python processes are killed meanwhile, most of them soon after a start, when tasks
change. Each commit that is looked at must be of whole batches, as one that nobody has disturbed.
"""

import itertools
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from fulmen.checkpoint import Store, read_newest
from fulmen.checkpoint.savepoints.history import branches_of
from fulmen.checkpoint.savepoints.pins import PINS, pins_in
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.checkpoints.savepoints import Wish
from support.lives.processes import DRIVER, send
from support.soaks.growth import check_cleared
from support.soaks.soak import DEADLINE_SECONDS, FULMEN, Soak
from support.worlds import unrepeatable

TASKS = (1, 2, 3, 5)
COMMAND = "savepoint restore"
DONE = "other tasks", "savepoint", "end", "went back"
AUTOMATIC = {"every": "5s", "keep": 2}


class StateSoak(Soak):
    """One checkpoint; see the module.

    Attributes:
        done: How often each thing was done to the state.
    """

    def __init__(self, folder, seed):
        parts = SimpleNamespace(
            __file__=unrepeatable.__file__, check_commit=unrepeatable.check_counts
        )
        super().__init__(folder, seed, (1, 2), parts)
        self.done = Counter()
        self._names = (f"asked-{number}" for number in itertools.count(1))
        self._chosen, self._moves = [], []

    def choose_workers(self):
        """Write the topology's file: with other numbers of tasks each time."""
        self.workers = self.rng.choice(self.choices)
        before = self._chosen
        while self._chosen == before:
            self._chosen = [self.rng.choice(TASKS) for _ in range(3)]
        tasks = self._chosen
        backend = self.rng.choice(["memory", "disk"])
        spec = {"savepoints": AUTOMATIC, "message_timeout_seconds": 600}
        self.write(unrepeatable.moving(self.workers, tasks, backend, **spec))

    @property
    def has_done_all(self):
        """Whether each thing was done to the state at least once."""
        return all(self.done[what] for what in DONE)

    # What is done to the state

    def round(self):
        """Do something to the state, do harm, see it go on, and check what is committed."""
        if not self._moves:  # so each of them comes, however few rounds there are
            self._moves = [self.rescale, self.ask, self.rescale, self.delete, self.go_back]
            self.rng.shuffle(self._moves)
        finish = self._moves.pop()()
        time.sleep(self.rng.uniform(0, 1.5))
        self.strike()
        self.go_on()
        self.wait_for_batches(3)
        finish()
        self.check()

    def rescale(self):
        """Kill the driver: the next one has other numbers of tasks, and is harmed soon."""
        before = self.tasks()
        self.kill_driver()
        self.keep_running()
        self.wait_for_batches(self.rng.randint(0, 3))

        def finish():
            self.done["other tasks"] += self.tasks() != before

        return finish

    def ask(self):
        """Ask for a savepoint: it is made, whatever is killed."""
        name = next(self._names)
        self.keep_running()
        Wish(name).ask(self.store)
        return lambda: self._wait_until(lambda: name in self.pins(), f"savepoint {name}")

    def delete(self):
        """Ask for the end of a savepoint, if there is one."""
        if not (names := sorted(self.pins())):
            return self.ask()
        name = self.rng.choice(names)
        self.keep_running()
        Wish(name, deletes=True).ask(self.store)
        return lambda: self._wait_until(lambda: name not in self.pins(), f"end of {name}")

    def go_back(self):
        """Go back to a savepoint, if there is one. The first try of the command may be killed."""
        if not (names := sorted(self.pins())):
            return self.ask()
        name, before = self.rng.choice(names), len(branches_of(read_newest(self.store)))
        self.kill_driver()
        command = [FULMEN, "savepoint", "restore", self.checkpoint, name]
        if self.rng.random() < 0.5:
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
                time.sleep(self.rng.uniform(0.3, 3))
                if first.poll() is None:
                    first.kill()
                    self.kills[COMMAND] += 1
            self.check()
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        assert len(branches_of(read_newest(self.store))) > before
        self.check()
        self.done["went back"] += 1
        self.keep_running()
        return lambda: None

    def kill_driver(self):
        """Kill the driver, without a warning."""
        self.keep_running()
        if send(self.process.pid, signal.SIGKILL):
            self.kills[DRIVER] += 1
        self.is_harmed = True
        self.process.wait()

    # What there is

    @property
    def store(self):
        return Store.open(self.checkpoint)

    def pins(self):
        manifest = read_newest(self.store)
        return pins_in(manifest.sections.get(PINS)) if manifest.number else {}

    def tasks(self):
        """The number of tasks of each component, as of the newest commit."""
        known = layout_of(read_newest(self.store))
        return dict(known.tasks) if known is not None else {}

    def _wait_until(self, holds, what):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} does not come:\n{self.output()}"
            self.keep_running()
            time.sleep(0.1)
        self.done[what.split()[0]] += 1

    def drain(self):
        """End it as its user does, and let go of all savepoints: nothing may be left."""
        self.end()
        command = [FULMEN, "savepoint", "delete", self.checkpoint, *self.pins(), "--stopped"]
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        check_cleared(self.checkpoint)

    def figures(self):
        done = ", ".join(f"{what} {number}" for what, number in sorted(self.done.items()))
        return f"{super().figures()}; {done}"


def soak(folder, seed, kills, seconds=float("inf")):
    """Rounds until so many processes were killed, or so many seconds have passed; then its end."""
    end = time.monotonic() + seconds
    with StateSoak(Path(folder), seed) as one:
        rounds = 0
        try:
            while (one.killed < kills or not one.has_done_all) and time.monotonic() < end:
                one.round()
                rounds += 1
                if rounds % 5 == 0:
                    print(f"after {rounds} rounds: {one.figures()}", flush=True)
            one.drain()
        except AssertionError as error:
            error.add_note(f"seed {seed}: after {one.figures()}")
            raise
    return one
