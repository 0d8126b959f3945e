"""The operator in a cluster that a test moves by hand: starts, losses, ends, changes, deletion."""

import pytest

from fulmen.kube.contract import Ended, Mistake, Phase, Report
from fulmen_operator.loop import Memory
from fulmen_operator.model import text_of
from support.documents import ABSENT
from support.fake_cluster import FakeCluster

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
OTHER_CODE = {"spec.code": {"files": {"wordcount.py": "class B: ..."}}}


@pytest.fixture(scope="module")
def settled():
    """A cluster with a topology that runs."""
    made = FakeCluster(CODE)
    made.settle()
    assert made.status["state"] == "Active"
    return made


@pytest.fixture
def cluster(settled):
    """A cluster of the test's own, with a topology that runs."""
    return settled.copy()


def summary(cluster):
    ready = cluster.condition("Ready")
    return cluster.status["state"], ready["status"], ready["reason"]


# ---- starting


def test_from_apply_to_active():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    assert cluster.names("Pod") == ["word-count-driver-1"]
    assert cluster.names("Secret") == ["word-count-auth-1"]
    assert cluster.names("ServiceAccount") == ["word-count-driver", "word-count-worker"]
    assert cluster.names("PersistentVolumeClaim") == ["word-count-checkpoint"]
    assert len([name for name in cluster.names("ConfigMap") if "-code-" in name]) == 1
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Placed")["status"] == "True"
    assert cluster.status["workers"] == {"desired": 2, "ready": 2}
    assert (cluster.status["executors"], cluster.status["tasks"]) == (7, 9)


def test_it_is_active_when_its_first_batch_is_committed():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    cluster.tick()
    pod = cluster.pod("word-count-driver-1")
    cluster.set_status(pod, {"phase": "Running"})
    cluster.tick()
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    cluster.set_status(
        pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    )
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_topology_at_rest_costs_reading_only(cluster):
    cluster.api.calls.clear()
    cluster.reconcile(Memory())
    assert {method for method, _ in cluster.api.calls} == {"GET"}


def test_the_attempt_is_in_the_status_before_anything_of_it_is_made(cluster):
    seen = []

    def look(method, path):
        made = [int(name.rsplit("-", 1)[1]) for name in cluster.names("Pod") if "driver" in name]
        seen.append(max(made, default=0) <= cluster.status["attempt"])

    cluster.api.on_write = look
    cluster.end("word-count-driver-1", 143)
    cluster.settle()
    assert cluster.status["attempt"] == 2
    assert all(seen)


def test_a_new_version_of_the_operator_restarts_nothing(cluster, monkeypatch):
    monkeypatch.setattr("fulmen_operator.manifests.pods.OUTAGE_SECONDS", 999)
    cluster.settings = type(cluster.settings)(image="fulmen:next")
    cluster.change({**CODE, "spec.workers": 3})
    cluster.settle()
    assert cluster.status["attempt"] == 1
    assert cluster.plan.images.driver == "fulmen:dev"
    cluster.change({**CODE, "spec.workers": 3, "spec.restartNonce": 1})
    cluster.settle()
    assert cluster.status["attempt"] == 2
    assert cluster.plan.images.driver == "fulmen:next"


def test_what_somebody_changed_is_put_right(cluster):
    role = cluster.api.objects[cluster._place("Role", "word-count-driver")]
    role["rules"] = []
    cluster.settle()
    assert cluster.api.objects[cluster._place("Role", "word-count-driver")]["rules"]


@pytest.mark.parametrize(
    "text", ["{", '{"generation": 1, "topology": {"kind": "Topology"}, "workerPod": {}}']
)
def test_a_plan_that_cant_be_read_is_made_anew_and_restarts_nothing(cluster, text):
    place = cluster._place("ConfigMap", "word-count-plan")
    plan = cluster.plan
    cluster.api._store(place, {**cluster.api.objects[place], "data": {"plan.json": text}})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.status["attempt"], cluster.plan.input_hash) == (1, plan.input_hash)


# ---- drivers that end


def failed(reason="Error", message="it broke"):
    return Ended(reason=reason, message=message)


def test_a_failed_driver_is_started_again_later_and_later(cluster):
    waits = []
    for attempt in range(1, 9):
        cluster.tick()
        cluster.end(f"word-count-driver-{attempt}", 1, failed())
        waits.append(cluster.reconcile())
        assert summary(cluster)[0] == "Pending"
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
    assert cluster.plan.last_batch == 0
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    cluster.end("word-count-driver-2", 143)
    cluster.settle()
    assert cluster.plan.last_batch == 7


