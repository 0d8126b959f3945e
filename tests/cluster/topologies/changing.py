"""A source that never emits the same twice, and a table that counts it exactly all the same.

Partition p has the messages 0, 1, 2 … How many of them are in a part of a transaction is random, so
another attempt has others. What is written for a message anybody can work out.
"""

import os
import time

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    FailedException,
    OpaquePartitionedTransactionalSpout,
)
from fulmen.transactional import PostgresMap, plus

PARTITIONS = 3
SELDOM = 16
"""One of so many times, chosen by chance."""
WAIT_SECONDS = 0.1
"""A batch in which no transaction begins takes so long: else there are many, which take a core."""


def seldom():
    return os.urandom(1)[0] < 256 // SELDOM


class Messages(OpaquePartitionedTransactionalSpout):
    outputs = ("tx", "partition", "number")

    def get_coordinator(self, conf, context):
        return Coordinator(conf["rate"])

    def get_emitter(self, conf, context):
        return Emitter(conf["count"], conf["take"])


class Coordinator(OpaquePartitionedTransactionalSpout.Coordinator):
    """Begins so many transactions in a second; empty ones when there are no more messages."""

    def __init__(self, rate):
        self.rate, self.opened, self.began = rate, 0, time.monotonic()

    def num_partitions(self):
        self.opened += 1
        return PARTITIONS

    def is_ready(self):
        ready = self.opened < self.rate * (time.monotonic() - self.began)
        if not ready:
            time.sleep(WAIT_SECONDS)
        return ready


class Emitter(OpaquePartitionedTransactionalSpout.Emitter):
    """At times a partition is away, or the attempt fails when some of it is emitted."""

    def __init__(self, count, take):
        self.count, self.take = count, take

    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        start = last_metadata or 0
        more = int.from_bytes(os.urandom(4), "little") % (self.take + 1)
        end = min(start + more, self.count)
        for number in range(start, end):
            collector.emit([attempt, partition, number])
        if seldom():
            raise FailedException("the partition is away")
        return end


class Keys(BasicBolt):
    """What a message changes."""

    outputs = ("tx", "key", "amount")

    def execute(self, tup, collector):
        attempt, partition, number = tup.values
        if number % 997 == 0 and seldom():
            raise FailedException("an attempt with this message fails")
        collector.emit([attempt, f"partition {partition}", 1])
        collector.emit([attempt, f"sevens {number % 7}", number])
        collector.emit([attempt, f"elevens {(31 * number + partition) % 11}", 1])


class Sums(BatchBolt, Committer):
    """Connects as PGHOST and so on say. At times the attempt fails when all is written."""

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.sums = attempt, {}
        self.table = PostgresMap("dbname=postgres", "sums", context, rule="opaque", value="integer")

    def execute(self, tup):
        _, key, amount = tup.values
        self.sums[key] = self.sums.get(key, 0) + amount

    def finish_batch(self):
        self.table.update(self.attempt, self.sums, plus)
        if seldom():
            raise FailedException("it was written, and the attempt fails")
