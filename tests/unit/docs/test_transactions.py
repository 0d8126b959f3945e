"""What docs/transactions.md says of transactional topologies."""

import pytest

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    FailedException,
    OpaquePartitionedTransactionalSpout,
    ReportedFailedException,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import BoltHarness, run

HEARD = []
"""What components were called with, in order."""


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()
    return HEARD


class Numbers(TransactionalSpout):
    """Emits the txid in each of some transactions."""

    outputs = ("tx", "n")

    def __init__(self, transactions=1):
        self.transactions = transactions

    def get_coordinator(self, conf, context):
        return Coordinator(self.transactions)

    def get_emitter(self, conf, context):
        return Emitter()


class Coordinator(TransactionalSpout.Coordinator):
    def __init__(self, transactions):
        self.transactions, self.last = transactions, 0

    def is_ready(self):
        return self.last < self.transactions

    def initialize_transaction(self, txid, previous_metadata):
        self.last = txid
        HEARD.append(f"opened {txid}")
        return {"n": txid}

    def is_exhausted(self):
        return self.last >= self.transactions


class Emitter(TransactionalSpout.Emitter):
    def emit_batch(self, attempt, metadata, collector):
        collector.emit([attempt, metadata["n"]])


class Hears(BatchBolt):
    """Tells what it is called with, and passes on its name: in `execute` and at the end."""

    outputs = ("tx", "who")

    def prepare(self, conf, context, collector, attempt):
        self.name, self.collector, self.attempt = context.component, collector, attempt

    def execute(self, tup):
        HEARD.append(f"{self.name} executes {tup[1]}")
        self.collector.emit([self.attempt, f"{self.name} early"])

    def finish_batch(self):
        HEARD.append(f"{self.name} finishes {self.attempt.txid}")
        self.collector.emit([self.attempt, f"{self.name} late"])


class Commits(Hears, Committer):
    pass


def topology(bolt, spout=None, **spec):
    builder = TransactionalTopologyBuilder("t", "source", spout or Numbers(3), **spec)
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    return builder


def finished(name="bolt"):
    return [int(text.split()[-1]) for text in HEARD if text.startswith(f"{name} finishes")]


def test_bolts_are_called_in_the_phases_that_the_table_shows():
    builder = TransactionalTopologyBuilder("t", "source", Numbers)
    builder.set_bolt("A", Hears).shuffle_grouping("source")
    builder.set_bolt("B", Commits).shuffle_grouping("A")
    builder.set_bolt("C", Hears).shuffle_grouping("A").shuffle_grouping("B")
    builder.set_bolt("D", Commits).shuffle_grouping("C")
    run(builder, batches=1)
    processing, HEARD[:] = [text for text in HEARD if text[0] in "ABCD"], []
    assert {text.rsplit(" ", 1)[0] for text in processing if "finishes" in text} == {"A finishes"}
    executed = {text for text in processing if "executes" in text}
    assert executed >= {"B executes A early", "C executes A late", "D executes C early"}
    assert not executed & {"C executes B late", "D executes C late"}
    run(builder)
    committing = [text for text in HEARD if text[0] in "BCD"][-8:]
    assert [text for text in committing if "finishes" in text] == [
        *("B finishes 1", "C finishes 1", "D finishes 1")
    ]
    assert {"C executes B late", "D executes C late"} <= set(committing)


@pytest.mark.parametrize(
    ("active", "bolt", "batches"),
    [(1, Commits, 6), (2, Commits, 4), (3, Commits, 4), (1, Hears, 3), (3, Hears, 1)],
)
def test_the_number_of_active_transactions_decides_how_many_batches_there_are(
    active, bolt, batches
):
    builder = topology(bolt, max_spout_pending=active)
    run(builder, batches=batches - 1)
    assert finished() != [1, 2, 3]
    HEARD.clear()
    run(builder, batches=batches)
    assert finished() == [1, 2, 3]


class FailsAlways(Commits):
    error = FailedException

    def finish_batch(self):
        super().finish_batch()
        if self.attempt.txid == 2:
            raise self.error("no")


class Reports(FailsAlways):
    error = ReportedFailedException


class Raises(FailsAlways):
    error = ValueError


def test_a_transaction_is_given_up_when_it_has_come_again_as_often_as_it_may():
    result = run(topology(FailsAlways, max_replays=3))
    assert finished() == [1, 2, 2, 2, 2, 2, 3]  # at last with nothing, to take back
    [error] = result.errors
    assert "transaction 2 (metadata {'n': 2}) is given up after 4 attempts: no" in error.message


