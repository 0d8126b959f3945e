"""Transactional topologies on real Spark: Storm's examples with exact results, whatever fails."""

from collections import Counter

import pytest

from fulmen import TransactionalTopologyBuilder
from fulmen.engine.driver.driver import Stop
from support.runs.spark_topologies import RecordingObserver, SharedSpark, make_driver
from support.stores.outside_stores import SqliteStore
from support.transactions.sources import ChangingRows
from support.transactions.words import (
    Collect,
    collected,
    counted_words,
    four_phases,
    global_count,
    transactional_words,
    words_in,
)

pytestmark = pytest.mark.timeout(600)


def with_workers(test):
    """With one, two and three, of which a run draws one for all tests."""
    drawn = pytest.mark.matrix(share=1 / 3, name="workers of transactions on Spark")
    return drawn(pytest.mark.parametrize("workers", [1, 2, 3])(test))


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    spark = SharedSpark(3, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.end()


class Outside:
    """A store in a file, and what runs of topologies that write to it have told."""

    def __init__(self, spark, folder):
        self.spark, self.path = spark, str(folder / "outside.db")
        self.store = SqliteStore(self.path)
        self.checkpoint = spark.new_checkpoint()
        self.committed, self.failed, self.failures = [], [], []

    def conf(self, *faults):
        return {"store": self.path, "faults": [list(fault) for fault in faults]}

    def run(self, builder, batches=None):
        """Run a topology until it is drained, or for so many batches."""
        stop = Stop(when_drained=batches is None)

        def on_batch(totals, done):
            self.committed += [one.attempt.txid for one in done.transactions.committed]
            self.failed += [(f.component, f.attempt.txid) for f in done.transactions.failed]
            stop.now = batches is not None and totals.batches >= batches

        observer = RecordingObserver(on_batch)
        driver = make_driver(builder, self.spark, self.checkpoint, observer).start()
        try:
            driver.run(stop)
        finally:
            driver.close()
        self.failures += observer.failures
        assert [error for error in observer.errors if "asked for" not in error.message] == []
        return driver


@pytest.fixture
def outside(spark, tmp_path):
    return Outside(spark, tmp_path)


NUMBERS = [list(range(10)), list(range(4)), list(range(7))]


@with_workers
def test_the_global_count_is_exact(outside, workers):
    outside.run(global_count(outside.conf(), NUMBERS, 3, workers=workers, max_spout_pending=2))
    assert outside.committed == [1, 2, 3, 4]
    assert outside.store.all() == {"global": (4, 21)}
    sums = [("committed", txid, n) for txid, n in ((1, 9), (2, 7), (3, 4), (4, 1))]
    assert outside.store.notes() == sums


@with_workers
def test_committers_and_all_behind_them_finish_in_the_commit(outside, workers):
    builder = four_phases(outside.conf(), [["a", "b"]] * 2, tasks=2, workers=workers)
    outside.run(builder)
    for txid in (1, 2):
        events = [event[1:] for event in outside.store.notes() if event[0] == txid]
        ends = {
            c: [i for i, e in enumerate(events) if (e[0], e[2]) == (c, "finish")] for c in "ABCD"
        }
        assert [len(of) for of in ends.values()] == [2, 2, 2, 2]
        assert max(ends["A"]) < min(ends["B"])
        assert max(ends["B"]) < min(ends["C"])
        assert max(ends["C"]) < min(ends["D"])
        executed = Counter(e[0] for e in events if e[2] == "execute")
        assert executed == {"A": 2, "B": 4, "C": 10, "D": 12}
        assert all(e[0] != "B" for e in events[min(ends["B"]) :] if e[2] == "execute")
    finished = [e[0] for e in outside.store.notes() if e[1:] and e[3] == "finish" and e[1] == "D"]
    assert finished == [1, 1, 2, 2]


@with_workers
def test_a_batch_begins_where_the_last_emitted_one_ended(outside, workers):
    rows = list(range(1, 141))
    builder = TransactionalTopologyBuilder(
        "opaque",
        "spout",
        ChangingRows([rows], {1: [50, 40]}, 50),
        config=outside.conf(("collect", 1, "fail")),
        workers=workers,
        max_spout_pending=2,
    )
    builder.set_bolt("collect", Collect).shuffle_grouping("spout")
    outside.run(builder)
    notes = [e for e in outside.store.notes() if e[0] == "emitted" and e[4] < e[5]]
    assert [(e[1], e[4] + 1, e[5]) for e in notes] == [
        (1, 1, 50),
        (2, 51, 100),
        (1, 1, 40),
        (2, 41, 90),
        (3, 91, 140),
    ]
    assert outside.committed[:3] == [1, 2, 3]
    assert outside.failed == [("collect", 1)]
    assert collected(outside.store.all()) == rows


WORDS = [["a"] * 25 + ["b"] * 9 + ["c"], ["b"] * 2 + ["d"] * 10, ["a", "e"] * 20]
ALL = counted_words([word for part in WORDS for word in part])


@with_workers
def test_words_and_buckets_are_exact_though_attempts_fail_and_workers_die(outside, workers):
    faults = [
        ("count", 2, "fail"),
        ("count", 3, "kill"),
        ("buckets", 4, "fail"),
        ("buckets", 5, "kill"),
    ]
    builder = transactional_words(
        outside.conf(*faults), WORDS, 8, workers=workers, max_spout_pending=3
    )
    outside.run(builder)
    assert outside.committed == [1, 2, 3, 4, 5]
    assert words_in({k: v for k, v in outside.store.all().items() if k[0] != "fault"}) == ALL
    made = {key[1:]: what for key, what in outside.store.all().items() if key[0] == "fault"}
    assert made == {(component, txid): what for component, txid, what in faults}
    failed = {(component, txid) for component, txid in outside.failed if txid in (2, 4)}
    assert {("count", 2), ("buckets", 4)} <= failed
    assert len(outside.failures) == 2


def test_a_run_goes_on_with_other_workers_where_another_has_stopped(outside):
    for batches, workers in ((2, 2), (3, 3), (None, 1)):
        topology = transactional_words(
            outside.conf(), WORDS, 8, workers=workers, max_spout_pending=2
        )
        outside.run(topology, batches)
    assert outside.committed[:5] == [1, 2, 3, 4, 5]
    assert words_in(outside.store.all()) == ALL
