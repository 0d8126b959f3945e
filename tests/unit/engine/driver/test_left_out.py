"""A spout whose own call ends its process: it is found and named, and the others go on."""

import re

import pytest

from fulmen import Spout, TopologyBuilder
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.engine.batches.failures.suspects import CERTAIN_DEATHS, DEATHS
from fulmen.engine.driver.driver import Stop
from fulmen.engine.totals.derived_waits import waits_of_drain
from fulmen.engine.worker.in_process import Crash, InProcessJobs
from fulmen.errors import TopologyFailed
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.driver.reporting import report_of
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.testing.components import Killed
from support.runs.engine_runs import make_driver, new_store


class Bad(Spout):
    """One of its methods ends its process, so often."""

    outputs = ("value",)
    deaths = 0

    def __init__(self, method):
        self.method, self.emitted = method, 0

    def die_in(self, method):
        if method == self.method and Bad.deaths > 0:
            Bad.deaths -= 1
            raise Killed("the process dies")

    def open(self, conf, context, collector):
        self.collector = collector
        self.die_in("open")

    def activate(self):
        self.die_in("activate")

    def next_tuple(self):
        self.die_in("next_tuple")
        if self.emitted < 3:
            self.emitted += 1
            self.collector.emit([f"bad {self.emitted}"], msg_id=self.emitted)

    def ack(self, msg_id):
        self.die_in("ack")

    def is_exhausted(self):
        self.die_in("is_exhausted")
        return self.emitted == 3


METHODS = ["open", "activate", "next_tuple", "ack", "is_exhausted"]
FOR_EVER = 10**9


def two_spouts(method, deaths, workers=2, **spec):
    Bad.deaths = deaths
    builder = TopologyBuilder("two", workers=workers, **spec)
    builder.set_spout("bad", Bad(method))
    builder.set_spout("good", ListSpout(list(range(300))))
    for spout in ("bad", "good"):
        builder.set_bolt(f"of-{spout}", CollectBolt()).shuffle_grouping(spout)
    return builder


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_other_spout_gets_through_and_the_bad_one_is_named(method, workers):
    results = []

    def good_is_through(result):
        results[:] = [result]
        return len(result.collected("of-good")) == 300

    run(two_spouts(method, FOR_EVER, workers), until=good_is_through, at_most=300)
    (result,) = results
    task = result.report["components"]["bad"]
    assert [error["message"] for error in task["errors"]] == [
        f"{method}: the process ended in this call"
    ]
    said = rf"left out since .* UTC: {method} ends its process"
    assert any(re.search(said, note) for note in result.notes)
    failed = [note for note in result.notes if "is run again" in note]
    assert len(failed) < 6


@pytest.mark.parametrize("method", METHODS)
def test_it_is_tried_again_after_pauses_and_all_its_messages_come_through(method):
    result = run(two_spouts(method, DEATHS))
    assert [v for [v] in result.collected("of-bad")] == ["bad 1", "bad 2", "bad 3"]
    assert len(result.collected("of-good")) == 300
    left_out = [note for note in result.notes if note.startswith("spout 'bad'")]
    assert re.fullmatch(r"spout 'bad', task \d+, is left out since .* UTC: .*", left_out[0])
    assert re.fullmatch(r"spout 'bad', task \d+, is back", left_out[1])
    assert len(left_out) == 2
    assert result.trees == {**result.trees, "acked": 303, "failed": 0, "pending": 0, "dropped": 0}


@pytest.mark.parametrize("method", METHODS)
def test_a_topology_whose_other_spouts_have_ended_ends_and_names_it(method):
    with pytest.raises(TopologyFailed, match=rf"spout 'bad', task \d+: {method} ends its process"):
        run(two_spouts(method, FOR_EVER))
    assert FOR_EVER - Bad.deaths < 12


@pytest.mark.parametrize("method", METHODS)
def test_with_on_error_crash_the_topology_ends_and_names_it(method):
    with pytest.raises(TopologyFailed, match=rf"spout 'bad', task \d+: {method} ends its process"):
        run(two_spouts(method, FOR_EVER, on_error="crash"))
    assert FOR_EVER - Bad.deaths == CERTAIN_DEATHS


def test_a_process_that_is_lost_once_in_a_spouts_call_leaves_nobody_out():
    result = run(two_spouts("next_tuple", 1))
    assert len(result.notes) == 1


def lost(*_):
    raise Crash("it dies")


def test_a_topology_whose_batches_all_fail_ends_when_it_is_to_be_drained():
    driver = make_driver(two_spouts("", 0), jobs=InProcessJobs(lost, new_store())).start()
    with pytest.raises(TopologyFailed, match=r"the topology can't be drained, .* it dies"):
        driver.run(Stop(drain=True))
    driver.close()


class EndsCalls(InProcessJobs):
    """Each `Killed` stands for the end of its worker's process."""

    def __init__(self, store):
        super().__init__(store=store, losses=(Killed,))


def test_who_is_left_out_is_shown_by_the_run_the_page_and_the_report():
    store = new_store()
    driver = make_driver(two_spouts("ack", FOR_EVER), store=store, jobs=EndsCalls(store)).start()
    for _ in range(8):
        driver.step()
    task = driver.plan.tasks("bad")[0]
    (said,) = WaitFigures.of(driver.totals).sentences
    pattern = rf"spout 'bad', task {task}, is left out since .* UTC: ack ends its process"
    assert re.fullmatch(pattern, said)
    assert report_of(driver, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").message == said
    now = Snapshot.of(driver.totals)
    (shown,) = TopologyJson(now, now, []).json()["waits"]
    assert (shown["kind"], shown["component"], shown["sentence"]) == ("left_out", "bad", said)
    assert next(waits_of_drain(driver.totals, {})) == said
    driver.close()
