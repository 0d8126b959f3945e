"""Which worker is where, who is alive, and how a partition is kept on its worker.

What it guarantees: partition p of every stage runs on the host of its worker as long as that worker
is alive and idle, so that it meets its Python process and the state cached there. Nothing that must
be correct rests on it: each task checks (engine/process.py).

What it assumes: a host has one worker. On one machine each worker has a host name of its own out of
127.0.0.0/8, which is why they are started here, as a standalone cluster inside the driver's JVM.
Spark's own `local-cluster` gives all its workers one host name: partitions then move about.

Rejected: pinning by union with an anchor RDD (it needs no reflection, but a ring takes three times
as long to build); an hour of spark.locality.wait (a job that is submitted while its host goes away
hangs that long); cached RDDs as anchors (they are lost with their worker).
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from fulmen.engine.arrivals import Arrivals
from fulmen.errors import FulmenError

POLL_SECONDS = 0.05
OUTPUT_BYTES = 65536
MOST_STARTS = 5
"""Of a worker that has never been there, before it is given up."""


class LocalCluster:
    """A standalone Master and its Workers in the driver's JVM; each starts one JVM of one core.

    Attributes:
        url: What `spark.master` has to be.
        hosts: The host name of each worker.
    """

    def __init__(self, gateway: Any, workers: int, conf: Mapping[str, str], folder: Path) -> None:
        jvm = gateway.jvm
        settings = jvm.org.apache.spark.SparkConf(True)
        for name, value in {**conf, **_INSIDE_ONE_JVM}.items():
            settings.set(name, value)
        deploy = jvm.org.apache.spark.deploy
        master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, settings)
        self._environments = [master._1()]
        self.url = f"spark://127.0.0.1:{master._1().address().port()}"
        urls = gateway.new_array(jvm.java.lang.String, 1)
        urls[0] = self.url
        none = scala_object(jvm.scala, "None")
        start = scala_object(deploy.worker, "Worker").startRpcEnvAndEndpoint
        self._outputs = folder / "work"
        self._read_until: dict[Path, int] = {}
        memory = int(
            jvm.org.apache.spark.util.Utils.memoryStringToMb(conf["spark.executor.memory"])
        )
        self.hosts = [local_host(index) for index in range(workers)]
        for index, host in enumerate(self.hosts):
            number = jvm.scala.Some(index)
            args = (host, 0, 0, 1, memory, urls, str(self._outputs), number)
            self._environments.append(start(*args, settings, none))

    def starts(self) -> int:
        """How many JVMs of workers were started so far: one that ends is started anew."""
        return sum(1 for _ in self._outputs.glob("*/*"))

    def new_output(self) -> Iterator[str]:
        """What the workers' JVMs have printed since the last call; of much, the end."""
        for file in sorted(self._outputs.glob("*/*/std*")):
            try:
                text = self._read_on(file)
            except FileNotFoundError:  # Spark has just renamed it
                continue
            if text := re.sub(r"^Spark Executor Command:.*\n=+\n\s*", "", text):
                yield text

    def _read_on(self, file: Path) -> str:
        size = file.stat().st_size
        start = self._read_until.get(file, 0)
        if size < start:
            start = 0  # Spark has begun a new file under this name
        if size > start:
            with open(file, "rb") as output:
                output.seek(max(start, size - OUTPUT_BYTES))
                text = output.read().decode(errors="replace")
        self._read_until[file] = size
        return text if size > start else ""

    @staticmethod
    def check_hosts(workers: int) -> None:
        """Raise FulmenError if this machine can't give each worker a host name of its own."""
        for index in range(workers):
            host = local_host(index)
            with socket.socket() as probe:
                try:
                    probe.bind((host, 0))
                except OSError as e:
                    raise FulmenError(
                        f"workers: {workers} on this machine need the addresses {local_host(0)} to "
                        f"{local_host(workers - 1)}, and {host} can't be used ({e.strerror}). Use "
                        "one worker."
                    ) from None


_INSIDE_ONE_JVM = {
    "spark.master.rest.enabled": "false",
    "spark.shuffle.service.enabled": "false",
    "spark.ui.killEnabled": "false",
    # Otherwise each starts threads by the number of cores.
    "spark.rpc.netty.dispatcher.numThreads": "2",
    "spark.rpc.io.threads": "1",
    # They can't lose one another; but after a suspended laptop wakes up they would think so.
    "spark.worker.timeout": "1000000",
}


def local_host(index: int) -> str:
    """The host name of a worker on this machine."""
    return f"127.0.{(index + 2) >> 8}.{(index + 2) & 255}"


def scala_object(package: Any, name: str) -> Any:
    """The single instance of a Scala `object` that has a class of the same name."""
    return getattr(package, f"{name}$").__getattr__("MODULE$")


