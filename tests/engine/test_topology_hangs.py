"""Calls of authors' code that end their process, hang or take long: named, and others go on."""

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.errors import TopologyFailed
from support.spark_topologies import Committed, RecordingObserver, SharedSpark, make_driver
from support.stuck_parts import beside

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


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


def ran(spark, builder, is_enough):
    observer = Watched(is_enough)
    checkpoint = spark.new_checkpoint()
    running = make_driver(builder, spark, checkpoint, observer).start()
    running.run(observer.stop)
    running.close()
    return observer, Committed(checkpoint)


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
    out, back = [note for note in observer.notes if note.startswith("spout 'bad', task ")]
    assert f"is left out: {method} ends its process" in out
    assert back.endswith("is back")
    assert committed.state("tally") == {0: {1: 1, 2: 1, 3: 1}}


def test_with_on_error_crash_the_topology_ends_and_names_the_call(spark, tmp_path):
    builder = beside(tmp_path / "over", "next_tuple", "end", on_error="crash")
    with pytest.raises(TopologyFailed, match="spout 'bad', task .: next_tuple ends its process"):
        ran(spark, builder, lambda _: False)
