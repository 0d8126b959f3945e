"""Components of transactional topologies that tests run: each does what Storm's example does."""

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    PartitionedTransactionalSpout,
)

STORES = {}
"""By the topology's configuration: what stands for databases outside."""


def store(conf):
    return STORES[conf["store"]]


class Rows(PartitionedTransactionalSpout):
    """Storm's MemoryTransactionalSpout: at most `take` rows of each partition in a transaction."""

    outputs = ("tx", "row")

    def __init__(self, partitions=(), take=2):
        self.partitions, self.take = partitions, take

    def get_coordinator(self, conf, context):
        return Coordinator(self)

    def get_emitter(self, conf, context):
        return Emitter(self)


class Coordinator(PartitionedTransactionalSpout.Coordinator):
    def __init__(self, spout):
        self.spout = spout
        self.turns = -(-max(map(len, spout.partitions)) // spout.take)
        self.opened = 0

    def num_partitions(self):
        self.opened += 1
        return len(self.spout.partitions)

    def is_ready(self):
        return self.opened < self.turns

    def is_exhausted(self):
        return self.opened >= self.turns


class Emitter(PartitionedTransactionalSpout.Emitter):
    def __init__(self, spout):
        self.spout = spout

    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        end = min(start + self.spout.take, len(self.spout.partitions[partition]))
        self.emit_partition_batch(attempt, collector, partition, (start, end))
        return start, end

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        for row in self.spout.partitions[partition][slice(*metadata)]:
            collector.emit([attempt, row])


class Split(BasicBolt):
    outputs = ("tx", "word")

    def execute(self, tup, collector):
        for word in tup.values[1].split():
            collector.emit([tup.values[0], word])


class BatchCount(BatchBolt):
    outputs = ("tx", "count")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.count = collector, attempt, 0

    def execute(self, tup):
        self.count += 1

    def finish_batch(self):
        self.collector.emit([self.attempt, self.count])


class UpdateGlobalCount(BatchBolt, Committer):
    """Storm's: updates the count iff the stored txid differs."""

    outputs = ("tx", "sum")

    def prepare(self, conf, context, collector, attempt):
        self.conf, self.collector, self.attempt, self.sum = conf, collector, attempt, 0

    def execute(self, tup):
        self.sum += tup.values[1]

    def finish_batch(self):
        database = store(self.conf)
        txid, count = database.get("global", (0, 0))
        if txid != self.attempt.txid:
            assert txid == self.attempt.txid - 1, "commits are in strict order"
            database["global"] = self.attempt.txid, count + self.sum
        database.setdefault("log", []).append((self.attempt.txid, self.sum))
        self.collector.emit([self.attempt, database["global"][1]])
