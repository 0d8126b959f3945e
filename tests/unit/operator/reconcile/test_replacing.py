"""Changes of the spec of a topology that runs."""

import json

import pytest

from fulmen.errors import CodeError
from fulmen.kube.container.ending import of_error
from fulmen.kube.contract.endings import Ended, Mistake
from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen_operator.cluster.api import CallFailed
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE, put_parts, summary, waiting


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


def test_what_was_refused_when_it_was_opened_can_be_tried_without_that(cluster):
    mistake = Mistake(path="spec.bolts[0].class", reason="prepare: ConnectionRefusedError")
    cluster.verdict = 2, Ended(reason="InvalidSpec", message="1 mistake:", errors=(mistake,))
    cluster.change({**OTHER_CODE, "spec.preflight": "Open"})
    cluster.settle()
    assert "prepare: ConnectionRefusedError" in cluster.condition("SpecAccepted")["message"]
    assert cluster.status["attempt"] == 1
    cluster.verdict = 0, Ended(reason="Valid", message="fine")
    cluster.change({**OTHER_CODE, "spec.preflight": "Load"})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert (cluster.condition("SpecAccepted")["status"], cluster.status["attempt"]) == ("True", 2)


def test_another_preflight_to_come_replaces_no_driver(cluster):
    cluster.change({**CODE, "spec.preflight": "Open"})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 1


def test_what_a_preflight_needs_is_written_once(cluster):
    cluster.change(OTHER_CODE)
    cluster.reconcile()
    for lost in ([], cluster.names("Pod")):
        for name in lost:
            if "preflight" in name:
                cluster.remove("Pod", name)
        cluster.api.calls.clear()
        cluster.reconcile()
        written = [path for method, path in cluster.api.calls if method != "GET"]
        assert not any("configmaps" in path for path in written)
        assert any("pods" in path for path in written) == bool(lost)


def test_bad_code_is_refused_with_all_errors_and_the_last_good_one_runs_on(cluster):
    mistakes = (Mistake(path="spec.bolts[0]", reason="bad"), Mistake(reason="worse"))
    cluster.verdict = 2, Ended(reason="InvalidSpec", message="2 problems:", errors=mistakes)
    revision = cluster.revision
    cluster.change(OTHER_CODE)
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert accepted["message"] == "2 problems: (1) spec.bolts[0]: bad. (2) worse."
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Ready")["observedGeneration"] == 1
    assert cluster.condition("Stalled")["status"] == "True"
    assert cluster.revision == revision
    assert cluster.events().count("InvalidSpec") == 1
    cluster.change(CODE)
    cluster.settle()
    assert cluster.condition("SpecAccepted")["status"] == "True"
    assert cluster.status["attempt"] == 1
    assert not any("preflight" in name for name in cluster.names("Pod"))


def test_another_archive_than_was_asked_for_is_told_before_anything_is_replaced(cluster):
    error = CodeError(
        "spec.code.sha256: s3://a/b has the SHA-256 1…, but 0… was asked for", "Look."
    )
    cluster.verdict = of_error(error)
    cluster.change({"spec.code": {"uri": "s3://a/b", "sha256": "0" * 64}})
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert accepted["message"] == str(error)
    assert (summary(cluster), cluster.status["attempt"]) == (("Active", "True", "Active"), 1)
    cluster.verdict = 0, Ended(reason="Valid", message="fine")
    cluster.change({"spec.code": {"uri": "s3://a/b", "sha256": "1" * 64}})
    cluster.settle()
    assert (summary(cluster), cluster.status["attempt"]) == (("Active", "True", "Active"), 2)


BAD = 2, Ended(reason="InvalidSpec", message="bad code")


def with_images(driver, worker):
    return {**CODE, "spec.driver": {"image": driver}, "spec.worker": {"image": worker}}


def test_what_the_workers_image_lacks_is_found_before_anything_is_replaced(cluster):
    """The other container does not even start then."""
    mistake = Mistake(path="spec.bolts[0].class", reason="No module named 'duckdb'")
    ended = Ended(reason="InvalidSpec", message="1 problem:", errors=(mistake,))
    cluster.worker_verdict = 2, ended
    cluster.change(with_images("mine:1", "theirs:1"))
    cluster.settle()
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    lacks = "in the workers' image: spec.bolts[0].class: No module named 'duckdb'."
    assert accepted["message"] == lacks
    assert (summary(cluster), cluster.status["attempt"]) == (("Active", "True", "Active"), 1)


def test_two_good_images_replace_what_runs(cluster):
    cluster.change(with_images("mine:1", "theirs:1"))
    cluster.settle()
    assert (summary(cluster), cluster.status["attempt"]) == (("Active", "True", "Active"), 2)
    assert cluster.revision.worker_pod["spec"]["containers"][0]["image"] == "theirs:1"


