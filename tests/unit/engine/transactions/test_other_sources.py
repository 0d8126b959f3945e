"""A transactional spout becomes another one, or goes and comes back, on one checkpoint."""

import pytest

from fulmen import (
    BatchBolt,
    Committer,
    OpaquePartitionedTransactionalSpout,
    TopologyBuilder,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.checkpoint import load_many
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.driver import Stop
from fulmen.errors import CheckpointMismatch
from fulmen.testing import PAUSE, CollectBolt, ListSpout
from support.runs.engine_runs import make_driver, new_store
from support.transactions import sources

WRITTEN = []


@pytest.fixture(autouse=True)
def nothing_is_written():
    WRITTEN.clear()


class Write(BatchBolt, Committer):
    """Writes what a transaction has, with its txid."""

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.rows = attempt, []

    def execute(self, tup):
        self.rows.append(tup.values[1])

    def finish_batch(self):
        if self.rows:  # a coordinator that is made anew opens some transactions too many
            WRITTEN.append((self.attempt.txid, "".join(self.rows)))


class OtherRows(sources.Rows):
    """New code for the same source."""


class OpaqueCoordinator(sources.Countdown, OpaquePartitionedTransactionalSpout.Coordinator):
    def __init__(self, spout):
        super().__init__(sources.batches_of(len(spout.partitions[0]), spout.take))

    def num_partitions(self):
        self.opened += 1
        return 1


class OpaqueRows(OpaquePartitionedTransactionalSpout):
    """The same source, which may emit something else."""

    outputs = ("tx", "row")

    def __init__(self, rows, take=1):
        self.partitions, self.take = (rows,), take

    def get_coordinator(self, conf, context):
        return OpaqueCoordinator(self)

    def get_emitter(self, conf, context):
        return OpaqueEmitter(self.partitions[0])


class OpaqueEmitter(OpaquePartitionedTransactionalSpout.Emitter):
    def __init__(self, rows):
        self.rows = rows

    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        for row in self.rows[start : start + 1]:
            collector.emit([attempt, row])
        return start, start + 1


class WholeRows(TransactionalSpout):
    """The same without partitions."""

    outputs = ("tx", "row")

    def get_coordinator(self, conf, context):
        raise AssertionError("nobody asks")

    get_emitter = get_coordinator


class Numbered(TransactionalSpout):
    """A row for each transaction, numbered by the metadata of the one before."""

    outputs = ("tx", "row")

    def get_coordinator(self, conf, context):
        return NumberedCoordinator()

    def get_emitter(self, conf, context):
        return NumberedEmitter()


class NumberedCoordinator(TransactionalSpout.Coordinator):
    def initialize_transaction(self, txid, previous_metadata):
        return (previous_metadata or 0) + 1


class NumberedEmitter(TransactionalSpout.Emitter):
    def emit_batch(self, attempt, metadata, collector):
        collector.emit([attempt, f"row {metadata}"])


def rows(text):
    """A transaction for each letter."""
    return sources.Rows((text,), take=1)


def transactional(source, name="rows", **spec):
    builder = TransactionalTopologyBuilder("topology", name, source, max_spout_pending=3, **spec)
    builder.set_bolt("write", Write).global_grouping(name)
    return builder


def ordinary(name="items", items=(1, 2)):
    builder = TopologyBuilder("topology")
    builder.set_spout(name, ListSpout(items))
    builder.set_bolt("collect", CollectBolt).shuffle_grouping(name)
    return builder


class Notes:
    """What a person is told."""

    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(text)

    def __getattr__(self, _name):
        return lambda *_: None


def lived(topology, store, batches=None, observer=None):
    """A driver that has run so many batches and was lost then; None: until it was drained."""
    driver = make_driver(topology, store=store, observer=observer).start()
    if batches is None:
        driver.run(Stop(when_drained=True))
    else:
        for _ in range(batches):
            assert driver.step()
    driver.close()
    return driver


def kept(driver):
    """The components that the checkpoint has something of."""
    return {key.split("/")[0] for key in driver.log.manifest.tasks}


def test_a_renamed_source_begins_with_nothing_and_with_the_next_txid():
    store = new_store()
    lived(transactional(rows("abc")), store)
    driver = lived(transactional(rows("xy"), "lines"), store)
    assert WRITTEN == [(1, "a"), (2, "b"), (3, "c"), (4, "x"), (5, "y")]
    assert kept(driver) == {"lines", "rows"}
    assert layout_of(driver.log.manifest).last_txid == 3
    assert driver.totals.transactions.committed == 5


def test_transactions_that_a_renamed_source_had_begun_are_dropped_and_their_txids_not_used_again():
    store, notes = new_store(), Notes()
    lived(transactional(rows("abc")), store, batches=2)  # 1 is committed; 2 and 3 are begun
    assert WRITTEN == [(1, "a")]
    lived(transactional(rows("xy"), "lines"), store, observer=notes)
    assert WRITTEN == [(1, "a"), (4, "x"), (5, "y")]
    assert notes.told[0] == (
        "a transactional spout of before is not in the topology any more: what it had in"
        " transactions that were begun is dropped (txids 2 to 3). If it comes back, it begins them"
        " anew"
    )
    assert notes.told[1].startswith(
        "component 'rows' is not in the topology, and the checkpoint keeps its state (1 task)."
    )


@pytest.mark.parametrize("other", [transactional(rows("xy"), "lines"), ordinary()])
def test_until_the_first_batch_of_another_source_the_one_before_can_come_back(other):
    store = new_store()
    before = lived(transactional(rows("abc")), store, batches=2).log.manifest
    after = lived(other, store, batches=0).log.manifest
    assert after.sections == before.sections
    assert after.transient == before.transient
    keys = sorted(before.tasks)
    assert load_many(store, after, keys) == load_many(store, before, keys)
    lived(transactional(rows("abc")), store)
    assert WRITTEN == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("source", [sources.Rows(("abc",), take=1), OpaqueRows("abc")])
@pytest.mark.parametrize("other", [ordinary(), transactional(rows("xy"), "lines")])
def test_a_source_that_goes_and_comes_back_goes_on_with_the_next_txid(source, other):
    store = new_store()
    lived(transactional(source), store, batches=2)  # 1 is committed; 2 and 3 are begun
    for _ in range(2):
        assert "rows" in kept(lived(other, store))
    lived(transactional(source), store, batches=0)  # it comes back by and by
    lived(transactional(source), store)
    assert [row for _, row in WRITTEN if row in "abc"] == ["a", "b", "c"]
    txids = [txid for txid, _ in WRITTEN]
    assert txids == sorted({*txids})


def test_a_source_without_partitions_that_comes_back_goes_on_where_it_was():
    store = new_store()
    lived(transactional(Numbered()), store, batches=2)
    lived(ordinary(), store)
    lived(transactional(Numbered()), store, batches=4)
    assert [row for _, row in WRITTEN][:3] == ["row 1", "row 2", "row 3"]


def test_a_renamed_source_goes_on_where_it_was():
    store = new_store()
    lived(transactional(rows("abc")), store, batches=2)
    lived(transactional(rows("abc"), "lines", renames={"rows": "lines"}), store)
    assert WRITTEN == [(1, "a"), (2, "b"), (3, "c")]


def test_a_misspelled_source_gives_its_place_back():
    """It was kept under its name, and is renamed after a run."""
    store = new_store()
    lived(transactional(rows("abc")), store, batches=2)
    lived(transactional(rows("xy"), "rosw"), store)
    lived(transactional(rows("abc"), "lines", renames={"rows": "lines"}), store)
    assert [row for _, row in WRITTEN] == ["a", "x", "y", "b", "c"]


def two(first="abc", second="xyz", **spec):
    """Two sources, or one of the two."""
    names = {name: text for name, text in (("rows", first), ("more", second)) if text}
    (name, text), *others = names.items()
    builder = TransactionalTopologyBuilder("topology", name, rows(text), **spec)
    write = builder.set_bolt("write", Write).global_grouping(name)
    for other, text_of_other in others:
        builder.set_spout(other, rows(text_of_other))
        write.global_grouping(other)
    return builder


def test_a_source_comes_beside_another_which_goes_on():
    store = new_store()
    lived(two(second=""), store, batches=2)  # 1 is committed
    lived(two(), store)
    assert WRITTEN[0] == (1, "a")
    assert sorted("".join(text for _, text in WRITTEN)) == list("abcxyz")
    assert [txid for txid, _ in WRITTEN] == list(range(1, len(WRITTEN) + 1))


def test_what_a_source_that_goes_had_begun_is_dropped_and_the_others_go_on():
    store, notes = new_store(), Notes()
    lived(two(max_spout_pending=3), store, batches=2)  # 1 is committed; 2 and 3 are begun
    driver = lived(two(first=""), store, observer=notes)
    assert WRITTEN[1:] == [(2, "y"), (3, "z")]
    assert sorted(WRITTEN[0][1]) == ["a", "x"]
    assert "transactions that were begun is dropped (txids 2 to 3)" in notes.told[0]
    assert kept(driver) == {"more", "rows"}
    WRITTEN.clear()
    lived(two(), store)  # the one that was gone goes on
    assert "".join(text for _, text in WRITTEN) == "bc"


def test_spouts_give_way_to_a_transactional_one():
    """Their state is kept, as that of all components that are gone."""
    store = new_store()
    before = lived(ordinary(items=[1, PAUSE, 2]), store, batches=1)
    assert "items" in kept(before)
    after = lived(transactional(rows("ab")), store)
    assert kept(after) == {"collect", "items", "rows"}
    assert layout_of(after.log.manifest).kept.keys() == {"collect", "items"}
    assert layout_of(after.log.manifest).origins == {}
    assert WRITTEN == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("source", [OtherRows(("abcd",), take=1), OpaqueRows("abcd")])
def test_another_class_of_the_same_name_goes_on_where_the_one_before_ended(source):
    store = new_store()
    lived(transactional(rows("abc")), store, batches=2)
    lived(transactional(source), store, batches=4)
    assert WRITTEN[:4] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


WITH, WITHOUT = (
    "a transactional spout with partitions",
    "a transactional spout without partitions",
)


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        (transactional(rows("abc")), transactional(WholeRows()), WITH, WITHOUT),
        (transactional(rows("abc")), ordinary("rows"), WITH, "a spout"),
        (ordinary("rows"), transactional(rows("abc")), "a spout", WITH),
    ],
)
def test_a_source_of_another_kind_and_the_same_name_is_refused(before, after, was, now):
    store = new_store()
    manifest = lived(before, store, batches=1).log.manifest
    with pytest.raises(CheckpointMismatch) as refusal:
        make_driver(after, store=store).start()
    assert str(refusal.value) == (
        f"checkpoint {store.uri}: component 'rows' is {was} there, and {now} in this topology,"
        " which can't go on from what is kept there. Give it another name: then it begins with"
        " nothing"
    )
    assert lived(before, store, batches=0).log.manifest.sections == manifest.sections


def test_a_rebalance_keeps_the_transactions_that_were_begun():
    store = new_store()
    topology = transactional(rows("abcdef"), parallelism=1)
    driver = make_driver(topology, store=store).start()
    for _ in range(2):
        driver.step()
    wider = driver.topology.model_copy(
        update={"spec": driver.topology.spec.model_copy(update={"workers": 2})}
    )
    stop = Stop(when_drained=True)
    stop.topology = wider
    driver.run(stop)
    driver.close()
    assert [text for _, text in WRITTEN] == list("abcdef")
    assert [txid for txid, _ in WRITTEN] == [1, 2, 3, 4, 5, 6]
    assert layout_of(driver.log.manifest).last_txid == 0
