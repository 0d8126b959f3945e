"""Random kills under `fulmen run` on this machine, for as long as is asked.

    python -m support.soak --seconds 3600

The topology repeats nothing (support/unrepeatable.py); after each round its newest commit is
checked by itself. What is killed follows from a seed, the moments are those of real processes. A
run that has ended because of it is started again, as its user would do.
"""

import argparse
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import yaml

from fulmen.topology.reading.documents import to_document
from support import unrepeatable
from support.spark_topologies import NOTHING_PENDING, Committed
from support.unrepeatable import chaotic, check_commit

DEADLINE_SECONDS = 300
PAUSE_SECONDS = 2
DRIVER, JVM, PYTHON, PAUSE = "driver killed", "JVM killed", "Python killed", "Python paused"


class Soak:
    """One checkpoint, and the runs on it, one after the other.

    Attributes:
        kinds: How often each kind of harm was done.
        starts: How many runs there were.
        messages: How many tuples were emitted, as committed.
    """

    def __init__(self, folder, seed, workers=2):
        self.folder, self.workers = folder, workers
        self.rng = random.Random(seed)
        self.checkpoint = (folder / "checkpoint").as_uri()
        self.kinds = Counter()
        self.starts = self.messages = 0
        self.process = None
        self.is_harmed = False
        self.paused = []

    def __enter__(self):
        document = to_document(chaotic(self.workers, maxSpoutPending=300).build())
        spec = document["spec"]
        for component in (*spec["spouts"], *spec["bolts"]):
            component["class"] = component["class"].removeprefix("support.")
        spec["code"] = {"folder": "."}
        shutil.copy(unrepeatable.__file__, self.folder)
        (self.folder / "chaotic.yaml").write_text(yaml.safe_dump(document))
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            found = descendants(self.process.pid)
            for pid in (self.process.pid, *found):
                send(pid, signal.SIGKILL)
            self.process.wait()

    def keep_running(self):
        """Start it, if it does not run."""
        if self.process is not None and self.process.poll() is None:
            return
        assert self.process is None or self.is_harmed, f"it ended by itself:\n{self.output()}"
        self.is_harmed = False
        command = [Path(sys.executable).with_name("fulmen"), "run", "chaotic.yaml"]
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen(
                [*command, "--checkpoint", self.checkpoint],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.starts += 1

    def wait_for_batches(self, number):
        """Wait until so many commits were made from now on, however often it must be started."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        first = None
        while first is None or self.newest_commit() < first + number:
            assert time.monotonic() < deadline, f"it does not go on:\n{self.output()}"
            self.keep_running()
            first = first or self.newest_commit()
            time.sleep(0.05)

    def newest_commit(self):
        """Its number; None: there is none."""
        names = [file.name for file in (self.folder / "checkpoint" / "commits").glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def strike(self):
        """Do harm to one to three processes at once. Returns what was done."""
        below = descendants(self.process.pid)
        pythons = [
            p for p, command in below.items() if "pyspark" in command and "java" not in command
        ]
        jvms = [p for p, command in below.items() if is_jvm(command)]
        victims = {DRIVER: [self.process.pid], JVM: jvms, PYTHON: pythons, PAUSE: pythons}
        kinds = [kind for kind, pids in victims.items() if pids]
        chosen = {self.rng.choice(kinds) for _ in range(self.rng.choice((1, 1, 2, 3)))}
        done = []
        for kind in sorted(chosen):
            pid = self.rng.choice(victims[kind])
            if send(pid, signal.SIGSTOP if kind == PAUSE else signal.SIGKILL):
                done.append(kind)
                if kind == PAUSE:
                    self.paused.append(pid)
        self.kinds.update(done)
        self.is_harmed = True
        return done

    def go_on(self):
        """Let what was paused go on, some time later."""
        if self.paused:
            time.sleep(self.rng.uniform(0, PAUSE_SECONDS))
        for pid in self.paused:
            send(pid, signal.SIGCONT)
        self.paused.clear()

    def round(self):
        """Let it run, do harm, see it go on, and check what is committed."""
        self.wait_for_batches(self.rng.randint(1, 8))
        time.sleep(self.rng.uniform(0, 0.5))
        done = self.strike()
        self.go_on()
        self.wait_for_batches(3)
        before = self.messages
        self.messages, _ = check_commit(Committed(self.checkpoint))
        assert self.messages > before, f"nothing was emitted after {done}"

    def drain(self):
        """End it as its user does; nothing may be left."""
        self.keep_running()
        self.wait_for_batches(1)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_SECONDS)
        assert code == 0, f"it ended with {code}:\n{self.output()}"
        committed = Committed(self.checkpoint)
        self.messages, waiting = check_commit(committed)
        assert (waiting, committed.pending()) == (0, NOTHING_PENDING)

    def output(self):
        return (self.folder / "output").read_text(errors="replace")[-4000:]

    def figures(self):
        """In one line, for people."""
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(self.kinds.items()))
        return (
            f"{sum(self.kinds.values())} times harm ({kinds}); {self.starts} runs;"
            f" {self.messages} messages; every commit looked at was right"
        )


def is_jvm(command):
    return command.split("\0")[0].endswith("java")


def send(pid, number):
    """Send a signal. Returns whether there was such a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def descendants(pid):
    """The processes below one, with their command lines."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
            commands[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
    found, new = {}, {pid}
    while new:
        new = {p for p, parent in parents.items() if parent in new and p not in found}
        found |= {p: commands.get(p, "") for p in new}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.seconds:g} seconds, {args.workers} workers", flush=True)
    end = time.monotonic() + args.seconds
    with (
        tempfile.TemporaryDirectory() as folder,
        Soak(Path(folder), args.seed, args.workers) as soak,
    ):
        try:
            for number in itertools.count(1):
                soak.round()
                if number % 10 == 0:
                    print(f"after {number} rounds: {soak.figures()}", flush=True)
                if time.monotonic() >= end:
                    break
            soak.drain()
        except AssertionError:
            print(f"seed {args.seed}: FAILED after {soak.kinds}", flush=True)
            raise
        print(f"seed {args.seed}: {soak.figures()}")


if __name__ == "__main__":
    main()
