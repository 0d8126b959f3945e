"""The names of what chains of RDDs are made with, in Spark's JVM."""

from typing import Any


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
