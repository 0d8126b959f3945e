"""Storm's TransactionalWords: how often each word comes, and how many words come how often."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fulmen import (
    BasicBolt,
    BasicOutputCollector,
    BatchBolt,
    BatchOutputCollector,
    Committer,
    TopologyContext,
    TransactionAttempt,
    Tuple,
)
from fulmen.transactional import MemoryTransactionalSpout, SqliteMap, plus

BUCKET_SIZE = 3  # bucket 0: words that came 0 to 2 times; bucket 1: 3 to 5 times; and so on
DATA = {  # the rows of each partition
    0: [["oak"], ["elm"], ["ash"], ["oak"], ["elm"], ["fir"]],
    1: [["oak"], ["elm"], ["fir"], ["yew"]],
    2: [["oak"], ["oak"], ["oak"], ["oak"], ["oak"], ["elm"], ["elm"], ["elm"], ["elm"]],
}


class Words(MemoryTransactionalSpout):
    """Emits (tx, word)."""

    data = DATA
    fields = ("word",)
    take_amount = 3  # of each partition, in a transaction


class KeyedCountUpdater(BatchBolt, Committer):
    """Counts each word, and emits its count before and after the transaction."""

    outputs = ["tx", "word", "count", "previous"]

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.collector, self.attempt = collector, attempt
        self.partials: Counter[str] = Counter()
        self.counts = SqliteMap(conf["file"], "counts", context, value="integer")

    def execute(self, tup: Tuple) -> None:
        self.partials[tup["word"]] += 1

    def finish_batch(self) -> None:
        self.counts.update(self.attempt, self.partials, plus)
        counts = self.counts.get_many(self.partials)
        for word, partial in self.partials.items():
            previous = counts[word] - partial
            self.collector.emit([self.attempt, word, counts[word], previous or None])


class Bucketize(BasicBolt):
    """Moves a word from one bucket to another: one word more there, and one less here."""

    outputs = ["tx", "bucket", "delta"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        bucket = tup["count"] // BUCKET_SIZE
        if tup["previous"] is None:
            collector.emit([tup["tx"], bucket, 1])
            return
        previous = tup["previous"] // BUCKET_SIZE
        if previous != bucket:
            collector.emit([tup["tx"], bucket, 1])
            collector.emit([tup["tx"], previous, -1])


class BucketCountUpdater(BatchBolt):
    """Counts the words of each bucket. It is behind a committer, so it may write."""

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.attempt = attempt
        self.deltas: Counter[int] = Counter()
        self.buckets = SqliteMap(conf["file"], "buckets", context, key="integer", value="integer")

    def execute(self, tup: Tuple) -> None:
        self.deltas[tup["bucket"]] += tup["delta"]

    def finish_batch(self) -> None:
        self.buckets.update(self.attempt, self.deltas, plus)
