"""The operator in a cluster that a test moves by hand: how topologies start and end."""

import json

import pytest

from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen_operator.controller.loop import Memory
from fulmen_operator.model import text_of
from support.cli.documents import ABSENT
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, summary

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


def beginning(cluster, *names):
    """Drivers of other topologies of the namespace, which have just been started."""
    for name in names:
        labels = {"fulmen.dev/topology": name, "app.kubernetes.io/component": "driver"}
        meta = {"name": f"{name}-driver-1", "namespace": "blue", "labels": labels}
        cluster.api._store(cluster._place("Pod", meta["name"]), {"metadata": meta, "spec": {}})


def test_a_driver_waits_while_many_others_start_and_its_number_is_kept():
    cluster = FakeCluster(CODE)
    beginning(cluster, "a", "b", "c", "d")
    assert cluster.reconcile() == 2
    assert summary(cluster) == ("Pending", "False", "WaitsToStart")
    assert cluster.condition("Reconciling")["status"] == "True"
    assert cluster.reconcile() == 2
    assert cluster.status["attempt"] == 1
    assert "word-count-driver-1" not in cluster.names("Pod")
    cluster.remove("Pod", "d-driver-1")
    cluster.reconcile()
    assert summary(cluster) == ("Starting", "False", "Starting")
    assert "word-count-driver-1" in cluster.names("Pod")


def test_a_driver_that_follows_one_that_is_gone_waits_as_well_and_is_counted_once(cluster):
    beginning(cluster, "a", "b", "c", "d")
    cluster.remove("Pod", "word-count-driver-1")
    for _ in range(3):
        cluster.reconcile()
    assert summary(cluster) == ("Pending", "False", "WaitsToStart")
    assert cluster.status["attempt"] == 2
    restarts = cluster.status["restarts"]
    assert (restarts["count"], restarts["cause"]) == (1, "DriverGone")
    cluster.remove("Pod", "d-driver-1")
    cluster.reconcile()
    assert cluster.status["attempt"] == 2
    assert cluster.status["restarts"] == restarts
    assert "word-count-driver-2" in cluster.names("Pod")


SINGLE = {**CODE, "spec.deployment": "single-pod", "spec.slots": 2}


def verbs_of_drivers(cluster):
    role = cluster.api.objects[cluster._place("Role", "word-count-driver")]
    [verbs] = [rule["verbs"] for rule in role["rules"] if rule["resources"] == ["pods"]]
    return set(verbs)


