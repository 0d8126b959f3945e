"""What placement decides without Spark. The rest is in tests/engine."""

import re
import threading

import pytest

from fulmen.engine.spark.rdds.placement import Lanes
from fulmen.engine.spark.workers import Jvm, Workers
from fulmen.errors import FulmenError


class FakeSpark:
    """What Workers asks Spark for, as texts: hosts, the executors on each, and what these do."""

    def __init__(self, master):
        self.master = master
        self.found = {}
        self.running = "0"
        self.killed, self.wanted = [], None
        self.failed = []
        self._jsc = self.sc = self.taskScheduler = self
        self._jvm = Scala()

    def __call__(self):
        return self

    def getExecutorMemoryStatus(self):
        return Text(["10.0.0.9:7078", *(f"{host}:4000" for host in self.found)])

    def getExecutorsAliveOnHost(self, host):
        return Text(self.found.get(host, []))

    def runningTasksByExecutors(self):
        return Text(self.running.split())

    def schedulerBackend(self):
        return self

    getClass = schedulerBackend

    def getDeclaredField(self, _):
        return self

    setAccessible = get = getDeclaredField

    def getNumExecutorsFailed(self):
        return self.failed.pop(0)

    def killExecutors(self, ids):
        self.killed += ids.values

    def requestTotalExecutors(self, count, *_):
        self.wanted = count


class Scala:
    """Whatever there is in Scala's packages, and a collection of such values."""

    def __init__(self, values=()):
        self.values = values

    def __getattr__(self, name):
        return self

    def __call__(self, values=None):
        return self if values is None else Scala(values)


class Text:
    """A collection of Scala's, or an Option of one."""

    def __init__(self, words):
        self.words = words

    def keys(self):
        return self

    values = get = keys

    def isDefined(self):
        return bool(self.words)

    def mkString(self, separator):
        return separator.join(self.words)


@pytest.fixture
def spark():
    return FakeSpark("k8s://https://somewhere")


def test_workers_get_their_numbers_as_they_come(spark):
    workers = Workers(spark, 2, slots=1)
    assert workers.alive() == ()
    spark.found = {"10.0.0.5": ["1"]}
    assert workers.alive() == (0,)
    spark.found = {"10.0.0.4": ["2"], "10.0.0.5": ["1"]}
    assert workers.alive() == (0, 1)
    assert workers.hosts == ["10.0.0.5", "10.0.0.4"]


def test_a_worker_on_another_host_gets_the_number_of_the_lost_one(spark):
    workers = Workers(spark, 2, slots=1)
    spark.found = {"10.0.0.4": ["1"], "10.0.0.5": ["2"]}
    workers.alive()
    spark.found = {"10.0.0.5": ["2"]}
    assert workers.alive() == (1,)
    spark.found = {"10.0.0.5": ["2"], "10.0.0.6": ["3"]}
    assert workers.alive() == (0, 1)
    assert workers.hosts == ["10.0.0.6", "10.0.0.5"]


def test_workers_of_a_jvm_come_and_go_together(spark):
    workers = Workers(spark, 5, slots=2)
    spark.found = {"10.0.0.4": ["1"], "10.0.0.5": ["2"]}
    assert workers.alive() == (0, 1, 2, 3)
    spark.found = {"10.0.0.5": ["2"], "10.0.0.6": ["3"]}
    assert workers.alive() == (0, 1, 2, 3)
    assert workers.hosts == ["10.0.0.6", "10.0.0.6", "10.0.0.5", "10.0.0.5", None]
    spark.found["10.0.0.7"] = ["4"]
    assert workers.alive() == (0, 1, 2, 3, 4)
    assert workers.by_executor() == {"3": range(2), "2": range(2, 4), "4": range(4, 5)}


