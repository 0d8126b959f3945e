"""Maps of committers in a topology: what they are told though nobody calls them, and who reads."""

import pytest

from fulmen import (
    BatchBolt,
    Committer,
    FailedException,
    OpaquePartitionedTransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.errors import TopologyFailed
from fulmen.services.pools import close_all
from fulmen.testing import TransactionFault, run
from fulmen.transactional import MemoryTransactionalSpout, SqliteMap, plus
from fulmen.transactional.conformance import context_of

WORDS = ["tea", "tea", "milk", "tea", "salt", "tea"]


class Words(OpaquePartitionedTransactionalSpout):
    """Three words a transaction. In its second attempt each transaction has the next two."""

    outputs = ("tx", "word")

    class Coordinator(OpaquePartitionedTransactionalSpout.Coordinator):
        txid = 0

        def num_partitions(self):
            return 1

        def is_exhausted(self):
            return False

    class Emitter(OpaquePartitionedTransactionalSpout.Emitter):
        def __init__(self):
            self.tried = {}

        def emit_partition_batch(self, attempt, collector, partition, last):
            tried = self.tried[attempt.txid] = self.tried.get(attempt.txid, 0) + 1
            if tried == 2:
                raise FailedException("the partition is away")
            start = last or 0
            for word in WORDS[start : start + 3]:
                collector.emit([attempt, word])
            return min(start + 3, len(WORDS))

    def get_coordinator(self, conf, context):
        return self.Coordinator()

    def get_emitter(self, conf, context):
        return self.Emitter()


class Count(BatchBolt, Committer):
    """Writes only if there is something to write."""

    outputs = ("tx", "word", "count")
    rule = "opaque"

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.partials, self.collector = attempt, {}, collector
        self.counts = SqliteMap(conf["file"], "counts", context, rule=self.rule)

    def execute(self, tup):
        self.partials[tup[1]] = self.partials.get(tup[1], 0) + 1

    def finish_batch(self):
        if self.partials:
            for word, count in self.counts.update(self.attempt, self.partials, plus).items():
                self.collector.emit([self.attempt, word, count])


class DefaultRule(Count):
    rule = "transactional"


class Reads(BatchBolt):
    """Reads the map of the bolt in front of it, and keeps what it has read in one of its own."""

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.told = attempt, {}
        self.counts = SqliteMap(conf["file"], "counts", context)
        self.read = SqliteMap(conf["file"], "read", context, rule="opaque")

    def execute(self, tup):
        self.told[tup[1]] = tup[2]

    def finish_batch(self):
        found = self.counts.get_many(self.told, after=self.attempt)
        assert found == self.told
        key = f"{self.attempt.txid}"
        self.read.put(self.attempt, {key: found} if found else {})


@pytest.fixture
def life(tmp_path):
    """Runs a topology until some transactions are committed; then reads a map."""

    def lived(*bolts, source=None, failing=(), until=3, **options):
        source = source or Words()
        file = str(tmp_path / "x.db")
        builder = TransactionalTopologyBuilder(
            "t", "words", source, config={"file": file}, **options
        )
        last = "words"
        for name, bolt in bolts:
            builder.set_bolt(name, bolt).global_grouping(last)
            last = name
        enough = (lambda r: until in r.transactions.committed) if until else (lambda r: r.errors)
        result = run(builder, failing=failing, until=enough)
        close_all()
        return result

    def read(name="counts", rule="opaque"):
        component = {"counts": "count"}.get(name, "reads")
        a_map = SqliteMap(tmp_path / "x.db", name, context_of(0, component, "t"), rule=rule)
        keys = [*WORDS, *map(str, range(9))]
        found = a_map.get_many(keys)
        close_all()
        return found

    lived.read = read
    return lived


def at_txid_one(**more):
    return TransactionFault(1, "count", "committing", **more)


def test_an_attempt_that_has_nothing_takes_back_what_the_one_before_has_written(life):
    """Its committer calls neither update nor put."""
    life(("count", Count), failing=[at_txid_one()])
    assert life.read() == {"tea": 4, "milk": 1, "salt": 1}


def test_what_a_transaction_that_is_given_up_has_written_is_taken_back(life):
    result = life(("count", Count), failing=[at_txid_one()], max_replays=0)
    assert [one.txid for one in result.transactions.given_up] == [1]
    assert life.read() == {"tea": 4, "milk": 1, "salt": 1}


def test_a_transaction_that_can_not_be_taken_back_ends_the_topology(life):
    fault = at_txid_one(times=None)
    with pytest.raises(
        TopologyFailed, match=r"transaction 1 .* is given up, but committers failed"
    ):
        life(("count", Count), failing=[fault], max_replays=1)


def test_the_default_rule_behind_an_opaque_source_is_refused(life):
    result = life(("count", DefaultRule), until=0)
    (message,) = {error.message for error in result.errors}
    assert "its rule is 'transactional', but source 'words' is opaque" in message
    assert life.read() == {}


def test_a_bolt_behind_a_committer_reads_what_the_transaction_has_made(life):
    life(("count", Count), ("reads", Reads), failing=[at_txid_one()])
    read = life.read("read")
    assert read == {"2": {"tea": 2, "milk": 1}, "3": {"tea": 4, "salt": 1}}


def test_a_bolt_that_no_committer_is_in_front_of_can_not_read_exactly(life):
    source = MemoryTransactionalSpout({0: [["tea", 1]]}, ["word", "count"], 1)
    result = life(("reads", Reads), source=source, until=0)
    (message,) = {error.message for error in result.errors}
    assert "transaction 1 is not being committed. Read it in finish_batch of a committer" in message
