"""Components of transactional topologies that tests run: each does what Storm's example does."""

import os
import signal
from collections import Counter

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    FailedException,
    TransactionalTopologyBuilder,
)
from support.stores.outside_stores import store
from support.transactions.sources import Rows


class Split(BasicBolt):
    outputs = ("tx", "word")

    def execute(self, tup, collector):
        for word in tup.values[1].split():
            collector.emit([tup.values[0], word])


class Stored(BatchBolt):
    """A batch bolt with the store that its topology's configuration names.

    The configuration may have `faults`: (component, txid, what), each made once when a task has
    finished: "fail" it, or "kill" its process.
    """

    def prepare(self, conf, context, collector, attempt):
        self.store, self.context = store(conf), context
        self.faults = conf.get("faults", ())
        self.collector, self.attempt = collector, attempt
        self.begin()

    def begin(self):
        pass

    def execute(self, tup):
        pass


def finishing(cls):
    """A bolt that makes its faults when it has finished."""
    usual = cls.finish_batch

    def finish_batch(self):
        usual(self)
        for component, txid, what in self.faults:
            if (component, txid) != (self.context.component, self.attempt.txid):
                continue
            if self.store.get(("fault", component, txid)) is None:
                self.store.put(("fault", component, txid), what)
                if what == "fail":
                    raise FailedException("asked for")
                os.kill(os.getpid(), signal.SIGKILL)

    cls.finish_batch = finish_batch
    return cls


class BatchCount(BatchBolt):
    outputs = ("tx", "count")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.count = collector, attempt, 0

    def execute(self, tup):
        self.count += 1

    def finish_batch(self):
        self.collector.emit([self.attempt, self.count])


@finishing
class UpdateGlobalCount(Stored, Committer):
    """Storm's: updates the count iff the stored txid differs."""

    outputs = ("tx", "sum")

    def begin(self):
        self.sum = 0

    def execute(self, tup):
        self.sum += tup.values[1]

    def finish_batch(self):
        txid, count = self.store.get("global", (0, 0))
        if txid != self.attempt.txid:
            assert txid < self.attempt.txid, "commits are in strict order"
            count += self.sum
            self.store.put("global", (self.attempt.txid, count))
        self.store.note("committed", self.attempt.txid, self.sum)
        self.collector.emit([self.attempt, count])


def global_count(conf, partitions, take, **spec):
    """Storm's TransactionalGlobalCount: spout 3, partial count 5, sum 1."""
    builder = TransactionalTopologyBuilder(
        "global-count", "spout", Rows(partitions, take), 3, config=conf, **spec
    )
    builder.set_bolt("partial-count", BatchCount, 5).shuffle_grouping("spout")
    builder.set_bolt("sum", UpdateGlobalCount).global_grouping("partial-count")
    return builder


@finishing
class KeyedCountUpdater(Stored, Committer):
    """Counts words, each with the transaction that it was last counted in."""

    outputs = ("tx", "word", "count", "before")

    def begin(self):
        self.counts = Counter()

    def execute(self, tup):
        self.counts[tup.values[1]] += 1

    def finish_batch(self):
        for word, n in self.counts.items():
            key, txid = ("word", word), self.attempt.txid
            of, count, before = self.store.get(key, (0, 0, None))
            if of != txid:
                assert of < txid, "commits are in strict order"
                before = count if of else None
                count += n
                self.store.put(key, (txid, count, before))
            self.collector.emit([self.attempt, word, count, before])


class Bucketize(BasicBolt):
    """Says which bucket a word has come to, and which one it has left."""

    outputs = ("tx", "bucket", "delta")
    size = 10

    def execute(self, tup, collector):
        attempt, _, count, before = tup.values
        bucket = count // self.size
        if before is None:
            collector.emit([attempt, bucket, 1])
        elif bucket != before // self.size:
            collector.emit([attempt, bucket, 1])
            collector.emit([attempt, before // self.size, -1])


@finishing
class BucketCountUpdater(Stored):
    """Counts the words in each bucket. It is behind a committer, so it needs no marker."""

    outputs = ()

    def begin(self):
        self.counts = Counter()

    def execute(self, tup):
        self.counts[tup.values[1]] += tup.values[2]

    def finish_batch(self):
        for bucket, delta in self.counts.items():
            key, txid = ("bucket", bucket), self.attempt.txid
            of, count = self.store.get(key, (0, 0))
            if of != txid:
                assert of < txid, "commits are in strict order"
                self.store.put(key, (txid, count + delta))


def transactional_words(conf, partitions, take, **spec):
    """Storm's TransactionalWords: how often each word came, and how many came how often."""
    builder = TransactionalTopologyBuilder(
        "words", "spout", Rows(partitions, take), 2, config=conf, **spec
    )
    count = builder.set_bolt("count", KeyedCountUpdater, 3)
    count.fields_grouping("spout", ["row"])
    builder.set_bolt("bucketize", Bucketize, 2).shuffle_grouping("count")
    builder.set_bolt("buckets", BucketCountUpdater, 2).fields_grouping("bucketize", ["bucket"])
    return builder


def counted_words(words):
    """What is to be in the store: the count of each word, the number of words in each bucket."""
    counts = Counter(words)
    return counts, Counter(n // Bucketize.size for n in counts.values())


def words_in(values):
    """The counts of words, and of buckets that have words, in a store."""
    words = {key[1]: value[1] for key, value in values.items() if key[0] == "word"}
    buckets = {key[1]: value[1] for key, value in values.items() if key[0] == "bucket"}
    return words, {bucket: n for bucket, n in buckets.items() if n}


@finishing
class CollectAtOnce(Stored):
    """Stores the rows of each transaction: what the last attempt had."""

    outputs = ()

    def begin(self):
        self.rows = []

    def execute(self, tup):
        self.rows.append(tup.values[1])

    def finish_batch(self):
        self.store.put(("rows", self.attempt.txid, self.context.task_index), self.rows)
        self.store.note("committed", self.attempt.txid)


class Collect(CollectAtOnce, Committer):
    """The same, in the order of the transactions."""


def collected(values):
    """All rows that `Collect` has stored, by their transactions' order."""
    found = sorted((key, rows) for key, rows in values.items() if key[0] == "rows")
    return [row for _, rows in found for row in rows]


class Noting(Stored):
    """Notes each call, and emits in both: its name and what it was called for."""

    outputs = ("tx", "what")

    def note(self, *what):
        task = self.context.task_index
        self.store.note(self.attempt.txid, self.context.component, task, *what)

    def execute(self, tup):
        self.note("execute", tup.component)
        self.collector.emit([self.attempt, "executed"])

    def finish_batch(self):
        self.note("finish")
        self.collector.emit([self.attempt, "finished"])


class NotingCommitter(Noting, Committer):
    """The same, in the order of the transactions."""


def four_phases(conf, partitions=(("row",),), take=1, tasks=1, **spec):
    """A to D: B and D are committers, C gets what A and B emit."""
    builder = TransactionalTopologyBuilder(
        "phases", "spout", Rows(partitions, take), config=conf, **spec
    )
    builder.set_bolt("A", Noting, tasks).shuffle_grouping("spout")
    builder.set_bolt("B", NotingCommitter, tasks).shuffle_grouping("A")
    builder.set_bolt("C", Noting, tasks).shuffle_grouping("A").shuffle_grouping("B")
    builder.set_bolt("D", NotingCommitter, tasks).shuffle_grouping("C")
    return builder
