"""Random kills under `fulmen run` on this machine, for as long as is asked.

    python -m support.soaks.soak --seconds 3600
    python -m support.soaks.soak --kills 1000
    python -m support.soaks.soak --windows --kills 200
    python -m support.soaks.soak --transactions --seconds 600
    python -m support.soaks.soak --kafka --kills 50
    python -m support.soaks.soak --sinks postgres --kills 50
    python -m support.soaks.soak --sources kafka --kills 50
    python -m support.soaks.soak --files --seconds 900
    python -m support.soaks.soak --state --kills 100

With --transactions see soaks/transaction_soak.py, with --kafka soaks/kafka_soak.py, with
--sinks soaks/sink_soak.py, with --sources soaks/source_soak.py, with --files
soaks/file_soak.py, with --state soaks/state_soak.py.

The topology repeats nothing (worlds/unrepeatable.py, with --windows
worlds/unrepeatable_windows.py); after each round its newest commit is checked by itself. What is
killed follows from a seed, the moments are those of real processes. A run that has ended because of
it is started again, as its user would do. At the end nothing may be pending, and no more may be
left behind than follows from what was produced (soaks/growth.py).
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from fulmen.checkpoint import Store, read_newest
from fulmen.topology.reading.documents import to_document
from support.lives.processes import DRIVER, JVM, PAUSE, PYTHON, descendants, send, victims
from support.runs.spark_topologies import NOTHING_PENDING, Committed
from support.soaks import call_soak, kafka_soak, sink_soak, source_soak, transaction_soak
from support.soaks.growth import (
    FILES_TO_TELL,
    SETTLED_COMMITS,
    check_cleared,
    check_growth,
    check_shuffles,
)
from support.worlds import unrepeatable
from support.worlds import unrepeatable_windows as windows

DEADLINE_SECONDS = 300
PAUSE_SECONDS = 2
FULMEN = Path(sys.executable).with_name("fulmen")
KINDS = (DRIVER, JVM, *[PYTHON] * 10, PAUSE)
"""Python processes are killed more often: the others cost a start of Spark's each time."""


class Soak:
    """One checkpoint, and the runs on it, one after the other.

    Args:
        folder: Empty.
        seed: Decides what is killed.
        choices: The numbers of workers that a run may have.
        parts: The module with the topology.

    Attributes:
        kills: How many processes of each kind were killed.
        pauses: How many processes were stopped and went on later.
        starts: How many runs there were.
        messages: How many tuples were emitted, as committed.
        commits: How many commits were checked.
        differences: How many of them were not what they had to be. The first one ends it all.
    """

    def __init__(self, folder, seed, choices=(2,), parts=unrepeatable):
        self.folder, self.choices, self.parts = folder, choices, parts
        self.rng = random.Random(seed)
        self.checkpoint = (folder / "checkpoint").as_uri()
        self.kills = Counter()
        self.pauses = self.starts = self.messages = self.commits = self.differences = 0
        self.began = time.monotonic()
        self.process = None
        self.is_harmed = False
        self.paused = []

    def __enter__(self):
        shutil.copy(self.parts.__file__, self.folder)
        self.choose_workers()
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            found = descendants(self.process.pid)
            for pid in (self.process.pid, *found):
                send(pid, signal.SIGKILL)
            self.process.wait()

    def choose_workers(self):
        """Write the topology's file."""
        self.workers = self.rng.choice(self.choices)
        self.write(self.parts.build(self.workers))

    def write(self, builder):
        """Write the topology's file; its classes are in the same folder."""
        document = to_document(builder.build())
        spec = document["spec"]
        for component in (*spec["spouts"], *spec["bolts"]):
            component["class"] = re.sub(r"^support\.\w+\.", "", component["class"])
        spec["code"] = {"folder": "."}
        (self.folder / "topology.yaml").write_text(yaml.safe_dump(document))

    @property
    def killed(self):
        """How many processes were killed, all in all."""
        return sum(self.kills.values())

    def keep_running(self):
        """Start it, if it does not run."""
        if self.process is not None and self.process.poll() is None:
            return
        assert self.process is None or self.is_harmed, f"it ended by itself:\n{self.output()}"
        self.is_harmed = False
        self.choose_workers()
        command = [FULMEN, "run", "topology.yaml"]
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
        """Kill one to three processes at once; some are only paused. Returns what was killed.

        At least one process was there to be killed: a signal that hits nobody does not count.
        """
        killed, hit = [], set()
        while not killed:
            self.keep_running()
            for kind in [self.rng.choice(KINDS) for _ in range(self.rng.choice((1, 2, 2, 3)))]:
                possible = sorted(set(victims(self.process, kind)) - hit)
                if not possible:
                    continue
                pid = self.rng.choice(possible)
                if not send(pid, signal.SIGSTOP if kind == PAUSE else signal.SIGKILL):
                    continue
                hit.add(pid)
                self.is_harmed = True
                if kind == PAUSE:
                    self.paused.append(pid)
                    self.pauses += 1
                else:
                    killed.append(kind)
        self.kills.update(killed)
        return killed

    def go_on(self):
        """Let what was paused go on, some time later."""
        if self.paused:
            time.sleep(self.rng.uniform(0, PAUSE_SECONDS))
        for pid in self.paused:
            send(pid, signal.SIGCONT)
        self.paused.clear()

    def round(self):
        """Let it run, do harm, see it go on, and check what is committed."""
        self.wait_for_batches(self.rng.randint(1, 3))
        time.sleep(self.rng.uniform(0, 0.3))
        killed = self.strike()
        self.go_on()
        self.wait_for_batches(3)
        before = self.messages
        self.check()
        assert self.messages > before, f"nothing was emitted after the loss of {killed}"

    def check(self):
        """Assert that the newest commit is right; its pending messages and what waits for them."""
        committed = Committed(self.checkpoint)
        self.commits += 1
        try:
            self.messages, waiting = self.parts.check_commit(committed)
        except AssertionError:
            self.differences += 1
            raise
        return waiting, committed.pending()

    def settle(self):
        """Let it run undisturbed, and assert that what it needs no more is deleted meanwhile."""
        self.wait_for_batches(1)
        # What was harmed may only end now. One worker alone makes no files of shuffles.
        while self.since_claim() <= SETTLED_COMMITS or 0 < self.shuffles()[1] < FILES_TO_TELL:
            self.wait_for_batches(1)
        check_growth(self.checkpoint)
        check_shuffles(*self.shuffles())

    def shuffles(self):
        """How many files of shuffles the present run has, and how many it has made at least."""
        numbers = shuffle_tasks(self.process.pid)
        # A task writes two files, and every other task at least writes some: but the last stage's
        return len(numbers), max(numbers, default=0)

    def since_claim(self):
        """How many commits the present run has made."""
        manifest = read_newest(Store.open(self.checkpoint))
        return manifest.number - manifest.claims[-1]

    def drain(self):
        """End it as its user does; nothing may be left."""
        self.end()
        check_cleared(self.checkpoint)

    def end(self):
        """End it as its user does; nothing may be pending."""
        self.keep_running()
        self.wait_for_batches(1)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_SECONDS)
        assert code == 0, f"it ended with {code}:\n{self.output()}"
        left = self.check()
        assert left == (0, NOTHING_PENDING), f"after the end: {left}"

    def output(self):
        return (self.folder / "output").read_text(errors="replace")[-4000:]

    def figures(self):
        """In one line, for people."""
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(self.kills.items()))
        return (
            f"{self.killed} kills ({kinds}), {self.pauses} pauses; {self.starts} runs;"
            f" {self.messages} messages; {self.commits} commits checked,"
            f" {self.differences} differences; {time.monotonic() - self.began:.0f} seconds"
        )


