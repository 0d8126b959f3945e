"""Drivers that end, and pods that do not start: what the operator says and does."""

import pytest

from fulmen.kube.contract.endings import Ended, Mistake
from fulmen.kube.contract.reports import DriverPhase, Hosted, Outage, Report
from fulmen_operator.controller.loop import AGAIN_SECONDS
from fulmen_operator.model import text_of
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary, waiting

# ---- drivers that end


def failed(reason="Error", message="it broke"):
    return Ended(reason=reason, message=message)


def test_a_failed_driver_is_started_again_later_and_later(cluster):
    waits = []
    for attempt in range(1, 9):
        cluster.tick()
        cluster.end(f"word-count-driver-{attempt}", 1, failed(message="it broke."))
        waits.append(cluster.reconcile())
        assert summary(cluster)[0] == "Pending"
        later = f"it broke; the next driver starts {waits[-1]:.0f} s after the end of the last"
        assert cluster.condition("Ready")["message"] == later
        cluster.later(waits[-1])
        cluster.reconcile()
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    assert cluster.status["restarts"]["count"] == 8
    assert cluster.status["restarts"]["cause"] == "Error"


def test_ten_healthy_minutes_make_failures_forgotten(cluster):
    cluster.end("word-count-driver-1", 1, failed())
    cluster.later(cluster.reconcile())
    cluster.settle()
    assert cluster.status["restarts"]["failures"] == 1
    cluster.later(601)
    cluster.end("word-count-driver-2", 1, failed())
    assert cluster.reconcile() == 5


@pytest.mark.parametrize(
    ("code", "status"),
    [
        pytest.param(143, {}, id="sigterm"),
        pytest.param(137, {"reason": "Evicted", "message": "low on disk"}, id="evicted"),
        pytest.param(
            137,
            {
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                    }
                ]
            },
            id="preempted",
        ),
    ],
)
def test_a_driver_that_had_to_go_is_replaced_at_once(cluster, code, status):
    for attempt in range(1, 6):
        cluster.end(f"word-count-driver-{attempt}", code, **status)
        cluster.settle()
        assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 6
    assert cluster.status["restarts"]["failures"] == 0


def test_a_deleted_driver_is_replaced(cluster):
    cluster.remove("Pod", "word-count-driver-1")
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["restarts"]["cause"] == "DriverGone"
    assert cluster.names("Secret") == ["word-count-auth-2"]


def test_a_driver_on_a_dead_node_is_replaced_at_once_and_one_that_ends_is_waited_for(cluster):
    pod = cluster.pod("word-count-driver-1")
    pod["metadata"]["deletionTimestamp"] = text_of(cluster.now)
    cluster.reconcile()
    assert (summary(cluster)[0], cluster.status["attempt"]) == ("Draining", 1)
    by_node = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.set_status(pod, {"phase": "Running", "conditions": [by_node]})
    cluster.reconcile()
    assert cluster.status["attempt"] == 2
    assert "word-count-driver-2" in cluster.names("Pod")