class Workers:
    """The workers by number, each with its host.

    A worker on this machine keeps its host for ever. In a cluster a lost one is replaced by one on
    another host, which then gets the number.

    Attributes:
        hosts: Of each worker: where it is, or was last. None: it has not been there yet.
        in_driver: There is one, and it is in the driver's JVM.
    """

    def __init__(self, sc: SparkContext, count: int, cluster: LocalCluster | None) -> None:
        self.hosts: list[str | None] = list(cluster.hosts) if cluster else [None] * count
        self._cluster = cluster
        self.in_driver = str(sc.master).startswith("local")
        self._jvm: Any = sc._jvm
        self._spark = sc._jsc.sc()
        self._scheduler = self._spark.taskScheduler()
        self._lock = threading.Lock()

    def wait_for(
        self, count: int, seconds: float, log_file: Path, tell: Callable[[str], None]
    ) -> None:
        """Wait until so many workers are there.

        Args:
            count: How many.
            seconds: How long to wait for the next one to come.
            log_file: Where the reason may be if none comes.
            tell: Is told now and then what is waited for.

        Raises:
            FulmenError: None came in that time, or those on this machine ended at once.
        """
        arrivals = Arrivals(count, len(self.hosts), seconds, time.monotonic())
        while True:
            line = arrivals.see(len(self.alive()), now := time.monotonic())
            if arrivals.is_over:
                return
            if arrivals.is_late(now):
                raise FulmenError(arrivals.failure(log_file))
            if self._cluster and self._cluster.starts() >= MOST_STARTS * len(self.hosts):
                raise FulmenError(
                    f"the workers ended again and again while they started. The reason is in"
                    f" '{log_file}'."
                )
            if line is not None:
                tell(line)
            time.sleep(POLL_SECONDS)

    def wait_some_time(self, seconds: float) -> None:
        """Wait until each worker is there, but no longer than that."""
        deadline = time.monotonic() + seconds
        while len(self.alive()) < len(self.hosts) and time.monotonic() <= deadline:
            time.sleep(POLL_SECONDS)

    def resize(self, count: int) -> None:
        """Have so many workers, in a cluster: those with the highest numbers go, new ones come."""
        ids = [i for host in self.hosts[count:] if host for i in self._executors_on(host)]
        with self._lock:
            self.hosts = [*self.hosts[:count], *[None] * (count - len(self.hosts))]
        if ids:
            to_scala = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala
            self._spark.killExecutors(to_scala(ids).toSeq())
        no_hosts = scala_object(self._jvm.scala.collection.immutable, "Map").empty()
        self._spark.requestTotalExecutors(count, 0, no_hosts)

    def _executors_on(self, host: str) -> list[str]:
        """Spark's ids of the executors on a host."""
        found = self._scheduler.getExecutorsAliveOnHost(host)
        return found.get().mkString(" ").split() if found.isDefined() else []

    def alive(self) -> tuple[int, ...]:
        """The numbers of the workers that are there. One that is new gets a lost one's number."""
        if self.in_driver:
            return (0,)
        with self._lock:  # the driver's reports ask as well
            found = self._hosts_of_executors()
            new = [host for host in found if host not in self.hosts]
            for number, host in enumerate(self.hosts):
                if host not in found and new:
                    self.hosts[number] = new.pop(0)
            return tuple(n for n, host in enumerate(self.hosts) if host in found)

    def _hosts_of_executors(self) -> list[str]:
        """Of those that Spark's scheduler would give a task now.

        It forgets a lost one before that one's job fails. The block manager does so some time
        later, but it is the only one that can be asked for hosts.
        """
        places = self._spark.getExecutorMemoryStatus().keys().mkString(" ").split()
        hosts = dict.fromkeys(place.rpartition(":")[0] for place in places)
        return [host for host in hosts if self._scheduler.hasExecutorsAliveOnHost(host)]


class Anchors:
    """Says on which host each partition of a stage runs: RDDs that state a preferred place.

    Args:
        sc: Spark.
        hosts: Of each partition. A single partition in the driver's JVM (None) needs no anchor.

    Attributes:
        partitioner: Sends a row to the partition that is its key.
    """

    def __init__(self, sc: SparkContext, hosts: Sequence[str | None]) -> None:
        assert sc._jvm is not None
        self._jvm: Any = sc._jvm
        self._gateway: Any = sc._gateway
        self._spark = sc._jsc.sc()
        self._hosts = hosts
        self.partitioner = self._jvm.PythonPartitioner(len(hosts), 1)
        self._to_scala = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self._none = scala_object(self._jvm.scala, "None")
        bytes_class = self._jvm.java.lang.Class.forName("[B")
        self._tag = self._jvm.scala.reflect.ClassTag.apply(bytes_class)
        rdd_class = self._jvm.java.lang.Class.forName("org.apache.spark.rdd.RDD")
        self._partitions = rdd_class.getDeclaredField("partitions_")
        self._partitions.setAccessible(True)

    def first(self) -> Any:
        """The input of the first stage: an empty row for each partition."""
        rows = self._jvm.java.util.ArrayList()
        for host in self._hosts:
            places = self._jvm.java.util.ArrayList()
            if host is not None:
                places.add(host)
            rows.add(self._jvm.scala.Tuple2(bytearray(), self._to_scala(places).toSeq()))
        return self._spark.makeRDD(self._to_scala(rows).toSeq(), self._tag)

    def pin(self, rows: Any) -> Any:
        """An RDD of the same rows and partitions as `rows`, which come out of a shuffle.

        It is a CoalescedRDD of n into n partitions. Which go where and on what host it would work
        out by itself; it does not, as its partitions are set before it is asked for them.
        """
        if self._hosts == [None]:
            return rows
        rdd = self._jvm.org.apache.spark.rdd
        count = len(self._hosts)
        pinned = rdd.CoalescedRDD(rows, count, self._none, self._tag)
        partitions = self._gateway.new_array(self._jvm.org.apache.spark.Partition, count)
        for index, host in enumerate(self._hosts):
            parents = self._gateway.new_array(self._gateway.jvm.int, 1)
            parents[0] = index
            place = self._jvm.scala.Some(host)
            partitions[index] = rdd.CoalescedRDDPartition(index, rows, parents, place)
        self._partitions.set(pinned, partitions)
        return pinned
