"""Which worker is where, who is alive, and how a partition is kept on its worker.

A worker is a Python process. Workers share a JVM (an executor of Spark's: the driver's own on one
machine, a pod on Kubernetes), which has a slot for each: worker w is in slot `w % slots` of JVM
`w // slots`. Spark keeps a pool of Python processes for each environment, so each slot has an
environment variable of its own (SLOT) and with it a process of its own.

What it guarantees: partition p of every stage runs in the slot of its worker as long as that is
there and idle, so that it meets its Python process and the state cached there. Nothing that must be
correct rests on it: each task checks (engine/worker/process.py).

Rejected: handing sockets from process to process (a JVM ties each to the process id that it read
when it was connected, and kills by it); pinning by union with an anchor RDD (it needs no
reflection, but a ring takes three times as long to build); an hour of spark.locality.wait (a job
that is submitted while its JVM goes away hangs that long); cached RDDs as anchors (they are lost
with their JVM).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkContext

from fulmen.engine.spark.arrivals import Arrivals, Replacements
from fulmen.engine.spark.jvm_names import JvmNames
from fulmen.errors import FulmenError

POLL_SECONDS = 0.05
LOOK_SECONDS = 2.0
"""How often to look whether pods have failed."""
DRIVER_ID = "driver"
"""Spark's id of the driver's own JVM."""

SLOT = "FULMEN_SLOT"
"""Environment variable: the number of a worker's slot in its JVM."""


class Jvm(NamedTuple):
    """An executor of Spark's.

    Attributes:
        id: Spark's id of it. One that is started anew has another one.
        host: The host that it is on, such as a pod's address.
    """

    id: str
    host: str

    @property
    def location(self) -> str:
        """The name that Spark's scheduler uses for it in the preferred places of a partition."""
        return f"executor_{self.host}_{self.id}"


def scala_object(package: Any, name: str) -> Any:
    """The single instance of a Scala `object` that has a class of the same name."""
    return getattr(package, f"{name}$").__getattr__("MODULE$")