def test_an_unreachable_checkpoint_is_tried_again(cluster):
    cluster.end("word-count-driver-1", 3, failed("CheckpointUnreachable", "no answer"))
    assert cluster.reconcile() == 5
    assert summary(cluster) == ("Pending", "False", "CheckpointUnreachable")


def test_the_last_failed_driver_is_kept_for_its_log_and_its_workers_go(cluster):
    for attempt in (1, 2, 3):
        cluster.end(f"word-count-driver-{attempt}", 143)
        cluster.settle()
    drivers = [name for name in cluster.names("Pod") if "driver" in name]
    assert drivers == ["word-count-driver-3", "word-count-driver-4"]
    workers = {name.split("-exec-")[0] for name in cluster.names("Pod") if "exec" in name}
    assert workers == {"word-count-4"}
    assert cluster.names("Secret") == ["word-count-auth-3", "word-count-auth-4"]


# ---- what keeps pods from starting


def waiting(reason, message):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}


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
    report = Report(phase=Phase.ACTIVE, generation=1, epoch=1, batch=9, workers=())
    cluster.say(cluster.pod("word-count-driver-1"), report)
    cluster.reconcile()
    assert summary(cluster) == ("Active", "True", "Active")
    placed = cluster.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "Unschedulable")
    assert "0 of 2 workers host executors; word-count-1-exec-1: 0/1" in placed["message"]


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
    cluster.api.refusals["/word-count-driver-1"] = (403, "exceeded quota: small")
    for _ in range(2):
        with pytest.raises(Exception, match="exceeded quota"):
            cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Refused")
    assert "exceeded quota" in cluster.condition("Ready")["message"]
    cluster.api.refusals.clear()
    with pytest.raises(Exception, match="look again"):
        cluster.reconcile()
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 1


# ---- changes


def test_more_workers_are_for_the_driver_to_take_over(cluster):
    cluster.change({**CODE, "spec.workers": 3, "spec.messageTimeoutSeconds": 60})
    cluster.reconcile()
    assert cluster.condition("Ready")["observedGeneration"] == 1
    assert cluster.condition("Reconciling")["reason"] == "Applying"
    cluster.settle()
    assert cluster.status["attempt"] == 1
    assert cluster.condition("Ready")["observedGeneration"] == 2
    assert cluster.condition("Reconciling")["status"] == "False"