def test_two_images_and_what_the_drivers_lacks(cluster):
    cluster.verdict = BAD
    cluster.change(with_images("mine:1", "theirs:1"))
    cluster.settle()
    assert cluster.condition("SpecAccepted")["message"] == "bad code"
    assert cluster.status["attempt"] == 1


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


def test_a_first_version_whose_pods_are_refused_is_not_accepted_and_makes_nothing():
    cluster = FakeCluster()
    cluster.api.refusals["/pods"] = (422, 'unknown field "spec.nonsense"')
    assert cluster.reconcile() == 120
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "PodRefused")
    assert 'unknown field "spec.nonsense"' in accepted["message"]
    assert summary(cluster) == ("Failed", "False", "PodRefused")
    for kind in ("Pod", "Secret", "ServiceAccount", "Role", "ConfigMap", "PersistentVolumeClaim"):
        assert cluster.names(kind) == []
    cluster.api.refusals.clear()
    cluster.forget()
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_topology_that_was_never_valid_has_failed():
    cluster = FakeCluster({"spec.bolts.0.inputs.0.from": "sentenses"})
    cluster.settle()
    assert summary(cluster) == ("Failed", "False", "InvalidSpec")
    assert cluster.names("Pod") == []
    cluster.change({})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")


def test_the_number_of_tasks_is_kept_until_another_one_is_written(cluster):
    cluster.change({**CODE, "spec.bolts.0.parallelism": 5})
    cluster.settle()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split == {"name": "split", "tasks": 2, "executors": 2}
    assert cluster.condition("SpecAccepted")["reason"] == "AcceptedWithWarnings"
    cluster.change(CODE)
    cluster.settle()
    assert cluster.condition("SpecAccepted")["reason"] == "Accepted"
    cluster.change({**CODE, "spec.bolts.0.numTasks": 3})
    cluster.reconcile()
    assert cluster.condition("SpecAccepted")["reason"] == "Accepted"
    assert cluster.revision.topology["spec"]["bolts"][0]["numTasks"] == 3
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split["tasks"] == 2, "the driver has not taken it over"
    cluster.settle()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert (split["tasks"], cluster.status["attempt"]) == (3, 1)
    cluster.change(CODE)
    cluster.settle()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split["tasks"] == 3


def test_what_the_checkpoint_knows_of_tasks_wins(cluster):
    """A topology that was made again under the name of an earlier one."""
    report = Report(phase=DriverPhase.ACTIVE, generation=1, epoch=1, batch=9, tasks={"split": 7})
    cluster.say(cluster.pod("word-count-driver-1"), report)
    cluster.reconcile()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split == {"name": "split", "tasks": 7, "executors": 2}
    assert "numTasks" not in cluster.revision.topology["spec"]["bolts"][0]
    cluster.end("word-count-driver-1", 1, Ended(reason="Error", message="boom"))
    cluster.reconcile()
    split = next(c for c in cluster.status["components"] if c["name"] == "split")
    assert split["tasks"] == 7, "what no driver reports now is still so"
    cluster.change({**CODE, "spec.workers": 3})
    cluster.reconcile()
    assert cluster.revision.topology["spec"]["bolts"][0]["numTasks"] == 7


def test_a_revision_that_would_be_refused_now_was_accepted_and_goes_on(cluster):
    """What an operator before this one let through."""
    template = {"spec": {"hostNetwork": True}, "nodeSelector": {"a": "b"}}
    place = cluster._place("ConfigMap", "word-count-revision")
    revision = json.loads(cluster.api.objects[place]["data"]["revision.json"])
    revision["topology"]["spec"]["worker"] = {"podTemplate": template}
    data = {"revision.json": json.dumps(revision)}
    cluster.api._store(place, {**cluster.api.objects[place], "data": data})
    cluster.change({**CODE, "spec.worker": {"podTemplate": template}})
    cluster.forget()
    cluster.reconcile()
    assert summary(cluster)[:2] == ("Active", "True")
    assert "hostNetwork is not possible" in cluster.condition("SpecAccepted")["message"]
    cluster.remove("Pod", "word-count-driver-1")
    cluster.settle()
    assert summary(cluster)[:2] == ("Active", "True")
    assert cluster.status["attempt"] == 2


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


def test_a_packed_project_is_copied_and_followed():
    cluster = FakeCluster({"spec.code": {"configMap": "mine"}})
    place = cluster._place("ConfigMap", "mine")
    cluster.api._store(place, {"metadata": {"name": "mine"}, "binaryData": {"code.tar.gz": "YQ=="}})
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    [name] = [name for name in cluster.names("ConfigMap") if "-code-" in name]
    made = cluster.api.objects[cluster._place("ConfigMap", name)]
    assert made["binaryData"] == {"code.tar.gz": "YQ=="}
    assert "data" not in made
    cluster.api._store(place, {"metadata": {"name": "mine"}, "binaryData": {"code.tar.gz": "Yg=="}})
    cluster.settle()
    assert cluster.status["attempt"] == 2


