"""What the operator does with a number of workers that follows the load."""

import pytest

from fulmen.kube.contract.reports import Report
from fulmen.kube.load import ComponentLoad, Load, StageLoad
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE

SCALE = {"minWorkers": 1, "maxWorkers": 4}
GIVEN = {
    **CODE,
    "spec.autoscale": SCALE,
    "spec.workers": 1,
    "spec.bolts.0.parallelism": 1,
    "spec.bolts.0.numTasks": 8,
}


def load_of(work):
    """A load of so many seconds of work in each second, evenly divided among its workers."""

    def load(workers):
        split = ComponentLoad(name="split", seconds=work, busiest=work / 8, tasks=8, active=8)
        stage = StageLoad(slowest=work / workers, workers=work, components=(split,))
        return Load(workers=workers, stages=(stage,), tuples=100.0)

    return load


def scaling(changes=None, work=0.1):
    """A cluster with a topology that scales itself, and has so much work."""
    cluster = FakeCluster({**GIVEN, **(changes or {})})
    cluster.load = load_of(work)
    cluster.settle()
    assert cluster.status["state"] == "Active"
    return cluster


def after(cluster, seconds):
    """So much later, when everything has come to rest."""
    cluster.later(seconds)
    cluster.settle()
    return cluster


def chosen(cluster):
    """What the status says, what the driver runs with, and what the spec says."""
    executors = cluster.running.component("split").parallelism
    number = cluster.status["autoscale"]["workers"]
    assert number == cluster.running.spec.workers == cluster.status["workers"]["desired"]
    return number, executors, cluster.topology["spec"]["workers"]


@pytest.fixture(scope="module")
def made():
    return scaling()


@pytest.fixture
def cluster(made):
    return made.copy()


def test_more_work_for_a_minute_makes_more_workers_with_executors_and_less_makes_fewer(cluster):
    assert chosen(cluster) == (1, 1, 1)
    attempt = cluster.status["attempt"]
    cluster.load = load_of(1.6)
    cluster.settle()
    assert chosen(after(cluster, 59)) == (1, 1, 1)
    assert chosen(after(cluster, 1)) == (2, 2, 1)
    after(cluster, 1)  # the driver says what it measured
    assert chosen(after(cluster, 61)) == (3, 3, 1)
    cluster.load = load_of(0.1)
    cluster.settle()
    assert chosen(after(cluster, 600)) == (1, 1, 1)
    assert cluster.status["attempt"] == attempt
    assert cluster.condition("SpecAccepted")["status"] == "True"
    assert cluster.events().count("Scaled") == 3


def test_another_operator_goes_on_where_the_last_one_stopped(cluster):
    cluster.load = load_of(1.6)
    cluster.settle()
    cluster.later(30)
    cluster = cluster.copy()
    cluster.settle()
    assert chosen(after(cluster, 30)) == (2, 2, 1)


def test_a_number_that_was_chosen_survives_an_operator_that_dies_before_the_driver_knows(cluster):
    cluster.load = load_of(1.6)
    cluster.settle()
    cluster.later(60)
    cluster.api.refusals["word-count-revision"] = (500, "not now")
    with pytest.raises(Exception, match="not now"):
        cluster.reconcile()
    assert cluster.status["autoscale"]["workers"] == 2
    assert cluster.running.spec.workers == 1
    cluster.api.refusals.clear()
    cluster.settle()
    assert chosen(cluster) == (2, 2, 1)


def test_a_number_that_somebody_sets_counts_at_once_and_is_where_it_goes_on(cluster):
    cluster.change({**GIVEN, "spec.workers": 3})
    cluster.settle()
    assert chosen(cluster) == (3, 3, 3)
    assert chosen(after(cluster, 600)) == (1, 1, 3)
    cluster.change({**GIVEN, "spec.workers": 3, "spec.maxSpoutPending": 9})  # not the number
    cluster.settle()
    assert chosen(cluster) == (1, 1, 3)


def test_without_autoscale_there_are_as_many_as_the_spec_says_again(cluster):
    cluster.load = load_of(1.6)
    cluster.settle()
    after(cluster, 60)
    cluster.change({key: value for key, value in GIVEN.items() if key != "spec.autoscale"})
    cluster.settle()
    assert "autoscale" not in cluster.status
    assert cluster.status["workers"]["desired"] == cluster.running.spec.workers == 1


def test_other_limits_count_at_once(cluster):
    cluster.change({**GIVEN, "spec.autoscale": {"minWorkers": 2, "maxWorkers": 4}})
    cluster.settle()
    assert chosen(cluster) == (2, 2, 1)
    assert cluster.status["autoscale"]["lastChange"].endswith("from 2 to 4 workers are allowed now")


def test_hours_with_more_workers_begin_and_end_by_themselves():
    hours = [{"days": ["Thu"], "start": "00:10", "end": "00:50", "minWorkers": 3}]
    cluster = scaling({"spec.autoscale": {**SCALE, "schedule": hours}})  # it is Thursday, midnight
    cluster.load = lambda workers: None
    cluster.settle()
    assert cluster.reconcile() == 601
    assert chosen(after(cluster, 600)) == (3, 3, 1)
    cluster.load = load_of(0.1)
    cluster.settle()
    assert chosen(after(cluster, 2400)) == (3, 3, 1)
    assert chosen(after(cluster, 600)) == (1, 1, 1)


def test_why_there_are_no_more_is_told_once(cluster):
    cluster.load = load_of(40)
    for _ in range(8):
        cluster.settle()
        after(cluster, 61)
    assert chosen(cluster)[0] == 4
    assert cluster.events().count("NotScaled") == 1
    assert cluster.status["autoscale"]["reason"] == "AtMaximum"


def test_a_load_that_stays_writes_nothing(cluster):
    cluster.load = load_of(0.5)
    cluster.settle()
    before = cluster.state()
    after(cluster, 300)
    assert cluster.state() == before


def test_nobody_asks_what_a_suspended_topology_has_to_do(cluster):
    cluster.load = load_of(1.6)
    cluster.settle()
    cluster.change({**GIVEN, "spec.state": "Suspended"})
    after(cluster, 100)
    assert cluster.status["state"] == "Suspended"
    assert cluster.status["autoscale"]["workers"] == 1


def test_missing_workers_are_waited_for(cluster):
    cluster.load = load_of(1.6)
    cluster.settle()
    after(cluster, 60)
    cluster.load = lambda workers: load_of(1.9)(2)
    driver = cluster.pods("driver")[0]
    cluster.drive(driver)
    said = cluster.pods("driver")[0]["metadata"]["annotations"]["fulmen.dev/report"]
    report = Report.from_json(said)
    lonely = report.model_copy(update={"workers": report.workers[:1]})
    cluster.drive = lambda pod: cluster.say(pod, lonely)
    cluster.settle()
    after(cluster, 100)
    assert cluster.status["autoscale"]["reason"] == "WorkersMissing"
    assert cluster.status["autoscale"]["workers"] == 2