def test_driver_and_workers_in_one_pod_and_in_pods_of_their_own():
    cluster = FakeCluster(SINGLE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.names("Pod") == ["word-count-driver-1"]
    assert cluster.status["workers"] == {"desired": 2, "ready": 2}
    assert cluster.condition("Placed")["status"] == "True"
    assert verbs_of_drivers(cluster) == {"get", "patch"}
    cluster.change(CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert len(cluster.names("Pod")) == 3
    assert "create" in verbs_of_drivers(cluster)
    cluster.change(SINGLE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.names("Pod") == ["word-count-driver-3"]
    assert verbs_of_drivers(cluster) == {"get", "patch"}


def test_one_pod_has_no_place_for_more_workers_than_slots_nor_for_pods_of_theirs():
    cluster = FakeCluster({**SINGLE, "spec.slots": 1, "spec.worker": {"image": "mine:1"}})
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert accepted["reason"] == "InvalidSpec"
    assert (
        "spec.workers: deployment: single-pod has room for slots: 1 workers" in accepted["message"]
    )
    assert "Write it under spec.driver." in accepted["message"]


TRANSACTIONAL = {
    **CODE,
    "spec.spouts": ABSENT,
    "spec.transactional": [{"name": "sentences", "class": "wordcount.A", "parallelism": 3}],
}


def test_a_transactional_topology_has_its_emitters_in_the_status():
    cluster = FakeCluster(TRANSACTIONAL)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Placed")["status"] == "True"
    status = cluster.status
    assert {c["name"]: (c["tasks"], c["executors"]) for c in status["components"]} == {
        "sentences": (3, 3),
        "split": (2, 2),
        "count": (4, 2),
    }
    assert (status["executors"], status["tasks"], status["ackers"]) == (7, 9, 0)
    hosted = [name for row in status["assignment"] for name in row["executors"]]
    assert {name.partition("[")[0] for name in hosted} == {"sentences", "split", "count"}
    assert all(row["worker"] >= 0 for row in status["assignment"])


def test_a_transactional_topology_keeps_the_tasks_of_its_emitters():
    cluster = FakeCluster(TRANSACTIONAL)
    cluster.settle()
    cluster.change({**TRANSACTIONAL, "spec.transactional.0.parallelism": 2})
    cluster.settle()
    components = {c["name"]: c for c in cluster.status["components"]}
    assert (components["sentences"]["tasks"], components["sentences"]["executors"]) == (3, 2)


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


def test_a_topology_at_rest_costs_no_call(cluster):
    cluster.api.calls.clear()
    cluster.reconcile(Memory())
    assert cluster.api.calls == []


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
    monkeypatch.setattr("fulmen_operator.manifests.pod_template.OUTAGE_SECONDS", 999)
    cluster.settings = type(cluster.settings)(image="fulmen:next")
    cluster.change({**CODE, "spec.workers": 3})
    cluster.settle()
    assert cluster.status["attempt"] == 1
    assert cluster.revision.images.driver == "fulmen:dev"
    cluster.change({**CODE, "spec.workers": 3, "spec.restartNonce": 1})
    cluster.settle()
    assert cluster.status["attempt"] == 2
    assert cluster.revision.images.driver == "fulmen:next"


@pytest.mark.parametrize(("change", "attempt"), [({}, 1), ({"spec.restartNonce": 1}, 2)])
def test_an_operator_that_makes_other_digests_replaces_only_what_was_changed(
    cluster, change, attempt
):
    """What an older one wrote down has its own digest, in the revision and in the driver's pod."""
    digest = cluster.revision.input_hash
    for kind, name in (("ConfigMap", "word-count-revision"), ("Pod", "word-count-driver-1")):
        place = cluster._place(kind, name)
        written = json.dumps(cluster.api.objects[place])
        assert digest in written
        cluster.api.objects[place] = json.loads(written.replace(digest, "of-another"))
    cluster.settle()
    cluster.change({**CODE, "spec.workers": 3, **change})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["workers"]["desired"] == 3
    assert cluster.status["attempt"] == attempt
    assert (cluster.revision.input_hash == "of-another") == (attempt == 1)


def test_what_somebody_changed_is_put_right(cluster):
    role = cluster.api.objects[cluster._place("Role", "word-count-driver")]
    role["rules"] = []
    cluster.settle()
    assert cluster.api.objects[cluster._place("Role", "word-count-driver")]["rules"]


@pytest.mark.parametrize(
    "text", ["{", '{"generation": 1, "topology": {"kind": "Topology"}, "workerPod": {}}']
)
def test_a_revision_that_cant_be_read_is_made_anew_and_restarts_nothing(cluster, text):
    place = cluster._place("ConfigMap", "word-count-revision")
    revision = cluster.revision
    cluster.api._store(place, {**cluster.api.objects[place], "data": {"revision.json": text}})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.status["attempt"], cluster.revision.input_hash) == (1, revision.input_hash)


def test_a_revision_that_is_lost_while_the_spec_is_bad_takes_no_history_with_it(cluster):
    cluster.remove("Pod", "word-count-driver-1")
    cluster.settle()
    before = cluster.status
    assert (before["attempt"], before["state"]) == (2, "Active")
    cluster.remove("ConfigMap", "word-count-revision")
    cluster.change({"spec.maxSpoutPnding": 5})
    cluster.reconcile()
    assert cluster.condition("SpecAccepted")["reason"] == "InvalidSpec"
    kept = ("attempt", "epoch", "lastBatch", "components", "restarts")
    assert {k: cluster.status.get(k) for k in kept} == {k: before.get(k) for k in kept}
    cluster.change(CODE)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 2
    assert [name for name in cluster.names("Pod") if "driver" in name] == ["word-count-driver-2"]


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


def test_a_service_with_its_policy_comes_changes_and_goes(cluster):
    for ports in ([8080], [8080, 9000]):
        cluster.change({**CODE, "spec.service": {"ports": ports}})
        cluster.settle()
        assert cluster.names("NetworkPolicy") == ["word-count.clients"]
        assert cluster.names("Service") == ["word-count"]
        service = cluster.api.objects[cluster._place("Service", "word-count")]
        assert [port["port"] for port in service["spec"]["ports"]] == ports
    cluster.change(CODE)
    cluster.settle()
    assert cluster.names("NetworkPolicy") == cluster.names("Service") == []
    assert cluster.status["attempt"] == 1


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
    report = Report(phase=DriverPhase.REBALANCING, generation=1, epoch=1, batch=9)
    cluster.say(cluster.pod("word-count-driver-1"), report)
    cluster.reconcile()
    assert summary(cluster) == ("Rebalancing", "False", "Rebalancing")
    assert cluster.condition("Reconciling")["status"] == "True"
