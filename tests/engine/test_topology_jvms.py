"""Topologies whose workers are in several JVMs, as in pods."""

from dataclasses import replace

import pytest

from fulmen.checkpoint import Store
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.callbacks.told_calls import FOLDER
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.errors import TopologyFailed
from fulmen.plan.model import DRIVER
from support.parts.poison import unlucky
from support.parts.stuck_parts import beside
from support.runs.spark_runs import add_jvms, remove_jvm, several_jvms
from support.runs.spark_topologies import (
    NOTHING_PENDING,
    Committed,
    Interrupts,
    RecordingObserver,
    SharedSpark,
    make_driver,
)
from support.worlds.unrepeatable import chaotic, check_commit

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

ALL, LEFT = {0, 1, 2, 3}, {0, 1}


@pytest.fixture
def spark(tmp_path):
    spark = SharedSpark(4, tmp_path, several_jvms(2, 2), slots=2)
    spark.patience_seconds = 1
    yield spark
    spark.end()


LOST = "JVMs of workers that are lost, or hang"


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="moves")
def test_executors_of_a_lost_jvm_move_and_come_back(spark):
    hosting, stop = [], Stop()

    def on_batch(totals, done):
        workers = {w for w in driver.plan.assignment if w >= 0}
        assert {s.process[0] for s in done.summaries} - {DRIVER} == workers
        hosting.append(workers)
        if len(hosting) == 5 and hosting.count(ALL) == 5:
            remove_jvm(spark.session, executor_of(spark, worker=2))
        elif hosting.count(LEFT) == 5 and workers == LEFT:
            add_jvms(spark.session)
        elif len(hosting) > 10 and hosting[-5:] == [ALL] * 5:
            stop.drain = True

    checkpoint, observer = spark.new_checkpoint(), RecordingObserver(on_batch)
    driver = make_driver(chaotic(4), spark, checkpoint, observer).start()
    before = driver.plan
    driver.run(stop)
    driver.close()
    assert driver.plan.executors == before.executors
    assert sorted(driver.plan.assignment) == sorted(before.assignment)
    assert observer.notes == [
        "workers [2, 3] are not there: planned anew",
        "all workers are there: planned anew",
    ]
    assert observer.restored
    committed = Committed(checkpoint)
    assert check_commit(committed) == (driver.totals.component("source")["emitted"], 0)
    assert committed.pending() == NOTHING_PENDING
    assert driver.totals.trees.failed == driver.totals.trees.timed_out == 0


def executor_of(jobs, worker):
    """Spark's id of the JVM of that worker."""
    found = jobs.session.workers.by_executor()
    return next(i for i, workers in found.items() if worker in workers)


LOSSES = 6
"""Four would have a tuple dropped for which workers were lost because of it."""


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="killed")
def test_jvms_that_are_killed_in_a_row_cost_no_tuple(spark, tmp_path):
    """They are lost in the same batch, each time that its only tuple is executed."""
    losses, messages = tmp_path / "losses", 6
    checkpoint, observer = spark.new_checkpoint(), RecordingObserver()
    driver = make_driver(unlucky(losses, LOSSES, messages), spark, checkpoint, observer).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert losses.stat().st_size == LOSSES
    assert len(observer.failures) >= LOSSES
    assert driver.totals.trees.dropped == 0
    heard = {}
    for state in Committed(checkpoint).state("messages").values():
        heard |= state
    assert heard == {n: ["acked"] for n in range(messages)}


@pytest.mark.matrix(share=1 / 3, name=LOST, cell="hangs")
def test_a_call_that_hangs_in_another_jvm_is_named_while_it_goes_on(spark, tmp_path):
    checkpoint, observer = spark.new_checkpoint(), Interrupts()
    builder = beside(tmp_path / "over", "next_tuple", "hang")
    driver = make_driver(builder, spark, checkpoint, observer)
    running = replace(driver, limits=EngineLimits(hang_seconds=2)).start()
    ended = r"spout 'bad', task \d+: next_tuple did not end for \d+ s"
    with pytest.raises(TopologyFailed, match=ended):
        running.run(observer.stop)
    running.close()
    # which only the worker can have said: its process is gone, and took nothing back
    assert Store.open(checkpoint).list(FOLDER)