@pytest.mark.parametrize(("bolt", "reports"), [(FailsAlways, 0), (Reports, 1), (Raises, 2)])
def test_what_is_reported_of_a_failure(bolt, reports):
    result = run(topology(bolt, max_replays=0))
    assert len(result.errors) == reports + 1  # that it is given up, which is tried as well


def test_an_exception_stops_the_topology_if_it_is_to_crash():
    with pytest.raises(TopologyFailed, match="finish_batch: ValueError: no"):
        run(topology(Raises, on_error="crash"))
    HEARD.clear()
    run(topology(FailsAlways, on_error="crash", max_replays=0))
    assert finished() == [1, 2, 2, 3]


class FailsOnce(Hears):
    failed = False

    def finish_batch(self):
        super().finish_batch()
        if self.attempt.txid == 1 and not FailsOnce.failed:
            FailsOnce.failed = True
            raise FailedException("once")


def test_a_failure_fails_all_later_active_transactions():
    FailsOnce.failed = False
    run(topology(FailsOnce, max_spout_pending=3))
    assert finished() == [1, 1, 2, 3]  # the others have failed before their turn


class WithoutAttempt(BasicBolt):
    outputs = ("tx", "n")

    def execute(self, tup, collector):
        collector.emit([None, tup[1]])


def test_an_emit_without_the_attempt_fails_the_transaction():
    result = run(topology(WithoutAttempt, Numbers(1), max_replays=0))
    assert "the first value must be the attempt" in result.errors[0].message
    assert "given up" in result.errors[1].message


class Kills(Commits):
    """Stands for a tuple that ends its worker."""

    def execute(self, tup):
        super().execute(tup)
        if self.attempt.txid == 2:
            HEARD.append("kill")


def killer(stage, worker, moment):
    if moment == "after" and "kill" in HEARD:
        HEARD.remove("kill")
        raise Crash("out of memory")


def test_a_transaction_that_kills_workers_ends_the_topology_or_is_given_up():
    builder = topology(Kills, max_spout_pending=3)
    with pytest.raises(TopologyFailed, match=r"transaction 2 \(metadata \{'n': 2\}\), alone"):
        run(builder, fault=killer)
    HEARD.clear()
    result = run(topology(Kills, max_spout_pending=3, max_replays=1), fault=killer)
    assert finished()[-1] == 3
    assert "transaction 2" in result.errors[-1].message


def test_no_transaction_is_begun_while_the_topology_is_inactive():
    begun = run(topology(Commits, max_spout_pending=2), batches=1)
    inactive = topology(Commits, max_spout_pending=2, state="Inactive")
    HEARD.clear()
    run(inactive, checkpoint=begun.checkpoint, batches=8)
    assert finished() == [1, 2]
    assert "opened 3" not in HEARD


class Away(OpaquePartitionedTransactionalSpout):
    """Two partitions, of which the second is away."""

    outputs = ("tx", "n")

    def get_coordinator(self, conf, context):
        return AwayCoordinator()

    def get_emitter(self, conf, context):
        return AwayEmitter()


class AwayCoordinator(OpaquePartitionedTransactionalSpout.Coordinator):
    opened = 0

    def num_partitions(self):
        self.opened += 1
        return 2

    def is_ready(self):
        return self.opened < 2

    def is_exhausted(self):
        return self.opened == 2


class AwayEmitter(OpaquePartitionedTransactionalSpout.Emitter):
    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        HEARD.append((attempt.txid, partition, last_metadata))
        collector.emit([attempt, partition])
        if partition == 1 and attempt.txid == 1:
            raise FailedException("away")
        return attempt.txid


def test_an_opaque_partition_that_is_away_is_left_out():
    result = run(topology(Hears, Away))
    assert [text for text in HEARD if isinstance(text, tuple)] == [
        *((1, 0, None), (1, 1, None)),
        *((2, 0, 1), (2, 1, None)),
    ]
    executed = [text for text in HEARD if "executes" in text]
    assert executed == [f"bolt executes {partition}" for partition in (0, 0, 1)]
    assert "partition 1 is left out of 1:" in result.errors[0].message


def test_a_bolt_harness_takes_no_batch_bolts():
    with pytest.raises(TypeError):
        BoltHarness(Hears)
