"""What a driver reports: which pods its workers are, and what there is room for."""

import threading
from bisect import bisect_right

import pytest

from fulmen.kube.contract import (
    REPORT_ANNOTATION,
    REPORT_BYTES,
    WORKER_LABEL,
    Hosted,
    Phase,
    Report,
    ReportedError,
)
from fulmen.kube.reporting import (
    ERROR_CHARACTERS,
    ERRORS_REPORTED,
    Reporter,
    WorkerPods,
    fitting,
)

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
    return Report(phase=Phase.ACTIVE, generation=1, workers=tuple(hosted), errors=tuple(errors))


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


def test_then_all_of_them():
    whole = largest(())
    assert fitting(whole) == whole.model_copy(update={"errors": ()})


@pytest.mark.parametrize(("workers", "executors"), [(1000, 1), (1000, 100)])
def test_then_executors_and_pods_are_always_said(workers, executors):
    whole = report(workers, executors)
    found = fitting(whole)
    assert [(h.worker, h.pod) for h in found.workers] == [(h.worker, h.pod) for h in whole.workers]
    assert size(found) < ANNOTATIONS_BYTES / 2


# ---- what is written to pods -------------------------------------------------------------------


class FakeApi:
    """Some worker pods with these addresses, and what was written to pods."""

    def __init__(self, *addresses):
        self.addresses = addresses
        self.patches = []

    def pods(self, selector):
        return [
            {"metadata": {"name": f"pod-{n}"}, "status": {"podIP": address}}
            for n, address in enumerate(self.addresses)
        ]

    def patch_pod(self, name, change):
        self.patches.append((name, change["metadata"]))


def test_a_report_that_could_not_be_made_is_not_the_last_one():
    api, failed = FakeApi(), threading.Event()

    def make():
        if not failed.is_set():
            failed.set()
            raise KeyError("x")
        return report(1)

    reporter = Reporter(api, "driver", make)
    reporter.start()
    assert failed.wait(10)
    reporter.stop()
    assert api.patches == [("driver", {"annotations": {REPORT_ANNOTATION: report(1).to_json()}})]


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
        ("pod-1", {"labels": {WORKER_LABEL: "0"}}),
        ("pod-0", {"labels": {WORKER_LABEL: "2"}}),
    ]
