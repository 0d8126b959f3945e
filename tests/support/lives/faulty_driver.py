"""A driver in a process of its own, to which things happen at the moments that its orders name.

    python -m support.lives.faulty_driver orders.json

Orders: `checkpoint`, `folder` (for logs and `events`, a JSON object a line), `workers`, `slots`
(how many of them share a JVM; none is the driver's, as with pods), `batches`
(drain after so many; null: go on until something ends it) and `faults`, each a `what` (see KILLS
and ENDS), a `worker`, the attempt (`at`, of this process, from 1: then or later)
and a moment in it:

    {"after": 0.7}          so many times a usual batch after it began
    {"stage": 1}            as soon as the stage runs which is that many before the last one
    {"commit": "before"}    just before, or just after, the next commit is written
    {"recovery": true}      when it has failed, and the driver waits for its workers

A kill has killed something, or is tried again. The driver ends only when all else has happened.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fulmen.checkpoint import Store
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.errors import Fenced
from support.lives.processes import is_jvm
from support.runs.spark_runs import TESTS, is_alive, several_jvms
from support.runs.spark_topologies import make_driver, patient
from support.runs.toy_stages import parent_of
from support.worlds.unrepeatable import chaotic

DRAINED, FENCED = 0, 3
KILLS = ("kill jvm", "kill python")
ENDS = {"die": signal.SIGKILL, "stop": signal.SIGSTOP}


class Chaos(Silent):
    """Makes the faults, and writes down what happens."""

    def __init__(self, orders):
        self.faults = orders["faults"]
        self.taken = []  # those that are being made
        self.batches_left = orders["batches"]
        self.events = open(Path(orders["folder"]) / "events", "a", buffering=1)  # noqa: SIM115
        self.processes = {}
        self.attempts = 0
        self.usual_seconds = 0.1
        self.stop = Stop()
        self.jobs = None

    def tell(self, **event):
        self.events.write(json.dumps(event) + "\n")

    # What the driver tells

    def batch(self, totals, done):
        for summary in done.summaries:
            self.processes[summary.process[0]] = summary.process[1]
        self.usual_seconds += 0.2 * (min(done.seconds, 2.0) - self.usual_seconds)
        restored = sum(len(s.restored) for s in done.summaries)
        files = None
        if totals.batches % 16 == 0:
            there = sum(1 for _ in self.jobs.local.rglob("shuffle_*"))
            files = {"there": there, "made": self.jobs.made}
        self.tell(batch=done.header.number, restored=restored, files=files)
        if self.batches_left is not None and totals.batches >= self.batches_left:
            self.stop.drain = True

    def attempt_failed(self, number, reason):
        self.tell(failed=number, reason=reason)

    def note(self, text):
        self.tell(note=text)

    # Moments

    def began(self):
        self.attempts += 1
        for fault in self.due("recovery"):
            if self.attempts > fault["at"] + 3:  # what was killed was replaced without a failure
                self.take(fault)
                self.postpone(fault)
        for fault in self.due("after", "stage"):
            self.take(fault)
            threading.Thread(target=self.wait_and_make, args=(fault,), daemon=True).start()

    def due(self, *moments):
        """Faults whose attempt has come. The driver ends only when all others were made."""
        found = [f for f in self.faults if f["at"] <= self.attempts and f.keys() & set(moments)]
        is_last = len(self.faults) == 1 and not self.taken
        return [f for f in found if f["what"] in KILLS or is_last]

    def take(self, fault):
        self.taken.append(fault)
        self.faults.remove(fault)

    def wait_and_make(self, fault):
        if "after" in fault:
            time.sleep(fault["after"] * self.usual_seconds)
        elif not self.jobs.wait_for_stage(fault["stage"]):
            self.postpone(fault)
            return
        self.make(fault)

    def reached(self, moment, which):
        """A moment that the driver's own thread comes to."""
        for fault in self.due(moment):
            if fault[moment] == which:
                self.take(fault)
                self.make(fault)
                return

    def make(self, fault):
        what = fault["what"]
        if what in KILLS and not self.kill(fault):
            self.postpone(fault)
            return
        self.tell(fault=fault)
        if what in ENDS:
            os.kill(os.getpid(), ENDS[what])
        self.taken.remove(fault)

    def kill(self, fault):
        """Kill a process of that worker, or of another one if that is dead. Returns whether."""
        for worker in sorted(self.processes, key=lambda worker: worker != fault["worker"]):
            with suppress(FileNotFoundError, ProcessLookupError):
                process = self.processes[worker]
                if fault["what"] == "kill jvm":
                    process = parent_of(parent_of(process))  # between them is Spark's daemon
                    if not is_jvm(command_of(process)):  # it is dead, and the daemon an orphan
                        continue
                if is_alive(process):
                    os.kill(process, signal.SIGKILL)
                    return True
        return False

    def postpone(self, fault):
        """There was nothing to be killed, or the stage did not run: try again soon."""
        self.tell(missed=fault)
        later = {"at": self.attempts + 1, "what": fault["what"], "worker": fault["worker"]}
        self.faults.append({**later, "after": 0.5})
        self.taken.remove(fault)


