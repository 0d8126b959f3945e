"""How pods end, and what that asks for."""

from datetime import UTC, datetime, timedelta

import pytest

from fulmen.kube.contract.endings import Ended
from fulmen_operator.model import text_of, time_of
from fulmen_operator.reconcile.pod_states import Next, death_of, ending_of, report_of, waiting_for

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
EARLIER, LATER = "2026-01-01T11:59:00Z", "2026-01-01T12:01:00Z"

DELETED = {"name": "p", "deletionTimestamp": LATER}


def pod(status=None, **meta):
    return {"metadata": {"name": "p", **meta}, "status": status or {}}


def exited(code, message="", reason="Error", **status):
    terminated = {"exitCode": code, "reason": reason, "finishedAt": EARLIER, "message": message}
    states = [{"name": "driver", "state": {"terminated": terminated}}]
    return pod({"phase": "Failed" if code else "Succeeded", "containerStatuses": states, **status})


def said(reason, message="words"):
    return Ended(reason=reason, message=message).to_json()


def disrupted(reason):
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


ENDINGS = [
    pytest.param(exited(0, said("Drained")), Next.AT_ONCE, "Drained", id="drained"),
    pytest.param(exited(0), Next.AT_ONCE, "Finished", id="finished-without-a-word"),
    pytest.param(exited(2, said("InvalidSpec")), Next.NEVER, "InvalidSpec", id="mistake"),
    pytest.param(exited(2, "usage: …"), Next.NEVER, "InvalidSpec", id="mistake-without-a-word"),
    pytest.param(exited(3, said("CheckpointLost")), Next.NEVER, "CheckpointLost", id="lost"),
    pytest.param(
        exited(3, said("CheckpointMismatch")), Next.NEVER, "CheckpointMismatch", id="other"
    ),
    pytest.param(
        exited(3, said("CheckpointUnusable")), Next.LATER, "CheckpointUnusable", id="damaged"
    ),
    pytest.param(
        exited(3, said("CheckpointUnreachable")), Next.LATER, "CheckpointUnreachable", id="away"
    ),
    pytest.param(exited(4, said("Fenced")), Next.LATER, "Fenced", id="fenced"),
    pytest.param(exited(1, said("Error")), Next.LATER, "Error", id="error"),
    pytest.param(exited(137, "", "OOMKilled"), Next.LATER, "OOMKilled", id="out-of-memory"),
    pytest.param(
        {**exited(143, said("Terminated")), "metadata": DELETED},
        Next.AT_ONCE,
        "Terminated",
        id="deleted",
    ),
    pytest.param(exited(143, said("Terminated")), Next.LATER, "ProbeFailed", id="no-answer"),
    pytest.param(
        exited(143, **disrupted("EvictionByEvictionAPI")),
        Next.AT_ONCE,
        "EvictionByEvictionAPI",
        id="drained-node",
    ),
    pytest.param(
        pod({"phase": "Failed", "reason": "Evicted"}), Next.AT_ONCE, "Evicted", id="evicted"
    ),
    pytest.param(
        pod({"phase": "Failed", "reason": "UnexpectedAdmissionError"}),
        Next.LATER,
        "UnexpectedAdmissionError",
        id="refused-by-the-kubelet",
    ),
    pytest.param(
        pod({"phase": "Running", **disrupted("DeletionByTaintManager")}, deletionTimestamp=LATER),
        Next.AT_ONCE,
        "DeletionByTaintManager",
        id="dead-node",
    ),
    pytest.param(
        pod({"phase": "Running"}, deletionTimestamp=EARLIER), Next.AT_ONCE, "PodLost", id="overdue"
    ),
]


@pytest.mark.parametrize(("thing", "asks_for", "reason"), ENDINGS)
def test_endings(thing, asks_for, reason):
    ending = ending_of(thing, "driver", NOW)
    assert (ending.next, ending.reason) == (asks_for, reason)
    assert ending.message or reason in ("Finished", "EvictionByEvictionAPI", "InvalidSpec")


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(pod({"phase": "Pending"}), id="pending"),
        pytest.param(pod({"phase": "Running"}), id="running"),
        pytest.param(pod({"phase": "Running"}, deletionTimestamp=LATER), id="told-to-end"),
    ],
)
def test_what_has_not_ended(thing):
    assert ending_of(thing, "driver", NOW) is None


def test_a_sidecar_that_goes_on_does_not_hide_that_the_driver_has_ended():
    thing = exited(1, said("Error"))
    thing["status"]["phase"] = "Running"
    assert ending_of(thing, "driver", NOW).next is Next.LATER


def test_the_last_line_of_the_log_stands_in_for_a_message():
    assert ending_of(exited(1, "a\nb: last words\n\n"), "driver", NOW).message == "b: last words"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({"phase": "Running"}, None, id="runs"),
        pytest.param({"phase": "Pending"}, None, id="begins"),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes",
                    }
                ],
            },
            ("Unschedulable", "p: 0/3 nodes"),
            id="unschedulable",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": [
                    {
                        "name": "driver",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}},
                    }
                ],
            },
            ("ImagePullBackOff", "p: no"),
            id="pull",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    {"name": "init", "state": {"waiting": {"reason": "ErrImagePull"}}}
                ],
                "containerStatuses": [
                    {"name": "driver", "state": {"waiting": {"reason": "PodInitializing"}}}
                ],
            },
            ("ImagePullBackOff", "p: ErrImagePull"),
            id="pull-init",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}
                ],
            },
            None,
            id="creating",
        ),
    ],
)
def test_what_a_pod_waits_for(status, words):
    assert waiting_for(pod(status), NOW) == words


