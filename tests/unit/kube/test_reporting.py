"""What a driver reports: which pods its workers are, and what there is room for."""

import threading
from bisect import bisect_right

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_section
from fulmen.kube.contract import REPORT_ANNOTATION, REPORT_BYTES, WORKER_LABEL
from fulmen.kube.contract.reports import (
    DriverPhase,
    Hosted,
    Report,
    ReportedError,
    ReportedSavepoints,
)
from fulmen.kube.driver.reporting import (
    ERROR_CHARACTERS,
    ERRORS_REPORTED,
    HEAD_FAILURES,
    Reporter,
    WorkerPods,
    fitting,
    report_of,
    savepoints_of,
)
from fulmen.testing import CollectBolt, ListSpout
from support.runs.engine_runs import make_driver
from support.transactions.transacted import PLAIN, transacted_driver

ANNOTATIONS_BYTES = 256 * 1024
"""As much as Kubernetes takes of all annotations of an object."""


def report(workers, executors=2):
    """Of so many workers, each with so many executors, names as long as may be, and errors."""
    topology = "t" * 40
    hosted = [
        Hosted(
            worker=n,
            pod=f"{topology}-12345-exec-{n + 10_000}",
            executors=tuple(f"component-{e}[{n * executors + e}]" for e in range(executors)),
        )
        for n in range(workers)
    ]
    errors = [
        ReportedError(component="c", task=n, message="x" * ERROR_CHARACTERS, time=float(n))
        for n in range(ERRORS_REPORTED)
    ]
    return Report(
        phase=DriverPhase.ACTIVE, generation=1, workers=tuple(hosted), errors=tuple(errors)
    )


def size(some_report):
    return len(some_report.to_json().encode())


def test_with_few_workers_all_is_said():
    assert fitting(report(100)) == report(100)


def largest(errors):
    """The largest one for which there is room if only so many errors are told."""
    too_many = bisect_right(
        range(1000),
        REPORT_BYTES,
        key=lambda n: size(report(n).model_copy(update={"errors": errors})),
    )
    return report(too_many - 1)


def test_errors_go_first_but_for_the_newest():
    whole = largest(report(0).errors[:1])
    assert size(whole) > REPORT_BYTES
    assert fitting(whole) == whole.model_copy(update={"errors": whole.errors[:1]})


def test_all_errors_go_before_anything_else():
    whole = largest(())
    assert fitting(whole) == whole.model_copy(update={"errors": ()})


def test_the_plan_goes_before_what_workers_do_and_the_operator_still_reads_the_report():
    whole = largest(()).model_copy(update={"errors": ()})
    found = fitting(whole.model_copy(update={"planned": whole.workers}))
    assert found == Report.from_json(found.to_json()) == whole


@pytest.mark.parametrize(("workers", "executors"), [(1000, 1), (1000, 100)])
def test_pods_are_always_said_and_a_report_fits(workers, executors):
    whole = report(workers, executors)
    found = fitting(whole)
    assert [(h.worker, h.pod) for h in found.workers] == [(h.worker, h.pod) for h in whole.workers]
    assert size(found) < ANNOTATIONS_BYTES / 2


# ---- what is written to pods -------------------------------------------------------------------


OWN_POD = {"metadata": {"name": "driver", "uid": "uid"}}


class FakeApi:
    """Some worker pods with these addresses, and what was written to pods."""

    def __init__(self, *addresses):
        self.addresses = addresses
        self.patches = []

    def pods(self, selector):
        return [
            {"metadata": {"name": f"pod-{n}", "uid": f"uid-{n}"}, "status": {"podIP": address}}
            for n, address in enumerate(self.addresses)
        ]

    def patch_pod(self, name, uid, metadata):
        self.patches.append((name, uid, metadata))


def test_a_report_that_could_not_be_made_is_not_the_last_one():
    api, failed = FakeApi(), threading.Event()

    def make():
        if not failed.is_set():
            failed.set()
            raise KeyError("x")
        return report(1)

    reporter = Reporter(api, OWN_POD, make)
    reporter.start()
    assert failed.wait(10)
    reporter.stop()
    written = {"annotations": {REPORT_ANNOTATION: report(1).to_json()}}
    assert api.patches == [("driver", "uid", written)]


def test_what_is_planned_is_said_while_workers_are_missing():
    builder = TopologyBuilder(workers=2)
    builder.set_spout("source", ListSpout([]), 2)
    builder.set_bolt("sink", CollectBolt, 2).shuffle_grouping("source")
    driver = make_driver(builder).start()
    whole = report_of(driver, DriverPhase.ACTIVE, 1, [0, 1], {}, "driver", "")
    assert (len(whole.workers), whole.planned) == (2, ())
    driver.planner.replan([0])
    less = report_of(driver, DriverPhase.ACTIVE, 1, [0], {0: "pod"}, "driver", "")
    assert less.planned == whole.workers
    assert len(less.workers[0].executors) == sum(len(h.executors) for h in whole.workers)
    driver.close()


def test_the_newest_savepoint_is_said_and_what_is_wrong_with_any():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([]))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    driver = make_driver(builder).start()
    assert savepoints_of(driver) == ReportedSavepoints()
    pins = {"b": Pin(4, 20.0, "newest"), "a": Pin(3, 30.0)}
    section = {PINS: pins_section(pins)}
    driver.log.commit(driver.log.draft(tag="t", clock=0.0, sections=section, full=True))
    driver.committer.savepoints.trouble = "an order"
    newest = ReportedSavepoints(count=2, name="b", commit=3, time=20.0, why="newest")
    assert savepoints_of(driver) == newest.model_copy(update={"trouble": "an order"})
    driver.committer.savepoints.trouble = ""
    driver.committer.collect()  # these savepoints are of no commit with a manifest
    driver.close()
    assert "can't be read" in savepoints_of(driver).trouble


