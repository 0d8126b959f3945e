"""The word count of sentences.py in transactions, for the benchmarks."""

import time
from collections import Counter

from sentences import SENTENCES

from fulmen import BasicBolt, BatchBolt, TransactionalSpout
from fulmen.transactional import PostgresMap, SqliteMap, plus


class Sentences(TransactionalSpout):
    """Transactions of `size` sentences, as many as are asked for."""

    outputs = ("tx", "sentence")

    def get_coordinator(self, conf, context):
        """Say where each transaction begins."""
        return Coordinator(conf["size"])

    def get_emitter(self, conf, context):
        """Emit a share of each."""
        return Emitter(context.task_index, len(context.tasks(context.component)))


class Coordinator(TransactionalSpout.Coordinator):
    """The metadata are the range of the sentences."""

    def __init__(self, size):
        self.size = size

    def initialize_transaction(self, txid, previous_metadata):
        """The next range."""
        start = previous_metadata[1] if previous_metadata else 0
        return start, start + self.size


class Emitter(TransactionalSpout.Emitter):
    """Emits every n-th sentence."""

    def __init__(self, index, tasks):
        self.index, self.tasks = index, tasks

    def emit_batch(self, attempt, metadata, collector):
        """This task's sentences."""
        start, end = metadata
        for k in range(start + self.index, end, self.tasks):
            collector.emit([attempt, SENTENCES[k % 1000]])


class Split(BasicBolt):
    """Emits the words of a sentence."""

    outputs = ("tx", "word")

    def execute(self, tup, collector):
        """Split one sentence."""
        attempt, sentence = tup.values
        for word in sentence.split(" "):
            collector.emit([attempt, word])


class Count(BatchBolt):
    """Counts the words of a transaction, and takes `commit_seconds` to commit them."""

    def prepare(self, conf, context, collector, attempt):
        """Begin a transaction."""
        self.counts = Counter()
        self.seconds = conf.get("commit_seconds", 0)

    def execute(self, tup):
        """Count one word."""
        self.counts[tup.values[1]] += 1

    def finish_batch(self):
        """Wait as for a database."""
        if self.seconds:
            time.sleep(self.seconds)


class CountInto(Count):
    """Counts the words of a transaction, and adds them to a map in SQLite or PostgreSQL."""

    def prepare(self, conf, context, collector, attempt):
        """Begin a transaction."""
        super().prepare(conf, context, collector, attempt)
        self.attempt = attempt
        kind = SqliteMap if conf["store"] == "sqlite" else PostgresMap
        self.total = kind(conf["at"], conf["table"], context, value="integer")

    def finish_batch(self):
        """Add them."""
        self.total.update(self.attempt, self.counts, plus)
