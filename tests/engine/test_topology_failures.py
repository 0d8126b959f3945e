"""Messages that kill, workers that go away, and runs of another shape on the same checkpoint."""

import os
import re
import signal
from collections import ChainMap

import pytest

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.plan.model import DRIVER
from support.parts.deadly_calls import check, deadly
from support.parts.poison import PinnedMessages, bomb, poisonous
from support.parts.result_parts import AtBatchEnds, DeadLetters, RandomSink, check_results
from support.runs.engine_runs import Numbers
from support.runs.spark_topologies import (
    NOTHING_PENDING,
    Committed,
    RecordingObserver,
    SharedSpark,
    make_driver,
)
from support.worlds.unrepeatable import chaotic, check_commit

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def drawn(cell):
    return pytest.mark.matrix(share=3 / 7, name="what kills on Spark", cell=cell)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    spark = SharedSpark(3, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.end()


class Drained:
    """A topology that was run until it was drained."""

    def __init__(self, spark, builder):
        checkpoint = spark.new_checkpoint()
        self.observer = RecordingObserver()
        driver = make_driver(builder, spark, checkpoint, self.observer).start()
        driver.run(Stop(when_drained=True))
        driver.close()
        self.totals, self.committed = driver.totals, Committed(checkpoint)

    def heard(self):
        """What the spout heard of each message."""
        found = {}
        for state in self.committed.state("messages").values():
            found |= state
        return found

    def counted(self):
        found = {}
        for state in self.committed.state("tally").values():
            found |= state
        return found


def check_poison(drained, messages, failed):
    """Exactly these messages failed, for these reasons, and all others went through once."""
    assert drained.heard() == {n: [failed.get(n, "acked")] for n in range(messages)}
    assert drained.counted() == {n: 1 for n in range(messages) if n not in failed}
    assert drained.committed.pending() == NOTHING_PENDING
    assert drained.totals.trees.failed == len(failed)
    assert drained.totals.trees.acked == messages - len(failed)
    assert drained.totals.trees.timed_out == 0


RAISED = "bolt 'drink': execute: ValueError: a component failed"


@drawn("ends or raises")
def test_poison_that_ends_its_process_or_raises_fails_alone(spark):
    poison = {7: "os._exit", 12: "raise", 30: "os._exit"}
    drained = Drained(spark, poisonous(poison, limit=24))
    check_poison(drained, 48, {7: "crashed worker", 12: RAISED, 30: "crashed worker"})
    reasons = {reason for _, reason in drained.observer.failures}
    assert any("or a component ended it" in reason for reason in reasons)


@drawn("hangs")
def test_poison_that_hangs_fails_alone(spark):
    topology = poisonous({4: "sleep"}, 8, in_a_batch=1, tasks=1, batch_timeout_seconds=3)
    drained = Drained(spark, topology)
    check_poison(drained, 8, {4: "crashed worker"})
    reasons = {reason for _, reason in drained.observer.failures}
    assert "the batch took more than 3 seconds and was cancelled" in reasons


@drawn("pinned")
def test_poison_of_a_pinned_spout_fails_alone(spark):
    drained = Drained(spark, poisonous({7: "os._exit"}, limit=12, spout=PinnedMessages, tasks=1))
    check_poison(drained, 12, {7: "crashed worker"})


class EndsAfterTheNote(RecordingObserver):
    """Ends the topology at the second failure after it was told that a batch is hopeless."""

    def __init__(self, stop):
        super().__init__()
        self.stop = stop
        self.told_at = None

    def note(self, text):
        super().note(text)
        if "at last without any tuple" in text:
            self.told_at = len(self.failures)

    def attempt_failed(self, number, reason):
        super().attempt_failed(number, reason)
        if self.told_at is not None and len(self.failures) >= self.told_at + 2:
            self.stop.now = True


@drawn("no call")
def test_what_kills_in_no_call_of_an_authors_method_is_told_and_tried_again(spark):
    """Nobody can tell it from a cluster that takes workers away, so it doesn't end the topology."""
    stop = Stop()
    observer = EndsAfterTheNote(stop)
    driver = make_driver(bomb(), spark, spark.new_checkpoint(), observer).start()
    driver.run(stop)
    driver.close()
    told = r"failed \d+ times in a row, .* a component ends its process"
    assert len([note for note in observer.notes if re.search(told, note)]) == 1  # not again
    assert driver.totals.failed_attempts < 20
    assert driver.coordinator.last.number < 20


@drawn("timers")
def test_timers_windows_and_other_calls_that_end_their_process_are_left_out_and_no_tuple_is(spark):
    drained = Drained(spark, deadly("exit"))
    check(lambda name: ChainMap(*drained.committed.state(name).values()))
    assert drained.committed.pending() == NOTHING_PENDING
    assert drained.totals.trees.failed == 0
    notes = "\n".join(drained.observer.notes)
    assert re.search("is left out since .* UTC: end_batch ends its process. Everything el", notes)


@drawn("other workers")
def test_pending_trees_go_on_with_other_workers_and_ackers(spark):
    checkpoint, stop = spark.new_checkpoint(), Stop()

    def on_batch(totals, done):
        stop.now = first.coordinator.last.number > 20 and first.coordinator.pending > 10

    watching = RecordingObserver(on_batch)
    first = make_driver(chaotic(2, ackers=2), spark, checkpoint, watching).start()
    first.run(stop)
    first.close()
    trees, messages, _ = Committed(checkpoint).pending()
    assert trees > 10
    assert messages >= trees
    _, waiting = check_commit(Committed(checkpoint))
    assert waiting == messages

    ending = Stop()

    def drain(totals, done):
        ending.drain = totals.batches >= 10

    second = make_driver(chaotic(3, ackers=1), spark, checkpoint, RecordingObserver(drain)).start()
    second.run(ending)
    second.close()
    assert second.totals.pids.keys() - {DRIVER} == {0, 1, 2}
    _, waiting = check_commit(Committed(checkpoint))
    assert waiting == 0
    assert Committed(checkpoint).pending() == NOTHING_PENDING
    assert second.totals.trees.failed == second.totals.trees.timed_out == 0


@drawn("results")
def test_results_that_fail_come_again_though_workers_are_killed(spark):
    """Each is accepted once, or comes once to the dead letters."""
    checkpoint = spark.new_checkpoint()
    kills = [4, 9, 15]

    def on_batch(totals, done):
        if kills and totals.batches >= kills[0]:
            del kills[0]
            os.kill(observer.processes[len(kills) % 3], signal.SIGKILL)

    observer = RecordingObserver(on_batch)
    driver = make_driver(results(3), spark, checkpoint, observer).start()
    driver.coordinator.size.permit = 2
    driver.run(Stop(when_drained=True))
    driver.close()
    assert kills == []
    # Whether an attempt fails depends on when Spark sees that a process is gone; its tasks do not.
    assert {"gather/0", "gather/1", "gather/2"} <= set(observer.restored)
    assert driver.totals.trees.replayed > 0
    committed = Committed(checkpoint)
    accepted, dead = (dict(ChainMap(*committed.state(name).values())) for name in ("sink", "dead"))
    check_results(accepted, dead, 60)
    assert committed.pending() == NOTHING_PENDING


def results(workers):
    config = {"limit": 60, "wrong": 0.5}
    builder = TopologyBuilder(name="results", workers=workers, max_replays=6, config=config)
    builder.set_spout("source", Numbers)
    builder.set_bolt("gather", AtBatchEnds, 3).shuffle_grouping("source")
    builder.set_bolt("sink", RandomSink, 3).fields_grouping("gather", ["numbers"])
    builder.set_bolt("dead", DeadLetters).shuffle_grouping("gather", "__dead_letters")
    return builder
