"""A driver in a process of its own, to which things happen at the moments that its orders name.

    python -m support.faulty_driver orders.json

Orders: `checkpoint`, `folder` (for logs and `events`, a JSON object a line), `workers`, `slots`
(how many of them share a JVM; none is the driver's, as with pods), `batches`
(drain after so many; null: go on until something ends it) and `faults`, each a `what` (see FAULTS),
a `worker`, the attempt (`at`, of this process, from 1) and a moment in it:

    {"after": 0.7}          so many times a usual batch after it began
    {"stage": 1}            as soon as the stage runs which is that many before the last one
    {"commit": "before"}    just before, or just after, the next commit is written
    {"recovery": true}      when it has failed, and the driver waits for its workers
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
from support.spark_runs import TESTS, several_jvms
from support.spark_topologies import make_driver, patient
from support.toy_stages import parent_of
from support.unrepeatable import chaotic

DRAINED, FENCED = 0, 3
FAULTS = ("kill jvm", "kill python", "die", "stop")


class Chaos(Silent):
    """Makes the faults, and writes down what happens."""

    def __init__(self, orders):
        self.faults = orders["faults"]
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
        files = 0
        if totals.batches % 16 == 0:
            files = sum(len(names) for _, _, names in os.walk(self.jobs.work_dir))
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
        for fault in self.faults:
            if fault["at"] == self.attempts and {"after", "stage"} & fault.keys():
                threading.Thread(target=self.wait_and_make, args=(fault,), daemon=True).start()

    def wait_and_make(self, fault):
        if "after" in fault:
            time.sleep(fault["after"] * self.usual_seconds)
        elif not self.jobs.wait_for_stage(fault["stage"]):
            self.tell(missed=fault)
            return
        self.make(fault)

    def reached(self, moment, which):
        """A moment that the driver's own thread comes to."""
        for fault in self.faults:
            if fault.get(moment) == which and fault["at"] <= self.attempts:
                self.faults.remove(fault)
                self.make(fault)
                return

    def make(self, fault):
        self.tell(fault=fault)
        what = fault["what"]
        if what in ("die", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if what == "die" else signal.SIGSTOP)
            return
        with suppress(FileNotFoundError, ProcessLookupError):  # dead already
            process = self.processes[fault["worker"]]
            if what == "kill jvm":
                process = parent_of(parent_of(process))  # between them is Spark's daemon
            os.kill(process, signal.SIGKILL)


class ChaoticJobs(LocalSparkJobs):
    def __init__(self, workers, slots, folder, chaos):
        super().__init__(
            workers, several_jvms(workers // slots, slots), TESTS, folder / "spark.log"
        )
        self._settings = replace(patient(self._settings), slots=slots)
        self.chaos = chaos
        chaos.jobs = self

    @property
    def work_dir(self):
        return self._session.work_dir

    @property
    def application(self):
        return self._session.sc.applicationId

    def run(self, header, timeout_seconds):
        self.chaos.began()
        return super().run(header, timeout_seconds)

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
