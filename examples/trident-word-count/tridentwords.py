"""Storm's TridentWordCount: how often each word has come, in a database, exactly."""

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


class Sentences(MemoryTransactionalSpout):
    """Emits (tx, sentence)."""

    data = {  # the rows of each partition
        0: [
            ["the cow jumped over the moon"],
            ["the man went to the store and bought some candy"],
            ["four score and seven years ago"],
            ["how many apples can you eat"],
            ["to be or not to be the person"],
        ]
    }
    fields = ("sentence",)
    take_amount = 3  # in a transaction


class Split(BasicBolt):
    """Emits each word."""

    outputs = ["tx", "word"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit([tup["tx"], word])


class Count(BatchBolt, Committer):
    """Counts each word, and emits its new count."""

    outputs = ["tx", "word", "count"]

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
        counts = self.counts.update(self.attempt, self.partials, plus)
        for word, count in counts.items():
            self.collector.emit([self.attempt, word, count])
