"""Transactional spouts of all kinds over lists of rows: those in tests."""

from fulmen import (
    FailedException,
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSpout,
)
from support.stores.outside_stores import store


def batches_of(rows, take):
    return -(-rows // take)


class Countdown:
    """A coordinator's part that opens so many transactions."""

    def __init__(self, turns):
        self.turns, self.opened = turns, 0

    def is_ready(self):
        return self.opened < self.turns

    def is_exhausted(self):
        return not self.is_ready()

    def lag(self):
        return self.turns - self.opened


class Rows(PartitionedTransactionalSpout):
    """Storm's MemoryTransactionalSpout: at most `take` rows of each partition in a transaction."""

    outputs = ("tx", "row")

    def __init__(self, partitions=(), take=2):
        self.partitions, self.take = partitions, take

    def get_coordinator(self, conf, context):
        return RowsCoordinator(self)

    def get_emitter(self, conf, context):
        return RowsEmitter(self)


class RowsCoordinator(Countdown, PartitionedTransactionalSpout.Coordinator):
    def __init__(self, spout):
        super().__init__(batches_of(max(map(len, spout.partitions)), spout.take))
        self.spout = spout

    def num_partitions(self):
        self.opened += 1
        return len(self.spout.partitions)


class RowsEmitter(PartitionedTransactionalSpout.Emitter):
    def __init__(self, spout):
        self.spout = spout

    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        end = min(start + self.spout.take, len(self.spout.partitions[partition]))
        self.emit_partition_batch(attempt, collector, partition, (start, end))
        return start, end

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        rows = self.spout.partitions[partition][slice(*metadata)]
        collector.emit_many([[attempt, row] for row in rows])


class Numbers(TransactionalSpout):
    """Numbers from 0 up to a limit, `take` in a transaction; task i of n has those of residue i."""

    outputs = ("tx", "row")

    def __init__(self, limit=10, take=2):
        self.limit, self.take = limit, take

    def get_coordinator(self, conf, context):
        return NumbersCoordinator(self)

    def get_emitter(self, conf, context):
        return NumbersEmitter(context)


class NumbersCoordinator(TransactionalSpout.Coordinator):
    def __init__(self, spout):
        self.spout = spout
        self.end = None

    def is_ready(self):
        return self.end is None or self.end < self.spout.limit

    def is_exhausted(self):
        return not self.is_ready()

    def initialize_transaction(self, txid, previous_metadata):
        start = previous_metadata[1] if previous_metadata else 0
        self.end = min(self.spout.limit, start + self.spout.take)
        return start, self.end


class NumbersEmitter(TransactionalSpout.Emitter):
    def __init__(self, context):
        self.index, self.tasks = context.task_index, len(context.tasks(context.component))
        self.cleaned = []

    def emit_batch(self, attempt, metadata, collector):
        for number in range(*metadata):
            if number % self.tasks == self.index:
                collector.emit([attempt, number])

    def cleanup_before(self, txid):
        self.cleaned.append(txid)


class ChangingRows(OpaquePartitionedTransactionalSpout):
    """Rows, of which each attempt may take another number.

    `takes` says how many: txid -> of each of its attempts; the last one of them again and again.
    The store is told what was emitted: ("emitted", txid, attempt, partition, start, end).
    """

    outputs = ("tx", "row")

    def __init__(self, partitions=(), takes=None, take=2):
        self.partitions, self.takes, self.take = partitions, takes or {}, take

    def get_coordinator(self, conf, context):
        return ChangingCoordinator(self, store(conf))

    def get_emitter(self, conf, context):
        return ChangingEmitter(self, store(conf))


class ChangingCoordinator(OpaquePartitionedTransactionalSpout.Coordinator):
    """Ready until each partition has come to its end, as far as was seen since it was made."""

    def __init__(self, spout, outside):
        self.spout, self.outside = spout, outside
        for partition in range(len(spout.partitions)):
            outside.put(("end", partition), 0)

    def num_partitions(self):
        return len(self.spout.partitions)

    def is_ready(self):
        return any(
            self.outside.get(("end", partition)) < len(rows)
            for partition, rows in enumerate(self.spout.partitions)
        )

    def is_exhausted(self):
        return not self.is_ready()


class ChangingEmitter(OpaquePartitionedTransactionalSpout.Emitter):
    def __init__(self, spout, outside):
        self.spout, self.outside = spout, outside

    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        start, rows = last_metadata or 0, self.spout.partitions[partition]
        take = self.wanted(attempt, partition)
        end = min(len(rows), start + (3 if take is None else take))
        self.outside.put(("end", partition), start)
        for row in rows[start:end]:
            collector.emit([attempt, row])
        if take is None:
            raise FailedException("the partition is away")
        self.outside.put(("end", partition), end)
        self.outside.note("emitted", attempt.txid, attempt.attempt, partition, start, end)
        return end

    def wanted(self, attempt, partition):
        """How many rows this attempt takes."""
        takes = self.spout.takes.get(attempt.txid)
        if takes is None:
            return self.spout.take
        seen = {
            event[2]
            for event in self.outside.notes()
            if event[:2] == ("emitted", attempt.txid) and event[2] != attempt.attempt
        }
        return takes[min(len(seen), len(takes) - 1)]
