"""A source for examples and tests: lists that stand for the partitions of a log."""

from fulmen import PartitionedTransactionalSpout


class MemoryTransactionalSpout(PartitionedTransactionalSpout):
    """Emits the attempt and an item: at most `take` items of each partition in a transaction."""

    def __init__(self, partitions, take):
        self.partitions, self.take = partitions, take

    def get_coordinator(self, conf, context):
        return Coordinator(self)

    def get_emitter(self, conf, context):
        return Emitter(self)


class Coordinator(PartitionedTransactionalSpout.Coordinator):
    """Opens as many transactions as the longest list needs."""

    def __init__(self, spout):
        self.count = len(spout.partitions)
        self.left = -(-max(map(len, spout.partitions)) // spout.take)

    def num_partitions(self):
        self.left -= 1
        return self.count

    def is_ready(self):
        return self.left > 0

    def is_exhausted(self):
        return self.left <= 0


class Emitter(PartitionedTransactionalSpout.Emitter):
    """Its metadata are where a transaction begins and ends in a list."""

    def __init__(self, spout):
        self.partitions, self.take = spout.partitions, spout.take

    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        end = min(start + self.take, len(self.partitions[partition]))
        self.emit_partition_batch(attempt, collector, partition, (start, end))
        return start, end

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        start, end = metadata
        for item in self.partitions[partition][start:end]:
            collector.emit([attempt, item])
