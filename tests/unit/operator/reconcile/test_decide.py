"""What a decision has in it besides the driver: objects, questions to the API server, events."""

import asyncio
from dataclasses import replace

import pytest

from fulmen.kube import contract
from fulmen.kube.contract.endings import Ended, Mistake
from fulmen.kube.contract.reports import DriverPhase, Hosted, Report, ReportedSavepoints
from fulmen_operator.manifests.common import marked
from fulmen_operator.model import Trial, text_of
from fulmen_operator.reconcile.decide import decide, is_as_wanted
from fulmen_operator.reconcile.pod_states import report_of
from support.operator.fake_cluster import KEY, FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary

DRIVER = "word-count-driver-1"


def decision(cluster):
    """What would be done now."""
    seen = asyncio.run(cluster.access().observe(KEY))
    return decide(seen, cluster.settings)


def events(cluster):
    """Type and reason of each, without those of the start."""
    place = cluster._place("Event", "")
    told = [o for path, o in cluster.api.objects.items() if path.startswith(place)]
    return [(event["type"], event["reason"]) for event in told][1:]


# ---- objects


@pytest.mark.parametrize("rules", [[], None, [{"verbs": ["get"]}] * 3])
def test_a_list_that_somebody_changed_is_put_right(cluster, rules):
    role = cluster.api.objects[cluster._place("Role", "word-count-driver")]
    before, role["rules"] = role["rules"], rules
    cluster.settle()
    assert cluster.api.objects[cluster._place("Role", "word-count-driver")]["rules"] == before