def test_a_mistake_is_not_tried_again_before_the_spec_changes(cluster):
    mistakes = (Mistake(path="spec.bolts[0].class", reason="there is no module 'x'"),)
    ended = Ended(reason="InvalidSpec", message="1 problem", errors=mistakes)
    cluster.end("word-count-driver-1", 2, ended)
    cluster.settle()
    assert summary(cluster) == ("Failed", "False", "InvalidSpec")
    assert cluster.condition("Stalled")["status"] == "True"
    accepted = cluster.condition("SpecAccepted")
    assert accepted["status"] == "False"
    assert accepted["message"] == "spec.bolts[0].class: there is no module 'x'."
    cluster.later(100_000)
    cluster.settle()
    assert cluster.status["attempt"] == 1
    cluster.change(OTHER_CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Stalled")["status"] == "False"


def test_a_lost_checkpoint_is_never_started_afresh_unless_the_user_says_so(cluster):
    assert cluster.status["lastBatch"] == 7
    cluster.end("word-count-driver-1", 3, failed("CheckpointLost", "the store is empty"))
    cluster.later(100_000)
    cluster.settle()
    assert summary(cluster) == ("Failed", "False", "CheckpointLost")
    assert cluster.status["lastBatch"] == 7
    cluster.topology["metadata"]["annotations"] = {"fulmen.dev/accept-checkpoint-loss": "true"}
    cluster.reconcile()
    assert cluster.revision.last_batch == 0
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    cluster.end("word-count-driver-2", 143)
    cluster.settle()
    assert cluster.revision.last_batch == 7


def test_an_unreachable_checkpoint_is_tried_again(cluster):
    cluster.end("word-count-driver-1", 3, failed("CheckpointUnreachable", "no answer"))
    assert cluster.reconcile() == 5
    assert summary(cluster) == ("Pending", "False", "CheckpointUnreachable")


def test_the_last_failed_driver_is_kept_for_its_log_and_its_workers_go(cluster):
    for attempt in (1, 2, 3):
        cluster.end(f"word-count-driver-{attempt}", 137, reason="Evicted")
        cluster.settle()
    drivers = [name for name in cluster.names("Pod") if "driver" in name]
    assert drivers == ["word-count-driver-3", "word-count-driver-4"]
    workers = {name.split("-exec-")[0] for name in cluster.names("Pod") if "exec" in name}
    assert workers == {"word-count-4"}
    assert cluster.names("Secret") == ["word-count-auth-3", "word-count-auth-4"]


# ---- what keeps pods from starting


def test_an_image_that_cant_be_pulled_is_told_in_the_kubelets_words():
    cluster = FakeCluster()
    cluster.reconcile()
    pod = cluster.pod("word-count-driver-1")
    cluster.set_status(pod, waiting("ImagePullBackOff", "no such image"))
    cluster.reconcile()
    assert summary(cluster) == ("Pending", "False", "Pending")
    assert "no such image" in cluster.condition("Ready")["message"]
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Pending", "False", "ImagePullBackOff")
    assert cluster.names("Pod") == ["word-count-driver-1"]
    cluster.run(cluster.pod("word-count-driver-1"))
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_worker_that_cant_be_scheduled_keeps_nothing_from_running(cluster):
    words = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    worker = cluster.pods("worker")[1]
    cluster.set_status(worker, {"phase": "Pending", "conditions": [words]})
    cluster.say(cluster.pod("word-count-driver-1"), active([0]))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")
    placed = cluster.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "Unschedulable")
    assert "1 of 2 workers host executors; word-count-1-exec-1: 0/1" in placed["message"]
    assert "can be mounted by one node only" in placed["message"]


def active(workers):
    hosted, planned = (
        tuple(Hosted(worker=n, executors=(f"split[{n}]",)) for n in numbers)
        for numbers in (workers, (0, 1))
    )
    report = Report(phase=DriverPhase.ACTIVE, generation=1, epoch=1, batch=9, workers=hosted)
    return report.model_copy(update={"planned": planned})


def fail(cluster, worker, words="no such bucket"):
    """A worker's pod ends by itself in its init container."""
    terminated = {"exitCode": 3, "reason": "Error", "message": words}
    states = [{"name": "fetch", "state": {"terminated": terminated}}]
    at = {"type": "Initialized", "status": "False", "lastTransitionTime": text_of(cluster.now)}
    status = {"phase": "Failed", "conditions": [at], "initContainerStatuses": states}
    cluster.set_status(worker, status)


FETCH_FAILED = "its init container 'fetch' ended with exit code 3: no such bucket"


def test_a_worker_that_fails_is_told_with_its_last_words_until_another_one_runs(cluster):
    kept, lost = cluster.pods("worker")
    fail(cluster, lost)
    cluster.say(cluster.pod("word-count-driver-1"), active([0]))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")
    placed = cluster.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "WorkerFailed")
    assert placed["message"].endswith(f"word-count-1-exec-1: {FETCH_FAILED}")
    assert cluster.events()[-1] == "WorkerFailed"
    fail(cluster, kept)
    cluster.say(cluster.pod("word-count-driver-1"), active([]))
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    assert cluster.condition("Ready")["message"] == f"word-count-1-exec-1: {FETCH_FAILED}"
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "WorkerFailed")
    cluster.later(600)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "StartTimeout")


