"""States and conditions, as tools that wait for resources read them; and the size of it all."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from fulmen.kube.contract.reports import DriverPhase, Hosted, Report, ReportedError
from fulmen.kube.contract.revisions import Directive, Revision
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.status import Condition, Placement, TopologyStatus
from fulmen_operator.model import DecisionRefusal, Observed
from fulmen_operator.reconcile.conditions import Facts, conditions
from fulmen_operator.reconcile.rollout import Verdict
from fulmen_operator.reconcile.status import new_status, read_status, written
from fulmen_operator.reconcile.step import Overdue, Stall, Step
from support.cli.documents import word_count

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REVISION = Revision(generation=2, topology={})
ACCEPTED = Verdict(REVISION, "True", "Accepted", "")
REFUSED = Verdict(REVISION, "False", "InvalidSpec", "(1) bad")
CHECKING = Verdict(REVISION, "Unknown", "Checking", "a preflight")
ROWS = (Placement(worker=0, pod="w", planned=("a[1-1]",), executors=("a[1-1]",)),)


def report(generation=2, phase=DriverPhase.ACTIVE):
    return Report(phase=phase, generation=generation)


def step(state, reason="", **more):
    return Step(state, reason or state, "words", Directive.RUN, 1, **more)


def told(verdict, what, rows=ROWS, before=(), refusal=None):
    facts = Facts(2, verdict, what, 1, 1, rows)
    return {c.type: c for c in conditions(before, facts, NOW, refusal)}


BACKING_OFF = step("Pending", "OOMKilled")
CASES = [
    # what is done, what became of the spec -> Ready, Reconciling, Stalled, SpecAccepted, Placed
    pytest.param(
        step("Active", report=report()),
        ACCEPTED,
        "True/Active False/AsExpected False/AsExpected True/Accepted True/AsPlanned",
        id="active",
    ),
    pytest.param(
        step("Active", report=report(generation=1).model_copy(update={"refused": "a join"})),
        ACCEPTED,
        "True/Active False/AsExpected True/CheckpointMismatch True/Accepted True/AsPlanned",
        id="change-refused",
    ),
    pytest.param(
        step("Inactive", report=report()),
        ACCEPTED,
        "True/Inactive False/AsExpected False/AsExpected True/Accepted True/AsPlanned",
        id="inactive",
    ),
    pytest.param(
        step("Suspended"),
        ACCEPTED,
        "True/Suspended False/AsExpected False/AsExpected True/Accepted False/Suspended",
        id="suspended",
    ),
    pytest.param(
        step("Pending"),
        ACCEPTED,
        "False/Pending True/Pending False/AsExpected True/Accepted False/Pending",
        id="pending",
    ),
    pytest.param(
        step("Starting"),
        ACCEPTED,
        "False/Starting True/Starting False/AsExpected True/Accepted False/Starting",
        id="starting",
    ),
    pytest.param(
        step("Rebalancing", report=report()),
        ACCEPTED,
        "False/Rebalancing True/Rebalancing False/AsExpected True/Accepted True/AsPlanned",
        id="rebalancing",
    ),
    pytest.param(
        step("Draining", "Replacing", report=report()),
        ACCEPTED,
        "False/Replacing True/Draining False/AsExpected True/Accepted False/Draining",
        id="draining",
    ),
    pytest.param(
        step("Failed", "CheckpointLost", does=Stall()),
        ACCEPTED,
        "False/CheckpointLost False/AsExpected True/CheckpointLost True/Accepted False/Failed",
        id="failed",
    ),
    pytest.param(
        BACKING_OFF,
        ACCEPTED,
        "False/OOMKilled True/Pending False/AsExpected True/Accepted False/Pending",
        id="backing-off",
    ),
    pytest.param(
        step("Pending", does=Overdue(("ErrImagePull", "no"))),
        ACCEPTED,
        "False/ErrImagePull True/Pending False/AsExpected True/Accepted False/ErrImagePull",
        id="no-image",
    ),
    pytest.param(
        step("Active", report=report()),
        CHECKING,
        "True/Active True/Checking False/AsExpected Unknown/Checking True/AsPlanned",
        id="checking",
    ),
    pytest.param(
        step("Active", report=report()),
        REFUSED,
        "True/Active False/AsExpected True/InvalidSpec False/InvalidSpec True/AsPlanned",
        id="refused",
    ),
    pytest.param(
        step("Active", report=report(generation=1)),
        ACCEPTED,
        "True/Active True/Applying False/AsExpected True/Accepted True/AsPlanned",
        id="applying",
    ),
    pytest.param(
        None,
        Verdict(None, "False", "InvalidSpec", "bad"),
        "False/InvalidSpec False/AsExpected True/InvalidSpec False/InvalidSpec False/NotAccepted",
        id="never-accepted",
    ),
]


@pytest.mark.parametrize(("what", "verdict", "expected"), CASES)
def test_conditions(what, verdict, expected):
    found = told(verdict, what)
    order = ("Ready", "Reconciling", "Stalled", "SpecAccepted", "Placed")
    assert " ".join(f"{found[kind].status}/{found[kind].reason}" for kind in order) == expected


def test_ready_is_about_the_generation_that_runs():
    found = told(ACCEPTED, step("Active", report=report(generation=1)))
    assert found["Ready"].observed_generation == 1
    assert found["Reconciling"].observed_generation == 2


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Placement(worker=0, planned=("a[1-1]",)), "WorkersMissing"),
        (Placement(worker=0, pod="w", planned=("a[1-1]",), executors=("a[2-2]",)), "Moving"),
    ],
)
def test_placement_that_is_not_as_planned(row, reason):
    assert told(ACCEPTED, step("Active", report=report()), (row,))["Placed"].reason == reason


def test_a_refusal_of_the_servers_is_told_in_its_words():
    found = told(ACCEPTED, step("Starting"), refusal=DecisionRefusal("Refused", "exceeded quota"))
    ready, placed = found["Ready"], found["Placed"]
    assert (ready.reason, ready.message) == ("Refused", "exceeded quota")
    assert (placed.reason, placed.message) == (
        "Refused",
        "no worker hosts anything; exceeded quota",
    )


def test_the_time_of_a_condition_is_when_its_status_changed():
    earlier = "2025-01-01T00:00:00Z"
    old = [
        Condition(type=kind, status=status, reason="Old", observed_generation=1,
                  last_transition_time=earlier)
        for kind, status in [("Ready", "True"), ("Stalled", "True")]
    ]  # fmt: skip
    found = told(ACCEPTED, step("Active", report=report()), before=old)
    assert found["Ready"].last_transition_time == earlier
    assert found["Stalled"].last_transition_time == "2026-01-01T00:00:00Z"


def test_a_status_of_another_version_is_read_as_far_as_it_is_known():
    status = read_status({"attempt": 4, "fromTheFuture": 1, "epoch": "what?"})
    assert (status.attempt, status.epoch) == (4, 0)
    assert read_status(None) == TopologyStatus()


def large(name, executors, workers, same):
    """The status of a topology of many executors with long names, and errors."""
    changes = {
        "spec.bolts.0.name": name,
        "spec.bolts.1.inputs.0.from": name,
        "spec.workers": workers,
    }
    changes |= {"spec.bolts.0.parallelism": executors, "metadata.namespace": "blue"}
    changes |= {"metadata.uid": "u", "metadata.generation": 1}
    topology = parse(word_count(changes))
    seen = Observed(word_count(changes), NOW + timedelta(days=1))
    fresh = new_status(seen, TopologyStatus(), ACCEPTED, step("Active", report=report()), topology)
    hosted = [
        Hosted(worker=row.worker, pod=f"word-count-1-exec-{row.worker}", executors=executors)
        for row in fresh.assignment
        for executors in [row.planned if same else row.planned[1:]]
    ]
    errors = [ReportedError(component=name, task=1, message="x" * 5000, time=1.0)] * 50
    planned = tuple(Hosted(worker=r.worker, executors=r.planned) for r in fresh.assignment)
    said = Report(
        phase=DriverPhase.ACTIVE,
        generation=1,
        workers=tuple(hosted),
        planned=planned,
        errors=tuple(errors),
    )
    return written(
        new_status(seen, TopologyStatus(), ACCEPTED, step("Active", report=said), topology)
    )


@pytest.mark.parametrize("same", [True, False], ids=["as-planned", "moving"])
@pytest.mark.parametrize("workers", [1, 100, 1000])
@pytest.mark.parametrize("length", [5, 63])
def test_a_thousand_executors_stay_below_100_kib(length, workers, same):
    status = large("x" * length, 1000, workers, same)
    assert len(json.dumps(status).encode()) < 100 * 1024
    assert len(status["errors"]) == 10
    assert (status["executors"], status["workers"]["desired"]) == (1000 + 3 + workers, workers)


def test_planned_and_observed_are_both_told_if_there_is_room():
    status = large("split", 20, 4, same=True)
    assert all(row["planned"] == row["executors"] for row in status["assignment"])
    assert status["assignmentTruncated"] is False


def rows_of(report):
    raw = word_count({"metadata.namespace": "blue", "metadata.uid": "u", "metadata.generation": 2})
    topology = parse(word_count({}))
    seen = Observed(raw, NOW)
    found = new_status(seen, TopologyStatus(), ACCEPTED, step("Active", report=report), topology)
    return [(row.worker, row.planned, row.executors) for row in found.assignment]


HOSTED = (Hosted(worker=-1, executors=("a[1-1]",)), Hosted(worker=0, executors=("b[2-2]",)))


def test_what_is_planned_is_what_the_driver_has_planned():
    said = report().model_copy(update={"workers": HOSTED, "planned": ()})
    assert rows_of(said) == [(-1, ("a[1-1]",), ("a[1-1]",)), (0, ("b[2-2]",), ("b[2-2]",))]


def test_while_a_worker_is_missing_both_placements_are_told():
    whole = (*HOSTED[:1], Hosted(worker=0), Hosted(worker=1, executors=("b[2-2]",)))
    said = report().model_copy(update={"workers": HOSTED, "planned": whole})
    assert rows_of(said) == [
        (-1, ("a[1-1]",), ("a[1-1]",)),
        (0, (), ("b[2-2]",)),
        (1, ("b[2-2]",), ()),
    ]


@pytest.mark.parametrize("change", [{"workers": ()}, {"generation": 1}], ids=["start", "change"])
def test_of_what_no_driver_has_planned_yet_the_operator_tells_its_own(change):
    said = report().model_copy(update={"workers": HOSTED[1:], **change})
    told = {worker: planned for worker, planned, _ in rows_of(said)}
    assert [name.partition("[")[0] for name in told[0]][:2] == ["__acker", "count"]


@pytest.mark.parametrize(("pods", "ready"), [(0, 0), (1, 2), (2, 4), (3, 5)])
def test_workers_that_share_pods_are_counted_and_have_slots(pods, ready):
    """Five workers need three pods of two slots; one slot of the last is nobody's."""
    changes = {"spec.workers": 5, "spec.slots": 2, "metadata.namespace": "blue"}
    document = word_count({**changes, "metadata.uid": "u", "metadata.generation": 1})
    earlier = worker_pod(9, attempt="0")
    seen = Observed(document, NOW, pods=(earlier, *map(worker_pod, range(pods))))
    status = new_status(seen, TopologyStatus(), ACCEPTED, step("Active"), parse(document))
    assert (status.workers.desired, status.workers.ready) == (5, ready)
    assert [(row.worker, row.slot) for row in status.assignment] == [
        (0, 0), (1, 1), (2, 0), (3, 1), (4, 0)
    ]  # fmt: skip


def worker_pod(number, attempt="1"):
    labels = {"app.kubernetes.io/component": "worker", "fulmen.dev/attempt": attempt}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    return {"metadata": {"name": f"pod-{number}", "labels": labels}, "status": ready}