class ChaoticJobs(LocalSparkJobs):
    """Jobs to whose workers something happens.

    Attributes:
        local: Where its JVMs write.
        made: How many files of shuffles all jobs have made.
    """

    def __init__(self, workers, slots, folder, chaos):
        self.local, self.made = folder / "local", 0
        self.local.mkdir()
        conf = {**several_jvms(workers // slots, slots), "spark.local.dir": str(self.local)}
        super().__init__(workers, conf, TESTS, folder / "spark.log")
        self._settings = replace(patient(self._settings), slots=slots)
        self.chaos = chaos
        chaos.jobs = self

    def start(self, placed):
        self.placed = placed
        return super().start(placed)

    @property
    def application(self):
        return self._session.sc.applicationId

    def run(self, header, timeout_seconds):
        self.chaos.began()
        rows = super().run(header, timeout_seconds)
        stages = (header.stop_before or len(self.placed.plan.stages)) - header.first
        self.made += 2 * len(self.placed.workers) * (stages - 1)  # data, and an index
        return rows

    def recover(self):
        self.chaos.reached("recovery", True)
        return super().recover()

    def wait_for_stage(self, before_the_last):
        """Wait until that stage of the job at hand runs; False if the job has ended."""
        scheduler = self._session.sc._jsc.sc().dagScheduler()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            jobs = scheduler.activeJobs().toSeq()
            running = scheduler.runningStages().toSeq()
            with suppress(Exception):  # they may end between two calls
                if jobs.size() and running.size():
                    last = jobs.head().finalStage().id()
                    if last - running.head().id() <= before_the_last:
                        return True
        return False


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")


class ChaoticStore(Store):
    chaos = None

    def put(self, key, data):
        if key.startswith("commits/") and self.chaos is not None:
            self.chaos.reached("commit", "before")
            super().put(key, data)
            self.chaos.reached("commit", "after")
        else:
            super().put(key, data)


def main(orders):
    chaos = Chaos(orders)
    jobs = ChaoticJobs(orders["workers"], orders["slots"], Path(orders["folder"]), chaos)
    driver = make_driver(chaotic(orders["workers"]), jobs, orders["checkpoint"], chaos)
    driver.store = ChaoticStore.open(orders["checkpoint"])
    driver.store.chaos = chaos
    try:
        running = driver.start()
        try:
            chaos.tell(started=running.log.epoch, application=jobs.application)
            running.run(chaos.stop)
            chaos.tell(report=running.totals.report())
        finally:
            running.close()
    except Fenced as e:
        chaos.tell(fenced=str(e))
        return FENCED
    return DRAINED


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