def test_inactive_and_active_again(cluster):
    cluster.change({**CODE, "spec.state": "Inactive"})
    cluster.settle()
    assert summary(cluster) == ("Inactive", "True", "Inactive")
    cluster.change(CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 1


def test_suspended_has_no_pods_and_resumes(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.reconcile()
    assert summary(cluster) == ("Draining", "False", "Suspending")
    cluster.tick()
    cluster.reconcile()
    assert summary(cluster) == ("Draining", "False", "Suspending")
    cluster.settle()
    assert summary(cluster) == ("Suspended", "True", "Suspended")
    assert (cluster.names("Pod"), cluster.names("Secret")) == ([], [])
    cluster.change(CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["restarts"]["count"] == 0


def test_a_topology_that_resumes_while_its_last_pods_go_was_not_restarted(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.reconcile()
    cluster.tick()
    cluster.reconcile()
    assert cluster.pods("driver") == []
    cluster.change(CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.status["attempt"], cluster.status["restarts"]["count"]) == (2, 0)


def test_a_driver_that_does_not_drain_is_ended(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    wait = cluster.reconcile()
    assert wait == 30 + 30 + 30
    cluster.later(wait)
    cluster.reconcile()
    assert "word-count-driver-1" not in cluster.names("Pod")
    cluster.settle()
    assert cluster.names("Secret") == []


def test_new_code_replaces_the_driver_after_a_preflight(cluster):
    cluster.change(OTHER_CODE)
    cluster.reconcile()
    assert cluster.condition("SpecAccepted")["status"] == "Unknown"
    assert summary(cluster) == ("Active", "True", "Active")
    assert any("preflight" in name for name in cluster.names("Pod"))
    assert "word-count-candidate" in cluster.names("ConfigMap")
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.status["attempt"], cluster.status["restarts"]["count"]) == (2, 0)
    assert not any("preflight" in name for name in cluster.names("Pod"))
    assert "word-count-candidate" not in cluster.names("ConfigMap")
    assert len([name for name in cluster.names("ConfigMap") if "-code-" in name]) == 1


def test_bad_code_is_refused_with_all_errors_and_the_last_good_one_runs_on(cluster):
    mistakes = (Mistake(path="spec.bolts[0]", reason="bad"), Mistake(reason="worse"))
    cluster.verdict = 2, Ended(reason="InvalidSpec", message="2 problems", errors=mistakes)
    plan = cluster.plan
    cluster.change(OTHER_CODE)
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert accepted["message"] == "(1) spec.bolts[0]: bad. (2) worse."
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Ready")["observedGeneration"] == 1
    assert cluster.condition("Stalled")["status"] == "True"
    assert cluster.plan == plan
    assert cluster.events().count("InvalidSpec") == 1
    cluster.change(CODE)
    cluster.settle()
    assert cluster.condition("SpecAccepted")["status"] == "True"
    assert cluster.status["attempt"] == 1
    assert not any("preflight" in name for name in cluster.names("Pod"))


BAD = 2, Ended(reason="InvalidSpec", message="bad code")


def code_that_runs(cluster):
    """The ConfigMaps with code that drivers have mounted which have not ended."""
    return {
        pod["metadata"]["annotations"]["fulmen.dev/code"]
        for pod in cluster.pods("driver")
        if pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    }


def test_a_refused_change_does_not_come_in_when_the_driver_is_lost(cluster):
    good = code_that_runs(cluster)
    cluster.verdict = BAD
    cluster.change(OTHER_CODE)
    cluster.settle()
    cluster.end("word-count-driver-1", 143)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.status["attempt"], code_that_runs(cluster)) == (2, good)
    assert cluster.condition("SpecAccepted")["status"] == "False"


def test_a_driver_that_is_lost_during_a_preflight_is_started_with_what_was_good(cluster):
    good = code_that_runs(cluster)
    cluster.change(OTHER_CODE)
    cluster.reconcile()
    cluster.remove("Pod", "word-count-driver-1")
    cluster.reconcile()
    assert (cluster.status["attempt"], code_that_runs(cluster)) == (2, good)
    cluster.settle()
    assert cluster.status["attempt"] == 3
    assert code_that_runs(cluster) != good


def test_what_never_worked_is_replaced_untried():
    cluster = FakeCluster({**CODE, "spec.driver": {"image": "nobody:1"}})
    cluster.reconcile()
    pod = cluster.pod("word-count-driver-1")
    cluster.set_status(pod, waiting("ImagePullBackOff", "no such image"))
    cluster.change({**CODE, "spec.driver": {"image": "fulmen:2"}})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.pods("driver")[0]["spec"]["containers"][0]["image"] == "fulmen:2"
    assert (cluster.status["attempt"], cluster.status["restarts"]["count"]) == (2, 0)
    assert cluster.names("Secret") == ["word-count-auth-2"]
    assert not any("preflight" in path for _, path in cluster.api.calls)


def test_pods_that_the_server_would_refuse_replace_nothing(cluster):
    cluster.api.refusals["/pods"] = (422, "no such toleration")
    cluster.change({**CODE, "spec.worker": {"podTemplate": {"spec": {"tolerations": [{"a": 1}]}}}})
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "PodRefused")
    assert "no such toleration" in accepted["message"]
    assert summary(cluster) == ("Active", "True", "Active")


def test_an_invalid_spec_is_refused_at_once(cluster):
    cluster.change({**CODE, "spec.bolts.0.inputs.0.from": "sentenses"})
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert accepted["reason"] == "InvalidSpec"
    assert "Did you mean 'sentences'?" in accepted["message"]
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_topology_that_was_never_valid_has_failed():
    cluster = FakeCluster({"spec.bolts.0.inputs.0.from": "sentenses"})
    cluster.settle()
    assert summary(cluster) == ("Failed", "False", "InvalidSpec")
    assert cluster.names("Pod") == []
    cluster.change({})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")


def test_the_number_of_tasks_is_kept_for_ever(cluster):
    cluster.change({**CODE, "spec.bolts.0.parallelism": 5})
    cluster.settle()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split == {"name": "split", "tasks": 2, "executors": 2}
    assert cluster.condition("SpecAccepted")["reason"] == "AcceptedWithWarnings"
    cluster.change({**CODE, "spec.bolts.0.numTasks": 3})
    cluster.settle()
    assert "fixed for a topology's life" in cluster.condition("SpecAccepted")["message"]


def test_what_the_checkpoint_knows_of_tasks_wins(cluster):
    """A topology that was made again under the name of an earlier one."""
    report = Report(phase=Phase.ACTIVE, generation=1, epoch=1, batch=9, tasks={"split": 7})
    cluster.say(cluster.pod("word-count-driver-1"), report)
    cluster.reconcile()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split == {"name": "split", "tasks": 7, "executors": 2}
    assert "numTasks" not in cluster.plan.topology["spec"]["bolts"][0]
    cluster.change({**CODE, "spec.workers": 3})
    cluster.reconcile()
    assert cluster.plan.topology["spec"]["bolts"][0]["numTasks"] == 7


def test_a_bad_change_does_not_keep_from_suspending(cluster):
    cluster.change({**CODE, "spec.state": "Suspended", "spec.bolts.0.inputs.0.from": "nobody"})
    cluster.settle()
    assert cluster.status["state"] == "Suspended"


def test_code_in_a_config_map_is_copied_and_followed():
    cluster = FakeCluster({"spec.code": {"configMap": "mine"}})
    cluster.settle()
    assert cluster.condition("SpecAccepted")["reason"] == "CodeNotFound"
    place = cluster._place("ConfigMap", "mine")
    cluster.api._store(place, {"metadata": {"name": "mine"}, "data": {"a.py": "1"}})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    cluster.api._store(place, {"metadata": {"name": "mine"}, "data": {"a.py": "2"}})
    cluster.settle()
    assert cluster.status["attempt"] == 2


# ---- the rest of its manners


def test_paused_says_so_and_does_nothing(cluster):
    cluster.topology["metadata"]["annotations"] = {"fulmen.dev/paused": "true"}
    cluster.end("word-count-driver-1", 143)
    cluster.settle()
    assert cluster.condition("Reconciling")["reason"] == "Paused"
    assert cluster.status["attempt"] == 1
    cluster.topology["metadata"]["annotations"] = {}
    cluster.settle()
    assert (cluster.status["attempt"], cluster.status["state"]) == (2, "Active")


def test_nothing_is_made_for_a_topology_that_is_being_deleted(cluster):
    cluster.topology["metadata"]["deletionTimestamp"] = text_of(cluster.now)
    cluster.remove("Pod", "word-count-driver-1")
    cluster.settle()
    assert cluster.names("Pod") == []


def test_the_claim_stays_or_goes_with_the_topology_as_the_user_says(cluster):
    place = cluster._place("PersistentVolumeClaim", "word-count-checkpoint")
    assert "ownerReferences" not in cluster.api.objects[place]["metadata"]
    cluster.change({**CODE, "spec.checkpoint": {"deletionPolicy": "Delete"}})
    cluster.settle()
    assert cluster.api.objects[place]["metadata"]["ownerReferences"]
    assert cluster.status["attempt"] == 1


def test_a_claim_of_the_users_is_left_alone_whatever_its_name(cluster):
    cluster.remove("PersistentVolumeClaim", "word-count-checkpoint")
    place = cluster._place("PersistentVolumeClaim", "word-count-checkpoint")
    own = {"metadata": {"name": "word-count-checkpoint"}, "spec": {"accessModes": []}}
    cluster.api._store(place, own)
    named = {"persistentVolumeClaim": "word-count-checkpoint", "deletionPolicy": "Delete"}
    cluster.change({**CODE, "spec.checkpoint": named})
    cluster.settle()
    assert "ownerReferences" not in cluster.api.objects[place]["metadata"]


def test_a_network_policy_comes_and_goes(cluster):
    cluster.change({**CODE, "spec.networkPolicy": "Restrict"})
    cluster.settle()
    assert cluster.names("NetworkPolicy") == ["word-count"]
    cluster.change(CODE)
    cluster.settle()
    assert cluster.names("NetworkPolicy") == []
    assert cluster.status["attempt"] == 1


def test_a_component_that_is_removed_loses_its_number_of_tasks(cluster):
    cluster.change({**CODE, "spec.bolts.1": ABSENT})
    cluster.settle()
    assert [c["name"] for c in cluster.status["components"]] == ["sentences", "split", "__acker"]


def test_a_report_that_cant_be_read_is_none(cluster):
    pod = cluster.pod("word-count-driver-1")
    pod["metadata"]["annotations"]["fulmen.dev/report"] = "{"
    cluster.reconcile()
    assert cluster.status["state"] == "Starting"
    assert cluster.status["lastBatch"] == 7


def test_a_driver_that_rebalances_says_so(cluster):
    report = Report(phase=Phase.REBALANCING, generation=1, epoch=1, batch=9)
    cluster.say(cluster.pod("word-count-driver-1"), report)
    cluster.reconcile()
    assert summary(cluster) == ("Rebalancing", "False", "Rebalancing")
    assert cluster.condition("Reconciling")["status"] == "True"
