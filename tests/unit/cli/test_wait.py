"""`fulmen wait`, and when a topology is as its spec asks for."""

import time
from types import SimpleNamespace

import pytest

from fulmen.cli.cluster.topology import Rollout, outcome_of
from fulmen.cli.commands.cluster import wait
from support.cli.fake_kubectl import not_found, topology

DONE = {"Ready": "True", "Reconciling": "False", "Stalled": "False", "SpecAccepted": "True"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.01)


def with_conditions(state="Active", conditions=DONE, reason="R", message="", **settings):
    status = {
        "conditions": [
            {"type": kind, "status": value, "reason": f"{reason}-{kind}", "message": message}
            for kind, value in conditions.items()
        ]
    }
    return topology(state=state, status=status, **settings)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (with_conditions(), Rollout("Ready", "Active")),
        (with_conditions("Suspended", message="no pods"), Rollout("Ready", "Suspended: no pods")),
        (
            with_conditions(generation=2, observed=1),
            Rollout(None, "the operator has not looked at its newest spec yet"),
        ),
        (
            with_conditions("Starting", {**DONE, "Ready": "False", "Reconciling": "True"}),
            Rollout(None, "Starting: R-Ready"),
        ),
        (  # the last good version runs, and the new one is being tried
            with_conditions(conditions={**DONE, "Reconciling": "True", "SpecAccepted": "Unknown"}),
            Rollout(None, "Active: R-SpecAccepted"),
        ),
        (
            with_conditions(conditions={**DONE, "Stalled": "True", "SpecAccepted": "False"}),
            Rollout("Failed", "R-SpecAccepted"),
        ),
        (
            with_conditions(
                "Failed", {**DONE, "Ready": "False", "Stalled": "True"}, message="no checkpoint"
            ),
            Rollout("Failed", "R-Stalled: no checkpoint"),
        ),
        (with_conditions(conditions={**DONE, "Ready": "False"}), Rollout(None, "Active: R-Ready")),
        (topology(), Rollout(None, "Active")),
        (  # the state is not said twice
            topology(
                state="Pending",
                status={
                    "conditions": [
                        {"type": "SpecAccepted", "status": "True", "reason": "Accepted"},
                        {"type": "Ready", "status": "False", "reason": "Pending", "message": "no"},
                    ]
                },
            ),
            Rollout(None, "Pending: no"),
        ),
    ],
)  # fmt: skip
def test_a_topology_is_ready_or_failed_by_its_conditions(found, outcome):
    assert outcome_of(found) == outcome


def test_a_paused_topology_has_not_failed_and_has_an_exit_code_of_its_own(fulmen, kubectl):
    found = with_conditions()
    found["metadata"]["annotations"] = {"fulmen.dev/paused": "true"}
    kubectl.answer(found)
    result = fulmen("wait", "word-count", "-n", "shop")
    assert (result.exit_code, result.stderr) == (
        4,
        "Error: topology 'word-count' is paused: the annotation fulmen.dev/paused keeps it as it"
        " is. `kubectl annotate topology word-count --namespace=shop fulmen.dev/paused-` lets it"
        " go on.\n",
    )


def test_an_interrupt_is_no_failure(fulmen, kubectl, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=interrupted, monotonic=time.monotonic)
    monkeypatch.setattr(wait, "time", clock)  # threads of others sleep on
    kubectl.answer(with_conditions(generation=2, observed=1))
    assert fulmen("wait", "word-count").exit_code == 130


def test_wait_says_what_it_waits_for_as_that_changes(fulmen, kubectl):
    starting = with_conditions("Starting", {**DONE, "Ready": "False", "Reconciling": "True"})
    kubectl.answer(with_conditions(generation=1, observed=0), starting, starting, with_conditions())
    result = fulmen("wait", "word-count")
    assert (result.exit_code, result.stdout) == (0, "topology 'word-count' is ready: Active\n")
    assert result.stderr.splitlines() == [
        "the operator has not looked at its newest spec yet",
        "Starting: R-Ready",
    ]


def test_a_cluster_that_does_not_answer_for_a_while_is_waited_for(fulmen, kubectl):
    young = with_conditions(generation=1, observed=0)
    away = "Unable to connect to the server: dial tcp: i/o timeout"
    kubectl.answer(young, away, away, young, with_conditions())
    result = fulmen("wait", "word-count")
    assert (result.exit_code, result.stdout) == (0, "topology 'word-count' is ready: Active\n")
    looks = "the operator has not looked at its newest spec yet"
    assert result.stderr.splitlines() == [looks, f"the cluster does not answer: {away}."]


def test_a_failure_ends_the_wait(fulmen, kubectl):
    stalled = {**DONE, "Ready": "False", "Stalled": "True"}
    kubectl.answer(with_conditions("Failed", stalled, message="no checkpoint"))
    result = fulmen("wait", "word-count", "--context", "dev")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: topology 'word-count' will not be ready: R-Stalled: no checkpoint."
        " `fulmen why word-count --context=dev` says more.\n",
    )


def test_the_end_of_the_time_has_an_exit_code_of_its_own(fulmen, kubectl):
    kubectl.answer(with_conditions("Pending", {**DONE, "Ready": "False"}, message="no node"))
    result = fulmen("wait", "word-count", "--timeout", "0")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: topology 'word-count' is not ready after 0 s: Pending: R-Ready: no node."
        " `fulmen why word-count` says more.\n",
    )


def test_a_topology_that_is_deleted_meanwhile_ends_the_wait(fulmen, kubectl):
    kubectl.answer(with_conditions(generation=2, observed=1), not_found(), {"items": []})
    assert fulmen("wait", "word-count").exit_code == 2


def test_another_topology_of_that_name_is_not_waited_for(fulmen, kubectl):
    kubectl.answer(with_conditions(generation=2, observed=1), with_conditions(uid="u-2"))
    assert fulmen("wait", "word-count").exit_code == 2