def test_an_object_is_as_wanted_though_a_list_does_not_say_its_kind():
    manifest = marked({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    found = {"metadata": {**manifest["metadata"], "uid": "1"}}
    assert is_as_wanted(found, manifest)
    assert not is_as_wanted({"metadata": {"name": "a"}}, manifest)


def test_a_driver_starts_with_a_secret_of_its_own_and_the_image_as_the_operator_says():
    cluster = FakeCluster(CODE)
    cluster.settings = replace(cluster.settings, image_pull_policy="Never")
    cluster.settle()
    secret = cluster.api.objects[cluster._place("Secret", "word-count-auth-1")]
    assert secret["stringData"] == {contract.SECRET_KEY: "secret"}
    assert cluster.pod(DRIVER)["spec"]["containers"][0]["imagePullPolicy"] == "Never"
    volumes = cluster.revision.worker_pod["spec"]["volumes"]
    named = [v["secret"]["secretName"] for v in volumes if "secret" in v]
    assert named == ["word-count-auth-1"]


# ---- trials


def test_a_suspended_topology_takes_new_code_without_a_trial(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    cluster.change({**OTHER_CODE, "spec.state": "Suspended"})
    cluster.settle()
    assert cluster.names("Pod") == []
    assert cluster.condition("SpecAccepted")["status"] == "True"
    told = [reason for _, reason in events(cluster)]
    assert "Checking" not in told


def test_a_topology_that_is_resumed_with_new_code_starts_without_a_trial(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    cluster.change(OTHER_CODE)
    cluster.reconcile_once_more()
    assert cluster.pods("preflight") == []
    assert "word-count-driver-2" in cluster.names("Pod")


def test_a_topology_that_has_failed_is_started_anew_without_a_trial(cluster):
    mistakes = (Mistake(path="spec.bolts[0].class", reason="there is no module 'x'"),)
    cluster.end(DRIVER, 2, Ended(reason="InvalidSpec", message="1 problem", errors=mistakes))
    cluster.settle()
    assert cluster.status["state"] == "Failed"
    assert ("Warning", "Failed") not in events(cluster)
    cluster.change(OTHER_CODE)
    cluster.reconcile_once_more()
    assert cluster.pods("preflight") == []
    assert "word-count-driver-2" in cluster.names("Pod")


# ---- questions


def with_one_worker_less(cluster):
    """One of two workers is gone, and the driver says so."""
    cluster.remove("Pod", cluster.pods("worker")[0]["metadata"]["name"])
    hosted = (Hosted(worker=1, pod="word-count-1-exec-1", executors=()),)
    before = report_of(cluster.pod(DRIVER))
    update = {"workers": hosted, "planned": before.workers, "committed": True}
    cluster.say(cluster.pod(DRIVER), before.model_copy(update=update))


def test_one_worker_that_is_missing_is_asked_for(cluster):
    assert decision(cluster).probe is None
    with_one_worker_less(cluster)
    wanted = cluster.revision.worker_pod
    pod = {**wanted, "metadata": {**wanted["metadata"], "name": "word-count-worker-probe"}}
    assert decision(cluster).probe == Trial("workers-1", (pod,))


def test_nobody_asks_for_workers_of_a_topology_that_is_to_be_suspended(cluster):
    with_one_worker_less(cluster)
    cluster.change({**CODE, "spec.state": "Suspended"})
    assert decision(cluster).probe is None


def test_volumes_are_looked_at_again_when_their_time_is_over(cluster):
    since = {"status": "True", "type": "PodScheduled", "lastTransitionTime": text_of(cluster.now)}
    not_yet = {"type": "PodReadyToStartContainers", "status": "False"}
    pending = {"phase": "Pending", "conditions": [since, not_yet]}
    cluster.set_status(cluster.pods("worker")[0], pending)
    cluster.later(9.5)
    assert decision(cluster).again_in == 1.5
    cluster.later(0.5)
    assert decision(cluster).again_in is None


# ---- events


def test_events_are_warnings_if_something_is_wrong(cluster):
    cluster.remove("Pod", DRIVER)
    cluster.settle()
    assert events(cluster) == [
        ("Warning", "DriverGone"),
        ("Normal", "Starting"),
        ("Normal", "Active"),
    ]


def test_a_worker_that_is_refused_is_a_warning(cluster):
    with_one_worker_less(cluster)
    cluster.api.refusals["/pods"] = (403, "exceeded quota: small")
    cluster.reconcile()
    assert events(cluster) == [("Warning", "WorkerRefused")]


def test_another_mistake_in_the_spec_is_told_though_the_reason_is_the_same(cluster):
    for field in ("maxSpoutPnding", "maxSpoutPnding", "tickSecnds"):
        cluster.change({**CODE, f"spec.{field}": 5})
        cluster.settle()
    assert events(cluster).count(("Warning", "InvalidSpec")) == 2


def test_a_first_spec_that_is_refused_is_told_once():
    cluster = FakeCluster({**CODE, "spec.maxSpoutPnding": 5})
    cluster.settle()
    place = cluster._place("Event", "")
    told = [o["reason"] for path, o in cluster.api.objects.items() if path.startswith(place)]
    assert told == ["InvalidSpec"]


def test_other_words_for_not_being_ready_are_not_told_again(cluster):
    for message in ("it broke", "it broke again"):
        cluster.end(DRIVER, 1, Ended(reason="Error", message=message))
        cluster.reconcile()
    assert cluster.condition("Ready")["message"].startswith("it broke again")
    assert [event for event in events(cluster) if event[1] == "Error"] == [("Warning", "Error")]


def test_a_claim_that_the_user_names_is_not_in_the_way(cluster):
    claim = "PersistentVolumeClaim"
    place = cluster._place(claim, "word-count-checkpoint")
    own = {"metadata": {"name": "word-count-checkpoint"}, "spec": {"accessModes": []}}
    cluster.remove(claim, "word-count-checkpoint")
    theirs = cluster.api._store(place, own)
    cluster.change({**CODE, "spec.checkpoint.persistentVolumeClaim": "word-count-checkpoint"})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert "ObjectInTheWay" not in cluster.events()
    assert cluster.api.objects[place] == theirs


def test_savepoints_are_in_the_status_and_events_tell_of_new_ones_and_of_trouble(cluster):
    def told(**found):
        said = ReportedSavepoints(**found)
        report = Report(phase=DriverPhase.ACTIVE, generation=1, epoch=1, batch=9, savepoints=said)
        cluster.say(cluster.pod("word-count-driver-1"), report)
        cluster.reconcile()
        return cluster.status["savepoints"]

    def of_savepoints():
        return [event for event in events(cluster) if event[1].startswith("Savepoint")]

    assert told()["count"] == 0
    newest = {"count": 1, "name": "mine", "commit": 8, "time": 0.0, "why": "version 7"}
    made = told(**newest)
    assert made == {
        "count": 1,
        "newest": "mine",
        "commit": 8,
        "time": "1970-01-01T00:00:00Z",
        "why": "version 7",
        "trouble": "",
    }
    assert of_savepoints() == [("Normal", "SavepointMade")]
    for _ in range(2):
        told(**newest, trouble="savepoint 'mine' can't be read")
    assert of_savepoints()[1:] == [("Warning", "SavepointFailed")]
    cluster.end("word-count-driver-1", 1, Ended(reason="Error", message="boom"))
    cluster.reconcile()
    assert cluster.status["savepoints"]["newest"] == "mine", "what no driver reports is still so"
