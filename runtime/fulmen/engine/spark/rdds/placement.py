"""How a partition of a job is kept on its worker.

Spark keeps a pool of Python processes for each environment, so each slot has an
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

from collections.abc import Sequence
from typing import Any

from pyspark import SparkContext

from fulmen.engine.spark.workers import scala_object

SLOT = "FULMEN_SLOT"
"""Environment variable: the number of a worker's slot in its JVM."""


class JvmNames:
    """Classes and static methods of the JVM, looked up once.

    Whenever a name is spelt out, each part of it is a call to the JVM: those were half of all calls
    that a chain took.
    """

    def __init__(self, jvm: Any) -> None:
        rdd, to_scala = jvm.org.apache.spark.rdd, jvm.scala.jdk.javaapi.CollectionConverters
        self.array_list = jvm.java.util.ArrayList
        self.as_scala = to_scala.asScala
        self.class_tag = jvm.scala.reflect.ClassTag.apply
        self.coalesced = rdd.CoalescedRDD
        self.coalesced_partition = rdd.CoalescedRDDPartition
        self.for_name = jvm.java.lang.Class.forName
        self.from_java_rdd = jvm.org.apache.spark.api.java.JavaPairRDD.fromJavaRDD
        self.java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self.pair = jvm.scala.Tuple2
        self.pairwise = jvm.PairwiseRDD
        self.partition = jvm.org.apache.spark.Partition
        self.partitioner = jvm.PythonPartitioner
        self.python = jvm.PythonRDD
        self.some = jvm.scala.Some
        self.union = rdd.UnionRDD
        self.value_of_pair = jvm.PythonRDD.valueOfPair


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
        by_slot: dict[int, list[int]] = {}
        for partition, worker in enumerate(workers):
            by_slot.setdefault(worker % slots, []).append(partition)
        self.slots = sorted(by_slot)
        self.partitions = [by_slot[slot] for slot in self.slots]
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
        self._places = {x: self._none if x is None else self.jvm.some(x) for x in locations}
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
        java_list = self.jvm.array_list()
        for rdd in rdds:
            java_list.add(rdd)
        return self.jvm.union(self._spark, self.jvm.as_scala(java_list).toSeq(), self.tag)

    def _array_of(self, partition: int) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.int, 1)
        array[0] = partition
        return array