def test_more_workers_get_the_next_numbers_and_of_fewer_the_last_ones_go(spark):
    workers = Workers(spark, 2, slots=1)
    spark.found = {"10.0.0.4": ["1"], "10.0.0.5": ["2"]}
    assert workers.alive() == (0, 1)
    workers.resize(3)
    assert (spark.wanted, spark.killed) == (3, [])
    assert workers.alive() == (0, 1)
    spark.found["10.0.0.6"] = ["3"]
    assert workers.alive() == (0, 1, 2)
    workers.resize(1)
    assert (spark.wanted, spark.killed) == (1, ["2", "3"])
    assert workers.alive() == (0,)


def test_while_pods_that_fail_in_a_row_have_to_wait_spark_is_asked_for_none(spark):
    workers, told, wanted = Workers(spark, 3, slots=1), [], []
    spark.found = {"10.0.0.4": ["1"]}
    spark.failed = [0, 1, 2, 2, 2]

    class Looks(threading.Event):
        def wait(self, _=None):
            wanted.append(spark.wanted)
            if len(wanted) == 4:  # the driver plans for another number of workers
                workers.resize(2)
            if len(wanted) == 5:
                spark.found["10.0.0.5"] = ["2"]
            return not spark.failed

    workers.replace(Looks(), told.append)
    assert wanted == [None, None, None, 1, 1, 2]
    assert told == [
        "workers have ended 2 times in a row before they were there: the next is begun 5 s after"
        " the last has ended"
    ]


def test_jvms_on_the_same_host_are_told_apart(spark):
    workers = Workers(spark, 2, slots=1)
    spark.found = {"10.0.0.4": ["10", "9"]}
    assert workers.alive() == (0, 1)
    assert workers.jvms == [Jvm("9", "10.0.0.4"), Jvm("10", "10.0.0.4")]
    assert workers.location(1) == "executor_10.0.0.4_10"
    spark.found = {"10.0.0.4": ["10"]}
    assert workers.alive() == (1,)


def test_workers_in_the_drivers_jvm_are_always_there():
    workers = Workers(FakeSpark("local[3]"), 3, slots=3)
    assert workers.alive() == (0, 1, 2)
    assert workers.hosts == [None, None, None]
    assert workers.location(2) is None
    assert workers.by_executor() == {"driver": range(3)}


def test_a_task_that_still_runs_anywhere_is_noticed(spark):
    workers = Workers(spark, 2, slots=1)
    assert not workers.are_busy()
    spark.running = "0 1"
    assert workers.are_busy()
    spark.running = ""
    assert not workers.are_busy()


def test_workers_that_do_not_come_are_told(spark, tmp_path):
    spark.found = {"10.0.0.4": ["1"]}
    said = f"1 of 2 workers started within 0 seconds. The reason may be in '{tmp_path}'."
    with pytest.raises(FulmenError, match=f"^{re.escape(said)} On a busy machine"):
        Workers(spark, 2, slots=1).wait_for(2, 0, tmp_path, tell=print)


@pytest.mark.parametrize(
    ("workers", "slots", "lanes", "order"),
    [
        pytest.param([0, 1, 2], 1, {0: [0, 1, 2]}, (0, 1, 2), id="pods-of-one"),
        pytest.param([0, 1, 2], 3, {0: [0], 1: [1], 2: [2]}, (0, 1, 2), id="one-jvm"),
        pytest.param(
            [0, 1, 2, 3, 4], 2, {0: [0, 2, 4], 1: [1, 3]}, (0, 2, 4, 1, 3), id="pods-of-two"
        ),
        pytest.param([2, 3], 2, {0: [0], 1: [1]}, (0, 1), id="the-first-pod-is-lost"),
        pytest.param([1, 3], 2, {1: [0, 1]}, (0, 1), id="second-slots-only"),
    ],
)
def test_partitions_are_sorted_by_the_slots_of_their_workers(workers, slots, lanes, order):
    found = Lanes(workers, slots)
    assert dict(zip(found.slots, found.partitions, strict=True)) == lanes
    assert found.order == order
