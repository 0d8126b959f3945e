"""Runs batches of toy stages on real Spark, as a driver does: until they count."""

import json
import os
import secrets
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from fulmen.engine.jvm.class_archive import spark_jars
from fulmen.engine.spark.job_runner import JobRunner
from fulmen.engine.spark.session import JVM_ERRORS, RunningSpark, SessionSettings
from fulmen.engine.spark.workers import scala_object
from fulmen.errors import JobFailed
from support.runs.toy_stages import Toy

TESTS = Path(__file__).parents[2]
DEADLINE_SECONDS = 120


def settings(workers, folder, **changes):
    given = {"conf": {}, "code_path": str(TESTS), "log_file": folder / "spark.log"}
    return SessionSettings(workers=workers, **given | changes)


def several_jvms(jvms, slots):
    """Settings of Spark by which workers have JVMs of their own, as in pods, on this machine.

    They import what this process imports, which pods do not.
    """
    return {
        "spark.executorEnv.PYTHONPATH": environment()["PYTHONPATH"],
        "spark.master": f"local-cluster[{jvms},{slots},1024]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate.secret": secrets.token_hex(32),
    }


def remove_outputs(session):
    """What JVMs of `several_jvms` have printed: Spark keeps it beside its own files."""
    with suppress(*JVM_ERRORS):  # a test has killed it, which is no such session
        remove_output(session.sc.applicationId)


def remove_output(application):
    """That of a session whose driver told Spark's name of it; None: it told none."""
    if application is not None:
        shutil.rmtree(spark_jars().parent / "work" / application, ignore_errors=True)


def wait_until(test, what="the condition", seconds=DEADLINE_SECONDS):
    """Wait for something that other processes do."""
    deadline = time.monotonic() + seconds
    while not (result := test()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.01)
    return result


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def remove_jvm(session, executor):
    """End the JVM with that id of Spark's, and have it not come back by itself."""
    ids = session.sc._jvm.java.util.ArrayList()
    ids.add(executor)
    as_scala = session.sc._jvm.scala.jdk.javaapi.CollectionConverters.asScala
    assert session.sc._jsc.sc().killExecutors(as_scala(ids).toSeq())


def add_jvms(session):
    """Have as many again as there were at first."""
    none = scala_object(session.sc._jvm.scala.collection.immutable, "Map").empty()
    wanted = len(session.workers.jvms)
    assert session.sc._jsc.sc().requestTotalExecutors(wanted, 0, none)


class Failure(Exception):
    """A batch that ended, but must not count."""


def started(wanted):
    """Spark, running."""
    session = RunningSpark(wanted)
    session.start()
    return session


class Runs:
    """A session with toy stages in it."""

    def __init__(self, workers, stages, folder, **changes):
        self.session = started(settings(workers, folder, **changes))
        self.log_file = self.session.settings.log_file
        self.jobs = None
        self.use(stages, range(workers))

    def use(self, stages, workers):
        """Other stages, or other workers, from now on."""
        toy = Toy(stages, len(workers))
        if self.jobs is None:
            self.jobs = JobRunner(self.session, toy, stages, range(len(workers)))
        else:
            self.jobs.rebuild(toy, stages, workers)

    def once(self, timeout_seconds=DEADLINE_SECONDS, **order):
        """One attempt: {(stage, partition): (process id, process id of its JVM)}."""
        rows = [json.loads(row) for row in self.jobs.run(json.dumps(order), timeout_seconds)]
        for row in rows:
            if row["void"]:
                raise Failure(row["void"])
        return {(s, p): (pid, jvm) for row in rows for s, p, pid, jvm in row["seen"]}

    def until_it_counts(self, **order):
        """Attempts, the first with `order` and the rest with none. Returns (places, failures)."""
        failures = []
        while True:
            try:
                return self.once(**order), failures
            except (JobFailed, Failure) as e:
                failures.append(e)
            assert len(failures) < 6, failures
            order = {}
            self.jobs.recover(DEADLINE_SECONDS)

    def settled(self):
        """Places after a loss that a batch which counts may not have noticed, and the failures.

        A job that begins before Spark knows of the loss prefers places that are gone, and runs its
        tasks wherever it can. `recover` sees that and places them anew.
        """
        at_first, failures = self.until_it_counts()
        assert is_unmixed(at_first), at_first
        self.jobs.recover(DEADLINE_SECONDS)
        places, more = self.until_it_counts()
        return places, failures + more

    def in_thread(self, **order):
        """An attempt that goes on beside the test."""
        return Attempt(self, order)

    def remove_jvm(self, executor):
        """Have one of several JVMs go away, and not come back by itself."""
        remove_jvm(self.session, executor)

    def add_jvm(self):
        """Let it come back."""
        add_jvms(self.session)

    def close(self):
        self.jobs.close()
        remove_outputs(self.session)
        self.session.close()


class Attempt(threading.Thread):
    def __init__(self, runs, order):
        super().__init__(daemon=True)
        self.runs, self.order = runs, order
        self.places = self.error = None
        self.start()

    def run(self):
        try:
            self.places = self.runs.once(**self.order)
        except (JobFailed, Failure) as e:
            self.error = e

    def end(self):
        self.join(DEADLINE_SECONDS)
        assert not self.is_alive(), "the attempt did not end"
        return self


def by_partition_of(places):
    """The processes that each partition ran in."""
    found = {}
    for (_, partition), place in places.items():
        found.setdefault(partition, set()).add(place)
    return found


def is_unmixed(places):
    """Whether no process had two partitions, without which a batch must not count.

    One may be in several processes, one for each stage: what a stage keeps is its own.
    """
    of_each = by_partition_of(places).values()
    return len(set().union(*of_each)) == sum(map(len, of_each))


def is_partitioned(places, workers):
    """Whether each partition ran in one process, and no process had two."""
    by_partition = by_partition_of(places)
    one_each = all(len(found) == 1 for found in by_partition.values())
    return one_each and len(set().union(*by_partition.values())) == workers == len(by_partition)


def environment():
    """For a program that a test starts."""
    paths = [str(TESTS), *filter(None, sys.path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
