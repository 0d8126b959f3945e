"""Runs drivers of the chaotic topology one after the other, and checks what they have committed."""

import json
import signal
import subprocess
import sys
import time

from fulmen.checkpoint import Store, read_newest
from support.lives.faulty_driver import DRAINED, FENCED
from support.runs.spark_runs import environment, remove_output
from support.runs.spark_topologies import NOTHING_PENDING, Committed
from support.soaks.growth import check_cleared, check_growth, check_shuffles, is_settled
from support.worlds.unrepeatable import check_commit

DEADLINE_SECONDS = 600


class ChaoticRun:
    """One checkpoint, and the drivers that were started on it."""

    def __init__(self, folder, workers, checkpoint=None, env=(), slots=1):
        self.folder, self.workers, self.slots = folder, workers, slots
        self.checkpoint = checkpoint or (folder / "checkpoint").as_uri()
        self.env = {**environment(), **dict(env)}
        self.drivers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for driver in self.drivers:
            driver.process.kill()
            driver.process.wait()
            remove_output(driver.event("application"))

    def start(self, faults=(), batches=None):
        folder = self.folder / f"driver-{len(self.drivers)}"
        folder.mkdir()
        orders = {
            "checkpoint": self.checkpoint,
            "folder": str(folder),
            "workers": self.workers,
            "slots": self.slots,
            "faults": list(faults),
            "batches": batches,
        }
        (folder / "orders.json").write_text(json.dumps(orders))
        self.drivers.append(DriverProcess(folder, self.env, len(orders["faults"])))
        return self.drivers[-1]

    def check(self):
        """Assert that the newest commit is of whole batches; (tuples emitted, not acked)."""
        return check_commit(Committed(self.checkpoint))

    def check_drained(self):
        """Assert that nothing was lost, nothing is pending, and little is left behind."""
        emitted, waiting = self.check()
        assert emitted > 0
        assert waiting == 0
        assert Committed(self.checkpoint).pending() == NOTHING_PENDING
        trees = [d.event("report")["trees"] for d in self.drivers if d.event("report")]
        assert [(t["failed"], t["timed_out"]) for t in trees] == [(0, 0)] * len(trees)
        self.check_faults()
        self.check_growth()

    def check_growth(self):
        if is_settled(read_newest(Store.open(self.checkpoint))):
            check_growth(self.checkpoint)
        check_cleared(self.checkpoint)
        for driver in self.drivers:
            for event in driver.events():
                if files := event.get("files"):
                    check_shuffles(files["there"], files["made"])

    def check_faults(self):
        """Assert that all that was ordered has happened: each kill has killed a process.

        Few of them missed their moment, and came later.
        """
        for driver in self.drivers:
            made = [event["fault"] for event in driver.events() if "fault" in event]
            missed = [event["missed"] for event in driver.events() if "missed" in event]
            assert len(made) == driver.ordered, f"made {made}, missed {missed}"
            assert len(missed) <= len(made), f"made {made}, missed {missed}"

    def failures(self):
        """Why attempts came to nothing, in all drivers."""
        return [e["reason"] for d in self.drivers for e in d.events() if "failed" in e]


class DriverProcess:
    def __init__(self, folder, env, ordered):
        self.folder, self.ordered = folder, ordered
        command = [sys.executable, "-m", "support.lives.faulty_driver", str(folder / "orders.json")]
        with open(folder / "output", "wb") as output:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def events(self):
        file = self.folder / "events"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def event(self, name):
        """The newest event of that name, or None."""
        return next((e[name] for e in reversed(self.events()) if name in e), None)

    def wait_until(self, test, what):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not test():
            assert time.monotonic() < deadline, f"{what} did not come:\n{self}"
            assert self.process.poll() is None, f"it ended before {what}:\n{self}"
            time.sleep(0.02)

    def wait_for_batches(self, number):
        self.wait_until(
            lambda: sum("batch" in e for e in self.events()) >= number, f"batch {number}"
        )

    def wait_until_it_stops(self):
        """Until it has received SIGSTOP."""
        self.wait_until(lambda: self._state() == "T", "its stop")

    def _state(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self, code):
        """Wait for its end, which must be this one."""
        found = self.process.wait(DEADLINE_SECONDS)
        assert found == code, f"it ended with {found}:\n{self}"

    def end_drained(self):
        self.end(DRAINED)

    def end_killed(self):
        self.end(-signal.SIGKILL)

    def end_fenced(self):
        """Wait for its end; what it said of it."""
        self.end(FENCED)
        return self.event("fenced")

    def __str__(self):
        return (self.folder / "output").read_text()[-4000:] + "\n".join(
            map(str, self.events()[-20:])
        )