def test_a_transactional_topology_says_where_its_emitters_are():
    driver = transacted_driver(workers=2).start()
    whole = report_of(driver, DriverPhase.ACTIVE, 1, [0, 1], {}, "driver", "")
    executors = [name for hosted in whole.workers for name in hosted.executors]
    assert sorted(name.partition("[")[0] for name in executors) == ["count", "count", "rows", "sum"]
    assert whole.tasks == {"rows": 1, "count": 2, "sum": 1}
    driver.close()


def test_a_transaction_that_fails_again_and_again_is_said():
    driver = transacted_driver([PLAIN, "fail always"], max_replays=None).start()
    said = []
    while driver.totals.transactions.head_failures < HEAD_FAILURES:
        said.append(report_of(driver, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").message)
        driver.step()
        driver.clocks.steady.advance(5.0)  # failed transactions wait
    assert set(said) == {""}
    assert report_of(driver, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").message == (
        "transaction 2 fails again and again: fail always, as it was told"
    )
    other = report_of(driver, DriverPhase.ACTIVE, 1, [0], {}, "driver", "something else")
    assert other.message == "something else"
    driver.close()


def said(reports, seconds):
    """The batches of those reports that are written, one of them being made every 5 seconds."""
    api, now = FakeApi(), iter(range(0, 10_000, 5))
    made, times = iter(reports), {"now": 0}
    reporter = Reporter(api, OWN_POD, lambda: next(made), lambda: times["now"])
    for _ in range(0, seconds, 5):
        times["now"] = next(now)
        reporter.write()
    texts = [metadata["annotations"][REPORT_ANNOTATION] for *_, metadata in api.patches]
    return [Report.from_json(text).batch for text in texts]


def of_batch(number, **others):
    return report(1).model_copy(update={"batch": number, **others})


def test_what_changes_with_every_batch_costs_three_calls_a_minute():
    errors = [
        ReportedError(component="c", task=1, message="no such key", time=float(n), count=n)
        for n in range(60)
    ]
    reports = [of_batch(100 + n, errors=(errors[n],)) for n in range(60)]
    assert said(reports, 120) == [100, 104, 108, 112, 116, 120]


def test_what_does_not_change_is_said_once():
    assert said([of_batch(7)] * 60, 300) == [7]


@pytest.mark.parametrize(
    "change",
    [
        {"phase": DriverPhase.INACTIVE},
        {"generation": 2},
        {"epoch": 3},
        {"workers": ()},
        {"tasks": {"a": 1}},
        {"message": "the checkpoint does not answer"},
        {"errors": (ReportedError(component="c", task=1, message="new", time=1.0),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_matters_is_said_at_once(change):
    assert said([of_batch(7), of_batch(8), of_batch(9, **change), of_batch(10, **change)], 20) == [
        7,
        9,
    ]


def test_the_first_batch_and_the_last_report_do_not_wait():
    assert said([of_batch(0), of_batch(1), of_batch(2)], 15) == [0, 1]
    api, batches = FakeApi(), iter([7, 8])
    reporter = Reporter(api, OWN_POD, lambda: of_batch(next(batches)), lambda: 0.0)
    reporter.write()
    reporter.write(is_last=True)
    assert len(api.patches) == 2


def test_workers_that_share_a_pod_are_in_its_label():
    api = FakeApi("10.0.0.7", "10.0.0.8")
    hosts = ["10.0.0.8", "10.0.0.8", "10.0.0.7"]
    assert WorkerPods(api, "shop-1").names(hosts) == {0: "pod-1", 1: "pod-1", 2: "pod-0"}
    assert api.patches == [
        ("pod-1", "uid-1", {"labels": {WORKER_LABEL: "0-1"}}),
        ("pod-0", "uid-0", {"labels": {WORKER_LABEL: "2"}}),
    ]


@pytest.mark.parametrize(
    ("addresses", "hosts"),
    [
        pytest.param(["10.0.0.7", "10.0.0.8"], ["10.0.0.8", None, "10.0.0.7"], id="ipv4"),
        pytest.param(["fd00::7", "fd00::8"], ["[fd00::8]", None, "[fd00::7]"], id="ipv6"),
    ],
)
def test_workers_pods_are_found_by_their_addresses(addresses, hosts):
    api = FakeApi(*addresses)
    assert WorkerPods(api, "shop-1").names(hosts) == {0: "pod-1", 2: "pod-0"}
    assert api.patches == [
        ("pod-1", "uid-1", {"labels": {WORKER_LABEL: "0"}}),
        ("pod-0", "uid-0", {"labels": {WORKER_LABEL: "2"}}),
    ]


def test_a_pod_that_has_taken_a_lost_ones_place_is_looked_up():
    api = FakeApi("10.0.0.7")
    pods = WorkerPods(api, "shop-1")
    assert pods.names(["10.0.0.7"]) == {0: "pod-0"}
    api.addresses = ("10.0.0.7", "10.0.0.8")  # a pod whose JVM was killed is still there
    assert pods.names(["10.0.0.8"]) == {0: "pod-1"}
