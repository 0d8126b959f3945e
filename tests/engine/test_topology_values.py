"""Tuples that are large, and tuples with hostile objects in them, between two real workers."""

import os
import signal

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.engine.emitting.collectors.spout_emits import emit_bytes
from fulmen.engine.protocol.figures.statistics import PENDING_MESSAGES
from fulmen.engine.tasks.spouts.spout_task import SLICE_BYTES
from support.parts.heavy import TUPLE_BYTES, heavy
from support.parts.hostile import CASES, hostile
from support.parts.object_ids import object_ids
from support.runs.spark_topologies import (
    NOTHING_PENDING,
    Committed,
    RecordingObserver,
    SharedSpark,
    make_driver,
)

pytestmark = pytest.mark.timeout(600)

BATCHES = 6


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    spark = SharedSpark(2, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.end()


def test_batches_of_large_tuples_are_limited_by_their_bytes_however_many_are_permitted(spark):
    emitted, stop = [], Stop()

    def on_batch(totals, done):
        emitted.extend(summary.emitted for summary in done.summaries if summary.emitted)
        stop.drain = totals.batches >= BATCHES
        driver.coordinator.size.permit = 1_000_000

    checkpoint = spark.new_checkpoint()
    driver = make_driver(heavy(), spark, checkpoint, RecordingObserver(on_batch)).start()
    driver.coordinator.size.permit = 1_000_000
    driver.run(stop)
    driver.close()
    most = emit_bytes(driver.placed)  # of a worker; the last slice may be twice as large as it may
    assert most / 4 < TUPLE_BYTES * max(emitted) <= most + 2 * SLICE_BYTES
    weighed = Committed(checkpoint).fields("weigh").values()
    assert sum(fields["tuples"] for fields in weighed) == sum(emitted)
    assert sum(fields["bytes"] for fields in weighed) == TUPLE_BYTES * sum(emitted)


def test_hostile_objects_fail_their_tuples_alone_and_cost_no_batch(spark):
    checkpoint, observer = spark.new_checkpoint(), RecordingObserver()
    driver = make_driver(hostile(), spark, checkpoint, observer).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    (ends,) = Committed(checkpoint).state("source").values()
    assert ends.keys() == set(range(len(CASES)))
    wrong = {i: ends[i] for i, (_, _, expected) in enumerate(CASES) if expected not in ends[i]}
    assert wrong == {}
    assert observer.failures == []
    assert Committed(checkpoint).pending() == NOTHING_PENDING


def test_message_ids_without_eq_are_found_again_when_their_processes_are_killed(spark):
    killed = []

    def on_batch(totals, done):
        if (
            sum(n for (of, _), n in totals.levels.items() if of == PENDING_MESSAGES) == 6
            and not killed
        ):
            killed.extend(p.pid for w, p in totals.processes.items() if w >= 0)
            for pid in set(killed):
                os.kill(pid, signal.SIGKILL)

    checkpoint, observer = spark.new_checkpoint(), RecordingObserver(on_batch)
    driver = make_driver(object_ids(failing=(1, 4)), spark, checkpoint, observer).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    (fields,) = Committed(checkpoint).fields("jobs").values()
    assert killed
    assert observer.restored
    assert fields["open_jobs"] == {}
    assert sorted(fields["done"]) == [(0, 1), (1, -2), (2, 1), (3, 1), (4, -2), (5, 1)]