def test_no_report():
    assert report_of(pod()) is None


def mounting(since, ready="False", **volume):
    conditions = [
        {"type": "PodReadyToStartContainers", "status": ready, "lastTransitionTime": since},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
    ]
    found = pod({"phase": "Pending", "conditions": conditions})
    return {**found, "spec": {"volumes": [{"name": "x", **volume}]}}


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        pytest.param({"configMap": {"name": "models"}}, "ConfigMap 'models'", id="config-map"),
        pytest.param({"secret": {"secretName": "creds"}}, "Secret 'creds'", id="secret"),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "a"}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                        {"configMap": {"name": "b", "optional": True}},
                        {"serviceAccountToken": {"path": "token"}},
                    ]
                }
            },
            "Secret 'a'",
            id="projected",
        ),
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, "claim 'c'", id="claim"),
        pytest.param({"emptyDir": {}}, "none that could be missing", id="nothing"),
    ],
)
def test_volumes_that_are_not_mounted_after_some_seconds_are_told(volume, words):
    reason, message = waiting_for(mounting("2026-01-01T11:59:50Z", **volume), NOW)
    assert reason == "VolumesNotMounted"
    assert f"What they need: {words}. " in message


def test_volumes_have_some_seconds_and_are_no_matter_any_more_when_they_are_mounted():
    assert waiting_for(mounting("2026-01-01T11:59:51Z"), NOW) is None
    assert waiting_for(mounting("2026-01-01T11:00:00Z", ready="True"), NOW) is None


def test_an_init_container_that_fails_is_named_with_its_last_words():
    terminated = {"exitCode": 3, "reason": "Error", "message": "fetching\nno such bucket\n"}
    states = [
        {"name": "first", "state": {"terminated": {"exitCode": 0}}},
        {"name": "fetch", "state": {"terminated": terminated}},
    ]
    waiting = [{"name": "driver", "state": {"waiting": {"reason": "PodInitializing"}}}]
    status = {"phase": "Failed", "initContainerStatuses": states, "containerStatuses": waiting}
    found = ending_of(pod(status), "driver", NOW)
    said = "p: its init container 'fetch' ended with exit code 3: no such bucket"
    assert (found.next, found.message) == (Next.LATER, said)


@pytest.mark.parametrize("minutes", [-7, 0, 7])
def test_when_a_container_ended_is_told_by_the_control_planes_clock(minutes):
    """Its node's is off, which shows in when both say that the pod came to the node."""
    off = timedelta(minutes=minutes)
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2026-01-01T11:50:00Z",
    }
    found = exited(
        1, conditions=[scheduled], startTime=text_of(time_of("2026-01-01T11:50:01Z") + off)
    )
    terminated = found["status"]["containerStatuses"][0]["state"]["terminated"]
    terminated["finishedAt"] = text_of(time_of(EARLIER) + off)
    assert ending_of(found, "driver", NOW).at == time_of("2026-01-01T11:58:59Z")


def test_no_container_has_ended_in_the_future():
    """Otherwise the pause before the next driver would last until then."""
    found = exited(1)
    state = found["status"]["containerStatuses"][0]["state"]["terminated"]
    state["finishedAt"] = LATER
    assert ending_of(found, "driver", NOW).at == NOW


def ended(name, code, message="", at=EARLIER, reason="Error"):
    terminated = {"exitCode": code, "reason": reason, "finishedAt": at, "message": message}
    return {"name": name, "state": {"terminated": terminated}}


WORKER, SIDECAR = ended("worker", 137, at=LATER), ended("proxy", 1, "no upstream\n")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(
            {"containerStatuses": [WORKER, SIDECAR]},
            "its container 'proxy' ended with exit code 1: no upstream",
            id="sidecar-first",
        ),
        pytest.param(
            {"containerStatuses": [ended("worker", 2, said("InvalidSpec", "another SHA-256"))]},
            "its container 'worker' ended with exit code 2: another SHA-256",
            id="what-it-said",
        ),
        pytest.param(
            {"containerStatuses": [ended("worker", 137, "a line of Java", reason="OOMKilled")]},
            "its container 'worker' ended with exit code 137: it ran out of memory. If it repeats,"
            " raise its memory limit",
            id="out-of-memory",
        ),
        pytest.param(
            {"initContainerStatuses": [ended("fetch", 128, reason="StartError")]},
            "its init container 'fetch' ended with exit code 128: StartError",
            id="never-ran",
        ),
        pytest.param(
            {"reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"},
            "Node didn't have enough resource: cpu",
            id="refused-by-the-kubelet",
        ),
        pytest.param(
            {**disrupted("PreemptionByScheduler"), "containerStatuses": [WORKER]},
            "PreemptionByScheduler",
            id="preempted",
        ),
    ],
)
def test_why_a_workers_pod_has_failed_is_told_of_the_container_that_failed_first(status, words):
    assert death_of(pod({"phase": "Failed", **status})) == f"p: {words}"


def test_a_sidecar_that_is_restarted_is_told_with_its_last_words():
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
    proxy = {"name": "proxy", "state": state, "lastState": SIDECAR["state"]}
    found = waiting_for(pod({"phase": "Pending", "initContainerStatuses": [proxy]}), NOW)
    said = "p: back-off 10s restarting; it ended with exit code 1: no upstream"
    assert found == ("CrashLoopBackOff", said)
