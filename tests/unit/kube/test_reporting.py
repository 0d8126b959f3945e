"""What a driver's report leaves out where there is no room for it."""

from bisect import bisect_right

import pytest

from fulmen.kube.contract import REPORT_BYTES, Hosted, Phase, Report, ReportedError
from fulmen.kube.reporting import ERROR_CHARACTERS, ERRORS_REPORTED, fitting

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
