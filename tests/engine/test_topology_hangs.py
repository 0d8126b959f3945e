"""Calls of authors' code that end their process, hang or take long: named, and others go on."""

import re
from dataclasses import replace

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.errors import TopologyFailed
from support.parts.stuck_parts import beside, loading
from support.runs.spark_topologies import (
    Committed,
    Interrupts,
    RecordingObserver,
    SharedSpark,
    make_driver,
)

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

STUCK = "calls that end their process, hang or take long"


def drawn(cell):
    return pytest.mark.matrix(share=1 / 3, name=STUCK, cell=cell)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    spark = SharedSpark(2, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.end()


class Watched(RecordingObserver):
    """Stops when `is_enough` says so, which is asked after each batch."""

    def __init__(self, is_enough):
        super().__init__(self.look)
        self.stop, self.is_enough = Stop(), is_enough

    def look(self, totals, done):
        self.totals = totals
        self.stop.now = self.stop.now or self.is_enough(self)

    def emitted(self, component):
        return self.totals.component(component)["emitted"]


def ran(spark, builder, is_enough, limits=LIMITS):
    observer = Watched(is_enough)
    checkpoint = spark.new_checkpoint()
    driver = replace(make_driver(builder, spark, checkpoint, observer), limits=limits)
    running = driver.start()
    running.run(observer.stop)
    running.close()
    return observer, Committed(checkpoint)


@drawn("spout ends")
@pytest.mark.parametrize("method", ["open", "next_tuple"])
def test_a_spout_that_ends_its_process_is_named_and_others_go_on_until_it_is_back(
    spark, tmp_path, method
):
    over = tmp_path / "over"

    def is_enough(observer):
        if observer.totals.waits.left_out and observer.emitted("good") > 20:
            over.touch()
        return over.exists() and observer.totals.component("bad")["acked"] == 3

    observer, committed = ran(spark, beside(over, method, "end"), is_enough)
    (error,) = {e.message for e in observer.errors if e.component == "bad"}
    assert error == f"{method}: the process ended in this call"
    # On a slow machine it is left out once more before it is back for good.
    out, *_, back = [note for note in observer.notes if note.startswith("spout 'bad', task ")]
    assert re.search(rf"is left out since .* UTC: {method} ends its process", out)
    assert back.endswith("is back")
    assert committed.state("tally") == {0: {1: 1, 2: 1, 3: 1}}


@drawn("crash")
def test_with_on_error_crash_the_topology_ends_and_names_the_call(spark, tmp_path):
    builder = beside(tmp_path / "over", "next_tuple", "end", on_error="crash")
    with pytest.raises(TopologyFailed, match=r"spout .bad., task \d+: next_tuple ends its process"):
        ran(spark, builder, lambda _: False)


@drawn("model")
def test_a_model_that_loads_longer_than_a_batch_may_take_is_loaded(spark):
    builder = loading(8, batch_timeout_seconds=4, workers=2)
    observer, _ = ran(spark, builder, lambda observer: observer.emitted("good") > 5)
    assert observer.failures == []


@drawn("bolt")
@pytest.mark.parametrize(("fault", "what"), [("end", "ends its process"), ("hang", "does not end")])
def test_a_bolt_that_can_not_be_made_ends_the_topology_and_is_named(spark, fault, what):
    builder = loading(0, fault, batch_timeout_seconds=5)
    with pytest.raises(TopologyFailed, match=rf"bolt 'slow', task \d+: prepare {what}\. Batches"):
        ran(spark, builder, lambda _: False, EngineLimits(making_share=1))


@drawn("spout hangs")
@pytest.mark.parametrize("method", ["open", "next_tuple"])
def test_a_spout_that_hangs_is_named_and_others_go_on_without_it(spark, tmp_path, method):
    builder = beside(tmp_path / "over", method, "hang", batch_timeout_seconds=4)
    limits = EngineLimits(making_share=2, hang_seconds=1)

    def is_enough(observer):
        return bool(observer.totals.waits.left_out) and observer.emitted("good") > 20

    observer, _ = ran(spark, builder, is_enough, limits)
    (error,) = {e.message for e in observer.errors}
    assert re.fullmatch(rf"{method}: it did not end within \d s", error)
    of_bad = [note for note in observer.notes if note.startswith("spout 'bad', task ")]
    assert re.search(rf"\d: {method} runs since .* UTC, for \d s$", of_bad[0])
    assert re.search(rf"is left out since .* UTC: {method} does not end", of_bad[-1])


@drawn("interrupt")
def test_one_ctrl_c_ends_a_topology_whose_spout_hangs_and_names_the_call(spark, tmp_path):
    observer = Interrupts()
    builder = beside(tmp_path / "over", "next_tuple", "hang")
    driver = make_driver(builder, spark, spark.new_checkpoint(), observer)
    running = replace(driver, limits=EngineLimits(hang_seconds=2)).start()
    ended = r"spout 'bad', task \d+: next_tuple did not end for \d+ s, so the topology can't be"
    with pytest.raises(TopologyFailed, match=ended):
        running.run(observer.stop)
    running.close()