@pytest.mark.parametrize("reason", ["CheckpointUnreachable", "ServiceUnavailable"])
def test_while_what_it_needs_is_away_a_topology_is_not_ready_and_says_since_when(cluster, reason):
    driver = cluster.pod("word-count-driver-1")
    outage = Outage(reason=reason, message="the checkpoint is away since then: disk is full")
    cluster.say(driver, active([0, 1]).model_copy(update={"outage": outage}))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "False", reason)
    message = cluster.condition("Ready")["message"]
    assert message == "the checkpoint is away since then: disk is full"
    assert cluster.events()[-1] == reason
    cluster.say(cluster.pod("word-count-driver-1"), active([0, 1]))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")


AWAY = "batch 1 is run again: spout 'lines', task 3: open: ConnectionRefusedError: no answer"


def test_a_source_that_is_away_from_the_start_is_the_reason_for_not_being_ready():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    cluster.set_status(cluster.pod("word-count-driver-1"), {"phase": "Running"})
    said = active([0, 1]).model_copy(update={"batch": 0, "message": AWAY})
    cluster.say(cluster.pod("word-count-driver-1"), said)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    assert cluster.condition("Ready")["message"] == AWAY
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "StartTimeout")
    message = f"word-count-driver-1 is not ready after 300 s: {AWAY}"
    assert cluster.condition("Ready")["message"] == message
    ready = {"type": "Ready", "status": "True"}
    driver = cluster.pod("word-count-driver-1")
    cluster.set_status(driver, {"phase": "Running", "conditions": [ready]})
    cluster.say(cluster.pod("word-count-driver-1"), active([0, 1]))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")
    assert "ConnectionRefusedError" not in cluster.condition("Ready")["message"]


def test_how_long_a_driver_takes_to_start_is_counted_from_when_it_has_a_node():
    """It may have waited for that for long, such as for the only one to come back."""
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    cluster.later(400)
    came = {"type": "PodScheduled", "status": "True", "lastTransitionTime": text_of(cluster.now)}
    driver = cluster.pod("word-count-driver-1")
    cluster.set_status(driver, {"phase": "Running", "conditions": [came]})
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "StartTimeout")


def test_a_source_that_is_away_later_is_in_the_message_of_ready(cluster):
    driver = cluster.pod("word-count-driver-1")
    cluster.say(driver, active([0, 1]).model_copy(update={"message": AWAY}))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Ready")["message"] == AWAY


def test_without_any_worker_a_topology_is_not_ready_and_later_says_why(cluster):
    words = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    for worker in cluster.pods("worker"):
        cluster.set_status(worker, {"phase": "Pending", "conditions": [words]})
    driver = cluster.pod("word-count-driver-1")
    cluster.later(1000)
    cluster.say(driver, active([-1]))  # it hosts a pinned spout, which is of no use
    again_in = cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    assert cluster.condition("Placed")["status"] == "False"
    cluster.later(again_in)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Unschedulable")
    assert cluster.status["attempt"] == 1
    cluster.say(cluster.pod("word-count-driver-1"), active([0, 1]))
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_change_that_waits_for_a_worker_does_not_hide_that_there_is_none(cluster):
    """While executors are placed anew, a driver waits until no tree is pending."""
    driver, (worker, *others) = cluster.pod("word-count-driver-1"), cluster.pods("worker")
    for other in others:
        cluster.remove("Pod", other["metadata"]["name"])
    moving = Report(phase=DriverPhase.REBALANCING, generation=1, epoch=1, batch=9)
    cluster.say(driver, moving)
    cluster.reconcile()
    assert summary(cluster) == ("Rebalancing", "False", "Rebalancing")
    cluster.set_status(worker, {"phase": "Pending", "conditions": [UNSCHEDULABLE]})
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Unschedulable")


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1",
}


def neighbour(cluster, created, reason):
    """Another topology, with a reason why it is not ready."""
    place, metadata = cluster._place("Topology", "neighbour"), {"name": "neighbour"}
    condition = {"type": "Ready", "status": "False", "reason": reason}
    thing = {"metadata": {**metadata, "namespace": "blue"}, "spec": {}}
    cluster.api._store(place, {**thing, "status": {"conditions": [condition]}})
    cluster.api.objects[place]["metadata"]["creationTimestamp"] = created
    return cluster.api.objects[place]["status"]["conditions"][0]