def code_maps(cluster):
    return [name for name in cluster.names("ConfigMap") if "-code-" in name]


def test_a_project_in_parts_is_copied_and_followed(cluster):
    change = put_parts(cluster, ["a-1", "a-2"], b"on", b"e")
    cluster.change(change)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    made = code_maps(cluster)
    stem = made[0].removesuffix("-1")
    assert made == [f"{stem}-1", f"{stem}-2"]
    contents = [cluster.api.objects[cluster._place("ConfigMap", name)] for name in made]
    assert [thing["binaryData"] for thing in contents] == [
        {"code.tar.gz.1": "b24="},
        {"code.tar.gz.2": "ZQ=="},
    ]
    [pod] = cluster.pods("driver")
    assert {
        "name": "fulmen-code",
        "projected": {"sources": [{"configMap": {"name": name}} for name in made]},
    } in pod["spec"]["volumes"]
    assert cluster.status["attempt"] == 2
    cluster.change(put_parts(cluster, ["b-1"], b"two"))
    cluster.settle()
    assert cluster.status["attempt"] == 3
    assert [name for name in code_maps(cluster) if name.startswith(stem)] == []
    assert len(code_maps(cluster)) == 1


def test_a_part_that_is_missing_leaves_alone_what_runs_and_its_code(cluster):
    cluster.change(put_parts(cluster, ["a-1", "a-2"], b"on", b"e"))
    cluster.settle()
    good = code_maps(cluster)
    change = put_parts(cluster, ["b-1", "b-2"], b"tw", b"o")
    place = cluster._place("ConfigMap", "b-2")
    part = cluster.api.objects.pop(place)
    cluster.change(change)
    cluster.settle()
    assert summary(cluster)[:2] == ("Active", "True")
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "CodeNotFound")
    assert "spec.code.configMaps[1]: there is no ConfigMap 'b-2'." in accepted["message"]
    assert (code_maps(cluster), cluster.status["attempt"]) == (good, 2)
    cluster.remove("Pod", "word-count-driver-2")  # it starts again with the code that it had
    cluster.settle()
    assert (code_maps(cluster), cluster.status["attempt"]) == (good, 3)
    cluster.api._store(place, part)
    cluster.settle()
    assert cluster.status["attempt"] == 4
    assert len(code_maps(cluster)) == 2
    assert not {*good} & {*code_maps(cluster)}


def test_a_part_that_can_not_be_copied_leaves_alone_what_runs(cluster):
    """A quota, say: the first part is there, and the driver is not replaced."""
    cluster.change(put_parts(cluster, ["a-1", "a-2"], b"on", b"e"))

    def full(method, path):
        if method == "POST" and path.endswith("/configmaps") and len(code_maps(cluster)) == 2:
            cluster.api.refusals["/configmaps"] = (403, "exceeded quota")

    cluster.api.on_write = full
    for _ in range(2):
        with pytest.raises(CallFailed, match="exceeded quota"):
            cluster.reconcile()
        cluster.tick()
    assert len(code_maps(cluster)) == 2  # of the one that runs, and a part of the other
    assert (summary(cluster)[:2], cluster.status["attempt"]) == (("Active", "True"), 1)
    cluster.api.on_write = lambda method, path: None
    cluster.api.refusals.clear()
    cluster.settle()
    assert cluster.status["attempt"] == 2
    assert len(code_maps(cluster)) == 2


def test_numbers_of_tasks_are_fixed_only_when_a_driver_has_seen_the_checkpoint():
    """One of an earlier topology may be of others, which it is then to have."""
    cluster = FakeCluster({**CODE, "spec.bolts.0.numTasks": 8})
    cluster.reconcile()
    cluster.change(CODE)
    cluster.reconcile()
    assert "numTasks" not in cluster.revision.topology["spec"]["bolts"][0]


def test_another_claim_is_tried_while_the_one_that_was_made_is_left_alone(cluster):
    made = cluster._place("PersistentVolumeClaim", "word-count-checkpoint")
    before = cluster.api.objects[made]
    shared = {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    cluster.api._store(cluster._place("PersistentVolumeClaim", "shared"), shared)
    cluster.change({**CODE, "spec.checkpoint": {"persistentVolumeClaim": "shared"}})
    cluster.reconcile()
    assert cluster.condition("SpecAccepted")["status"] == "Unknown"
    assert cluster.api.objects[made] == before
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["attempt"] == 2
    assert cluster.api.objects[made] == before
