"""The workers by number: which JVM has them, who is there, and how lost ones come back.

A worker is a Python process. Workers share a JVM (an executor of Spark's: the driver's own on one
machine, a pod on Kubernetes), which has a slot for each: worker w is in slot `w % slots` of JVM
`w // slots`.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkContext

from fulmen.engine.spark.arrivals import Arrivals, Replacements
from fulmen.errors import FulmenError

POLL_SECONDS = 0.05
LOOK_SECONDS = 2.0
"""How often to look whether pods have failed."""
DRIVER_ID = "driver"
"""Spark's id of the driver's own JVM."""


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
        """The number of workers there are to be."""
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
        """Have JVMs of pods that fail again and again come later and later, until `ended`."""
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
        """Spark's counter of executors that failed within some minutes, where they are pods."""
        backend = self._spark.schedulerBackend()
        field = backend.getClass().getDeclaredField("lifecycleManager")
        field.setAccessible(True)
        return field.get(backend)

    def alive(self) -> tuple[int, ...]:
        """The numbers of the workers that are there. New ones get lost ones' numbers."""
        if self.in_driver:
            return tuple(range(self._count))
        with self._lock:  # the driver's reports ask as well
            executors = self._executors()
            new = [jvm for jvm in executors if jvm not in self.jvms]
            for index, jvm in enumerate(self.jvms):
                if jvm not in executors and new:
                    self.jvms[index] = new.pop(0)
            there = [index for index, jvm in enumerate(self.jvms) if jvm in executors]
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