@pytest.fixture
def starved(cluster):
    """A topology with a driver, whose workers have found no room for too long."""
    for worker in cluster.pods("worker"):
        cluster.set_status(worker, {"phase": "Pending", "conditions": [UNSCHEDULABLE]})
    cluster.say(cluster.pod("word-count-driver-1"), active([]))
    cluster.reconcile()
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Unschedulable")
    return cluster


@pytest.mark.parametrize("reason", ["Unschedulable", "WaitsForRoom"])
def test_of_topologies_that_find_no_room_younger_ones_give_their_drivers_room_back(starved, reason):
    theirs = neighbour(starved, "2020-01-01T00:00:00Z", reason)
    again_in = starved.reconcile()
    assert summary(starved) == ("Pending", "False", "WaitsForRoom")
    assert "those of blue/neighbour" in starved.condition("Ready")["message"]
    starved.later(again_in)
    starved.settle()
    assert starved.names("Pod") == []
    starved.later(200)
    starved.reconcile()
    assert summary(starved) == ("Pending", "False", "WaitsForRoom")
    theirs["reason"] = "Active"
    starved.settle()
    assert summary(starved) == ("Active", "True", "Active")
    assert starved.status["attempt"] == 2
    assert starved.events().count("WaitsForRoom") == 1


def test_it_tries_again_after_some_minutes_whatever_the_older_one_does(starved):
    neighbour(starved, "2020-01-01T00:00:00Z", "Unschedulable")
    starved.reconcile()
    starved.settle()
    assert starved.names("Pod") == []
    starved.later(301)
    starved.settle()
    assert summary(starved) == ("Active", "True", "Active")


@pytest.mark.parametrize(
    ("created", "reason"),
    [("2030-01-01T00:00:00Z", "Unschedulable"), ("2020-01-01T00:00:00Z", "StartTimeout")],
)
def test_the_oldest_of_those_that_wait_for_room_keeps_its_driver(starved, created, reason):
    neighbour(starved, created, reason)
    starved.reconcile()
    assert summary(starved) == ("Starting", "False", "Unschedulable")
    assert "word-count-driver-1" in starved.names("Pod")


def test_without_any_pod_of_a_worker_either(cluster):
    for worker in cluster.pods("worker"):
        cluster.remove("Pod", worker["metadata"]["name"])
    cluster.say(cluster.pod("word-count-driver-1"), active([]))
    cluster.reconcile()
    cluster.later(301)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "StartTimeout")
    assert cluster.condition("Ready")["message"] == "no worker is ready after 300 s"


def test_problems_and_transitions_are_told_and_steps_are_not(cluster):
    assert cluster.events() == ["Active"]
    cluster.end("word-count-driver-1", 1, failed(message="it broke"))
    cluster.later(cluster.reconcile())
    cluster.settle()
    assert cluster.events() == ["Active", "Error", "Active"]
    cluster.remove("Pod", "word-count-driver-2")
    cluster.settle()
    assert cluster.events()[3:] == ["DriverGone", "Starting", "Active"]


def test_what_the_server_refuses_is_told_and_tried_again():
    cluster = FakeCluster()
    cluster.api.refusals["/pods"] = (403, "exceeded quota: small")
    for _ in range(2):
        with pytest.raises(Exception, match="exceeded quota"):
            cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Refused")
    assert "exceeded quota" in cluster.condition("Ready")["message"]
    cluster.api.refusals.clear()
    assert cluster.reconcile() == AGAIN_SECONDS
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 1


QUOTA = "pods is forbidden: exceeded quota: one, requested: pods=1, used: pods=1, limited: pods=1"


def lose_all_workers(cluster, report=True):
    for pod in cluster.pods("worker"):
        cluster.remove("Pod", pod["metadata"]["name"])
    driver = cluster.pod("word-count-driver-1")
    phase = DriverPhase.ACTIVE if report else DriverPhase.STARTING
    cluster.say(driver, Report(phase=phase, generation=1, epoch=1, batch=7, committed=True))


@pytest.mark.parametrize("is_active", [True, False])
def test_workers_that_the_api_server_refuses_are_named_with_its_words_at_once(cluster, is_active):
    lose_all_workers(cluster, is_active)
    cluster.api.refusals["/pods"] = (403, QUOTA)
    assert cluster.reconcile() <= 10
    placed = cluster.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "WorkerRefused")
    assert QUOTA in placed["message"]
    assert QUOTA in cluster.condition("Ready")["message"]
    assert "WorkerRefused" in cluster.events()