def shuffle_tasks(pid):
    """The number of the task that wrote it, of each file of a shuffle in a run's work folder.

    Spark counts all its tasks, and has the number in the name: shuffle_SHUFFLE_TASK_0.data. The run
    holds the folder open.
    """
    links = {Path(os.path.realpath(fd)) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    (folder,) = (link for link in links if link.name.startswith("fulmen-work-"))
    return [int(file.name.split("_")[2]) for file in folder.rglob("shuffle_*")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="for so long; default: 3600")
    parser.add_argument("--kills", type=int, help="until so many processes were killed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--windows", action="store_true", help="by one to three workers")
    parser.add_argument("--transactions", action="store_true", help="transactional topologies")
    parser.add_argument("--kafka", action="store_true", help="the same, with a topic as the source")
    parser.add_argument("--sinks", choices=sink_soak.KINDS, help="topologies with such a sink")
    parser.add_argument("--sources", choices=source_soak.KINDS, help="and with such a source")
    parser.add_argument("--state", action="store_true", help="tasks, savepoints and going back")
    parser.add_argument("--files", action="store_true", help="logs to which everything happens")
    parser.add_argument("--calls", action="store_true", help="what answers requests and calls")
    parser.add_argument("--shape", type=int, default=1, help="of those, the first one's number")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    seconds = args.seconds or (float("inf") if args.kills else 3600)
    kills = args.kills or float("inf")
    if args.transactions:
        print(f"seed {args.seed}, transactions", flush=True)
        print(f"seed {args.seed}: {transaction_soak.soak(args.seed, seconds, kills, args.shape)}")
        return
    if args.kafka:
        print(f"seed {args.seed}: {kafka_soak.soak(args.seed, seconds, kills, args.shape)}")
        return
    if args.sinks:
        print(f"seed {args.seed}: {sink_soak.soak(args.sinks, args.seed, args.kills or 50)}")
        return
    if args.sources:
        print(f"seed {args.seed}: {source_soak.soak(args.sources, args.seed, args.kills or 50)}")
        return
    if args.calls:
        call_soak.main(args.seed, args.kills or 50)
        return
    if args.files:
        run_files(args.seed, args.seconds or 0, args.kills or 50)
        return
    if args.state:
        run_state(args.seed, seconds, kills)
        return
    choices, parts = ((1, 2, 3), windows) if args.windows else ((args.workers,), unrepeatable)
    print(f"seed {args.seed}, workers {choices}", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Soak(Path(folder), args.seed, choices, parts) as soak,
    ):
        try:
            run(soak, seconds, kills)
        except AssertionError:
            print(f"seed {args.seed}: FAILED after {soak.figures()}", flush=True)
            raise
        print(f"seed {args.seed}: {soak.figures()}")


def run_files(seed, seconds, kills):
    from support.soaks import file_soak  # which derives from `Soak`

    print(f"seed {seed}, files", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {seed}: {file_soak.soak(folder, seed, kills, seconds).figures()}")


def run_state(seed, seconds, kills):
    from support.soaks import state_soak  # which derives from `Soak`

    print(f"seed {seed}, state", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"seed {seed}: {state_soak.soak(folder, seed, kills, seconds).figures()}")


def run(soak, seconds, kills=float("inf")):
    """Rounds until so many seconds have passed, or so many processes were killed; then its end."""
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end and soak.killed < kills:
        soak.round()
        rounds += 1
        if rounds % 10 == 0:
            print(f"after {rounds} rounds: {soak.figures()}", flush=True)
    assert soak.killed >= rounds > 0
    soak.settle()
    soak.drain()


if __name__ == "__main__":
    main()