class Workers:
    """The workers by number, each with its JVM.

    A JVM that is lost is replaced by a new one, whose workers then get the lost ones' numbers.

    Args:
        sc: Spark.
        count: How many workers.
        slots: How many of them share a JVM.

    Attributes:
        jvms: Each with the workers `slots * index` and following, or where they were last. None: it
            has not been there yet.
        slots: How many workers share a JVM.
        in_driver: All are in the driver's JVM.
    """

    def __init__(self, sc: SparkContext, count: int, slots: int) -> None:
        self.slots = slots
        self.in_driver = str(sc.master).startswith("local[")
        self._count = count
        self.jvms: list[Jvm | None] = [None] * self._jvms_for(count)
        self._jvm: Any = sc._jvm
        self._spark = sc._jsc.sc()
        self._scheduler = self._spark.taskScheduler()
        self._lock = threading.Lock()
        self._most: int | None = None

    def _jvms_for(self, workers: int) -> int:
        return -(-workers // self.slots)

    @property
    def count(self) -> int:
        """How many workers there are to be."""
        return self._count

    @property
    def hosts(self) -> list[str | None]:
        """The host that each worker is on, or was last. None: not known, or in the driver's JVM."""
        jvms = [self.jvms[worker // self.slots] for worker in range(self._count)]
        return [jvm and jvm.host for jvm in jvms]

    def location(self, worker: int) -> str | None:
        """Where a worker's tasks are to run, for Spark's scheduler. None: there is one JVM only."""
        jvm = self.jvms[worker // self.slots]
        return jvm and jvm.location

    def by_executor(self) -> Mapping[str, Sequence[int]]:
        """The workers of each executor of Spark's, by its id."""
        if self.in_driver:
            return {DRIVER_ID: range(self._count)}
        return {jvm.id: self._of(n) for n, jvm in enumerate(self.jvms) if jvm}

    def _of(self, index: int) -> range:
        """The workers of a JVM."""
        return range(index * self.slots, min((index + 1) * self.slots, self._count))

    def wait_for(
        self, count: int, seconds: float, log_file: Path, tell: Callable[[str], None]
    ) -> None:
        """Wait until so many workers are there.

        Args:
            count: The number of workers.
            seconds: How long to wait for the next one to come.
            log_file: Where the reason may be if none comes.
            tell: Is told now and then what is waited for.

        Raises:
            FulmenError: None came in that time.
        """
        arrivals = Arrivals(count, self._count, seconds, time.monotonic())
        while True:
            line = arrivals.see(len(self.alive()), now := time.monotonic())
            if arrivals.is_over:
                return
            if arrivals.is_late(now):
                raise FulmenError(arrivals.failure(log_file))
            if line is not None:
                tell(line)
            time.sleep(POLL_SECONDS)

    def wait_some_time(self, seconds: float) -> None:
        """Wait until each worker is there, but no longer than that."""
        deadline = time.monotonic() + seconds
        while len(self.alive()) < self._count and time.monotonic() <= deadline:
            time.sleep(POLL_SECONDS)

    def resize(self, count: int) -> None:
        """Have so many workers, in a cluster: those with the highest numbers go, new ones come."""
        wanted = self._jvms_for(count)
        ids = [jvm.id for jvm in self.jvms[wanted:] if jvm]
        with self._lock:
            self.jvms = [*self.jvms[:wanted], *[None] * (wanted - len(self.jvms))]
            self._count = count
        if ids:
            to_scala = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala
            self._spark.killExecutors(to_scala(ids).toSeq())
        with self._lock:
            self._request()

    def _request(self) -> None:
        """Tell Spark how many JVMs there are to be, or may be for now."""
        wanted = self._jvms_for(self._count)
        count = wanted if self._most is None else min(wanted, self._most)
        no_hosts = scala_object(self._jvm.scala.collection.immutable, "Map").empty()
        self._spark.requestTotalExecutors(count, 0, no_hosts)

    def replace(self, ended: threading.Event, tell: Callable[[str], None]) -> None:
        """Have JVMs of pods that fail again and again come later and later, until `ended`.

        Args:
            ended: Spark is being ended.
            tell: Is told when the next one may come, if not at once.
        """
        failures, replacements = self._failures(), Replacements()
        pause = 0
        while not ended.wait(LOOK_SECONDS):
            failed = failures.getNumExecutorsFailed()
            if not (failed or replacements.in_a_row):
                continue
            with self._lock:
                there = [jvm.id for jvm in self._executors()]
                wanted = self._jvms_for(self._count)
                missing = wanted - len(there)
                is_time = replacements.may_come(failed, there, missing, time.monotonic())
                most = None if is_time else len(there)
                if most != self._most:
                    self._most = most
                    self._request()
            if replacements.pause > pause:
                tell(
                    f"workers have ended {replacements.in_a_row} times in a row before they were"
                    f" there: the next is begun {replacements.pause} s after the last has ended"
                )
            pause = replacements.pause

    def _failures(self) -> Any:
        """What counts executors that have failed within some minutes, where they are pods."""
        backend = self._spark.schedulerBackend()
        field = backend.getClass().getDeclaredField("lifecycleManager")
        field.setAccessible(True)
        return field.get(backend)

    def alive(self) -> tuple[int, ...]:
        """The numbers of the workers that are there. New ones get lost ones' numbers."""
        if self.in_driver:
            return tuple(range(self._count))
        with self._lock:  # the driver's reports ask as well
            found = self._executors()
            new = [jvm for jvm in found if jvm not in self.jvms]
            for index, jvm in enumerate(self.jvms):
                if jvm not in found and new:
                    self.jvms[index] = new.pop(0)
            there = [index for index, jvm in enumerate(self.jvms) if jvm in found]
            return tuple(worker for index in there for worker in self._of(index))

    def are_busy(self) -> bool:
        """Whether a task still runs anywhere, whatever has become of its job."""
        counts = self._scheduler.runningTasksByExecutors().values().mkString(" ")
        return any(map(int, counts.split()))

    def _executors(self) -> list[Jvm]:
        """The JVMs that Spark's scheduler would give a task now.

        It forgets a lost one before that one's job fails. The block manager does so some time
        later, but it is the only one that can be asked for hosts.
        """
        places = self._spark.getExecutorMemoryStatus().keys().mkString(" ").split()
        hosts = dict.fromkeys(place.rpartition(":")[0] for place in places)
        return [Jvm(i, host) for host in hosts for i in self._executors_on(host)]

    def _executors_on(self, host: str) -> list[str]:
        """Spark's ids of the executors on a host, the older ones first."""
        found = self._scheduler.getExecutorsAliveOnHost(host)
        return sorted(found.get().mkString(" ").split(), key=int) if found.isDefined() else []


class Lanes:
    """The partitions of a job by the slots of their workers.

    Those in slots of the same number, each in another JVM, are one RDD with one function: Spark
    gives that to the Python process of the slot. A stage is the union of these RDDs.

    Args:
        workers: Partition p runs on worker workers[p].
        slots: How many workers share a JVM.

    Attributes:
        slots: The number of each slot that has partitions.
        partitions: Those of each slot.
        order: The partitions as Spark numbers its tasks: one slot after the other.
    """

    def __init__(self, workers: Sequence[int], slots: int) -> None:
        found: dict[int, list[int]] = {}
        for partition, worker in enumerate(workers):
            found.setdefault(worker % slots, []).append(partition)
        self.slots = sorted(found)
        self.partitions = [found[slot] for slot in self.slots]
        self.order = tuple(partition for lane in self.partitions for partition in lane)


class Anchors:
    """Says where each partition of a stage runs: RDDs that state a preferred place.

    Args:
        sc: Spark.
        locations: The location of each partition, as Workers.location gives it.

    Attributes:
        partitioner: Sends a row to the partition that is its key.
        tag: Scala's for rows.
    """

    def __init__(self, sc: SparkContext, locations: Sequence[str | None]) -> None:
        assert sc._jvm is not None
        self._gateway: Any = sc._gateway
        self._spark = sc._jsc.sc()
        self._locations = locations
        self.jvm = JvmNames(sc._jvm)
        self.partitioner = self.jvm.partitioner(len(locations), 1)
        self._none = scala_object(sc._jvm.scala, "None")
        bytes_class = self.jvm.for_name("[B")
        self.tag = self.jvm.class_tag(bytes_class)
        rdd_class = self.jvm.for_name("org.apache.spark.rdd.RDD")
        self._field = rdd_class.getDeclaredField("partitions_")
        self._field.setAccessible(True)
        # A call to the JVM takes a quarter of a millisecond: what does not differ is made once.
        self._parents = [self._array_of(partition) for partition in range(len(locations))]
        self._places = {location: self._option(location) for location in locations}
        self._first: dict[Sequence[int], Any] = {}

    def first(self, partitions: Sequence[int]) -> Any:
        """The input of the first stage: an empty row for each of these partitions."""
        key = tuple(partitions)
        if key not in self._first:
            rows = self.jvm.array_list()
            for partition in partitions:
                places = self.jvm.array_list()
                if (location := self._locations[partition]) is not None:
                    places.add(location)
                rows.add(self.jvm.pair(bytearray(), self.jvm.as_scala(places).toSeq()))
            self._first[key] = self._spark.makeRDD(self.jvm.as_scala(rows).toSeq(), self.tag)
        return self._first[key]

    def pin(self, rows: Any, partitions: Sequence[int]) -> Any:
        """An RDD of these partitions of `rows`, which come out of a shuffle.

        It is a CoalescedRDD. Which goes where it would work out by itself; it does not, as its
        partitions are set before it is asked for them.
        """
        if self._locations == [None]:
            return rows
        pinned = self.jvm.coalesced(rows, len(partitions), self._none, self.tag)
        made = self._gateway.new_array(self.jvm.partition, len(partitions))
        for index, partition in enumerate(partitions):
            parents, place = self._parents[partition], self._places[self._locations[partition]]
            made[index] = self.jvm.coalesced_partition(index, rows, parents, place)
        self._field.set(pinned, made)
        return pinned

    def union(self, rdds: Sequence[Any]) -> Any:
        """The partitions of all these, one after the other."""
        if len(rdds) == 1:
            return rdds[0]
        found = self.jvm.array_list()
        for rdd in rdds:
            found.add(rdd)
        return self.jvm.union(self._spark, self.jvm.as_scala(found).toSeq(), self.tag)

    def _array_of(self, partition: int) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.int, 1)
        array[0] = partition
        return array

    def _option(self, location: str | None) -> Any:
        return self._none if location is None else self.jvm.some(location)