def test_workers_that_are_not_there_yet_are_not_said_to_be_refused(cluster):
    lose_all_workers(cluster)
    cluster.reconcile()
    assert cluster.condition("Placed")["reason"] != "WorkerRefused"
    assert cluster.names("Pod") == ["word-count-driver-1"]  # a dry run makes nothing


def test_nobody_asks_for_workers_while_all_are_there(cluster):
    before = len(cluster.api.calls)
    cluster.reconcile()
    assert [call for call in cluster.api.calls[before:] if call[0] == "POST"] == []


def test_what_a_drivers_pod_waits_for_is_in_placed_too(cluster):
    cluster.remove("Pod", "word-count-driver-1")
    cluster.reconcile()
    cluster.set_status(
        cluster.pod("word-count-driver-2"), waiting("ErrImagePull", "not authorized")
    )
    cluster.reconcile()
    placed = cluster.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "ImagePullBackOff")
    assert "not authorized" in placed["message"]
    assert "ImagePullBackOff" in cluster.events()


def test_a_pod_that_waits_for_its_secret_waits_for_nothing_that_is_told(cluster):
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "x"}
    cluster.remove("Pod", "word-count-driver-1")
    cluster.reconcile()
    pending = {"phase": "Pending", "conditions": [gated]}
    cluster.set_status(cluster.pod("word-count-driver-2"), pending)
    before = cluster.events()
    cluster.reconcile()
    assert cluster.condition("Placed")["reason"] == "Pending"
    assert cluster.events() == before


@pytest.mark.parametrize("of", ["driver", "worker"])
def test_volumes_that_are_not_mounted_are_in_placed_some_seconds_later(cluster, of):
    if of == "driver":
        cluster.remove("Pod", "word-count-driver-1")
        cluster.reconcile()
        pod = cluster.pod("word-count-driver-2")
    else:
        pod = cluster.pods("worker")[0]
        cluster.say(cluster.pod("word-count-driver-1"), active([1]))
    since = {"status": "True", "type": "PodScheduled", "lastTransitionTime": text_of(cluster.now)}
    not_yet = {"type": "PodReadyToStartContainers", "status": "False"}
    pod["spec"]["volumes"] = [{"name": "m", "configMap": {"name": "models"}}]
    cluster.set_status(pod, {"phase": "Pending", "conditions": [since, not_yet]})
    again_in = cluster.reconcile()
    assert cluster.condition("Placed")["reason"] != "VolumesNotMounted"
    cluster.later(again_in)
    cluster.reconcile()
    placed = cluster.condition("Placed")
    assert again_in <= 11
    assert (placed["status"], placed["reason"]) == ("False", "VolumesNotMounted")
    assert "ConfigMap 'models'" in placed["message"]
    assert "VolumesNotMounted" in cluster.events()


def test_a_claim_that_a_lost_node_still_has_is_told_with_what_frees_it(cluster):
    """The volume of one node only is not given to the next driver, on another one."""
    claim = [
        {"name": "checkpoint", "persistentVolumeClaim": {"claimName": "word-count-checkpoint"}}
    ]
    lost = cluster.pod("word-count-driver-1")
    lost["spec"] |= {"nodeName": "node-a", "volumes": claim}
    lost["metadata"]["deletionTimestamp"] = text_of(cluster.now)
    by_node = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.set_status(lost, {"phase": "Running", "conditions": [by_node]})
    cluster.reconcile()
    driver = cluster.pod("word-count-driver-2")
    driver["spec"] |= {"nodeName": "node-b", "volumes": claim}
    since = {"status": "True", "type": "PodScheduled", "lastTransitionTime": text_of(cluster.now)}
    not_yet = {"type": "PodReadyToStartContainers", "status": "False"}
    cluster.set_status(driver, {"phase": "Pending", "conditions": [since, not_yet]})
    cluster.later(11)
    cluster.reconcile()
    placed = cluster.condition("Placed")
    assert placed["reason"] == "VolumesNotMounted"
    assert "word-count-driver-1 was told to end, but its node node-a does not" in placed["message"]
    assert "node.kubernetes.io/out-of-service" in placed["message"]
