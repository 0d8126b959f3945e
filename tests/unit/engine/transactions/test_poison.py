"""A transaction that ends its workers again and again is named, with where it begins."""

import pytest

from fulmen import BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import run
from fulmen.testing.components import Killed
from support.transactions.sources import Numbers, NumbersEmitter, Rows, RowsEmitter

ROWS = (("a", "b", "poison", "c"), ("d", "e", "f", "g"))
SEEN = []


class Mortal(BatchBolt, Committer):
    def prepare(self, conf, context, collector, attempt):
        self.rows = []

    def execute(self, tup):
        if tup[1] == "poison":
            raise Killed
        self.rows.append(tup[1])

    def finish_batch(self):
        SEEN.extend(self.rows)


def topology(rows=ROWS, **spec):
    SEEN.clear()
    builder = TransactionalTopologyBuilder("mortal", "rows", Rows(rows, take=1), 2, **spec)
    builder.set_bolt("mortal", Mortal).global_grouping("rows")
    return builder


def test_it_ends_the_topology_and_is_named_with_where_it_begins():
    with pytest.raises(TopologyFailed) as ended:
        run(topology(max_spout_pending=3))
    assert sorted(SEEN) == ["a", "b", "d", "e"]
    text = str(ended.value)
    assert "transaction 3 (metadata 2), alone in its batch, came to nothing 5 times" in text
    assert text.endswith("Its partitions begin behind {0: (1, 2), 1: (1, 2)}")


def test_it_is_given_up_and_named_with_where_it_begins():
    result = run(topology(max_replays=1))
    assert sorted(SEEN) == ["a", "b", "c", "d", "e", "g"]
    [error] = result.errors
    assert error.message.startswith("transaction 3 (metadata 2) is given up after 2 attempts")
    assert error.message.endswith("Its partitions begin behind {0: (1, 2), 1: (1, 2)}")


def test_the_first_one_begins_where_the_source_does():
    with pytest.raises(TopologyFailed) as ended:
        run(topology((("poison",),)))
    assert "begin behind" not in str(ended.value)


class MortalNumbers(Numbers):
    def get_emitter(self, conf, context):
        return MortalEmitter(context)


class MortalEmitter(NumbersEmitter):
    def emit_batch(self, attempt, metadata, collector):
        raise Killed("it dies")


def test_a_source_that_ends_its_workers_is_named_with_the_call():
    builder = TransactionalTopologyBuilder("mortal", "numbers", MortalNumbers())
    builder.set_bolt("mortal", Mortal).global_grouping("numbers")
    with pytest.raises(TopologyFailed, match=r"it dies, in emit of spout 'numbers', task \d+"):
        run(builder)


class MortalRows(Rows):
    def get_emitter(self, conf, context):
        return MortalRowsEmitter(self)


class MortalRowsEmitter(RowsEmitter):
    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        if partition == 1:
            raise Killed("it dies")
        return super().emit_partition_batch_new(attempt, collector, partition, last_metadata)


def test_a_partition_that_ends_its_workers_is_named():
    builder = TransactionalTopologyBuilder("mortal", "rows", MortalRows(ROWS, take=1))
    builder.set_bolt("mortal", Mortal).global_grouping("rows")
    with pytest.raises(
        TopologyFailed, match=r"it dies, in emit of partition 1 of spout 'rows', task \d+"
    ):
        run(builder)
