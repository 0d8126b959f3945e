"""Storm's TransactionalGlobalCount: how many tuples there are, in a database, exactly."""

from collections.abc import Mapping
from typing import Any

from fulmen import (
    BatchBolt,
    BatchOutputCollector,
    Committer,
    TopologyContext,
    TransactionAttempt,
    Tuple,
)
from fulmen.transactional import MemoryTransactionalSpout, SqliteMap, plus

DATA = {  # the rows of each partition
    0: [["oak"], ["elm"], ["ash"], ["oak"], ["elm"], ["fir"]],
    1: [["oak"], ["elm"], ["fir"], ["yew"]],
    2: [["oak"], ["oak"], ["oak"], ["oak"], ["oak"], ["elm"], ["elm"], ["elm"], ["elm"]],
}


class Trees(MemoryTransactionalSpout):
    """Emits (tx, tree)."""

    data = DATA
    fields = ("tree",)
    take_amount = 3  # of each partition, in a transaction


class BatchCount(BatchBolt):
    """Counts the tuples of one transaction that come to this task."""

    outputs = ["tx", "count"]

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.collector, self.attempt = collector, attempt
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit([self.attempt, self.count])


class UpdateGlobalCount(BatchBolt, Committer):
    """Adds what all tasks have counted to what is in the database, in the order of the txids."""

    outputs = ["tx", "sum"]

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.collector, self.attempt = collector, attempt
        self.counts = SqliteMap(conf["file"], "counts", context, value="integer")
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup["count"]

    def finish_batch(self) -> None:
        self.counts.update(self.attempt, {"all": self.sum}, plus)  # only if the row's txid differs
        self.collector.emit([self.attempt, self.counts.get_many(["all"])["all"]])
