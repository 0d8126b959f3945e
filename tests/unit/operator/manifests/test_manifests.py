"""The objects that the operator makes: what is in them, who decides it, what they may do."""

import pytest

from fulmen.kube import contract
from fulmen.kube.contract.revisions import Images
from fulmen_operator.acceptance.judge import Accepted, judge
from fulmen_operator.manifests.common import marked
from fulmen_operator.manifests.merge import merged
from fulmen_operator.manifests.pods import preflight_pod
from fulmen_operator.manifests.revisions import for_attempt, new_revision
from fulmen_operator.manifests.rights import rights
from fulmen_operator.manifests.storage import auth_secret, checkpoint_claim
from fulmen_operator.model import APPLIED_ANNOTATION
from fulmen_operator.settings import Settings
from support.operator.observed import observed

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}


def made(changes=None, **more):
    """The driver's pod and the workers' pod of a topology."""
    return started(observed(changes, **more), 2)


def accepted_of(seen, settings=Settings()):  # noqa: B008
    """The revision of a spec that is accepted."""
    accepted = judge(seen, {})
    assert isinstance(accepted, Accepted), accepted
    return new_revision(seen, accepted, None, settings)


def started(seen, attempt, settings=Settings()):  # noqa: B008
    revision, driver = for_attempt(seen, accepted_of(seen, settings), attempt, settings)
    return driver, revision.worker_pod


def preflight_of(seen, driver="mine:1", worker="mine:1"):
    images = Images(driver=driver, worker=worker)
    return preflight_pod(seen, accepted_of(seen).model_copy(update={"images": images}), "")


def container(pod):
    return pod["spec"]["containers"][0]


def both(changes=None):
    return [
        pytest.param(pod, id=name)
        for name, pod in zip(("driver", "worker"), made(changes), strict=True)
    ]


# ---- pods


@pytest.mark.parametrize("pod", both())
def test_pods_are_allowed_in_a_namespace_that_restricts_them(pod):
    security = pod["spec"]["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 185)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(pod)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    assert {"/tmp", "/var/fulmen"} <= mounts
    assert all(v["emptyDir"]["sizeLimit"] for v in pod["spec"]["volumes"] if "emptyDir" in v)
    assert pod["spec"]["restartPolicy"] == "Never"


def test_state_on_disk_has_a_volume_with_the_limit_of_the_spec_in_each_pod():
    plain = made()
    for pod in plain:
        assert "fulmen-state" not in {volume["name"] for volume in pod["spec"]["volumes"]}
    on_disk = made({"spec.keyedState": {"backend": "disk", "diskLimit": "20Gi"}})
    for pod in on_disk:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert volumes["fulmen-state"]["emptyDir"] == {"sizeLimit": "20Gi"}
        [mount] = [m for m in container(pod)["volumeMounts"] if m["name"] == "fulmen-state"]
        assert {"name": "FULMEN_STATE_FOLDER", "value": mount["mountPath"]} in container(pod)["env"]


SINGLE = {"spec.deployment": "single-pod", "spec.workers": 1, "spec.worker": {}}


def test_a_pod_that_driver_and_workers_share_has_room_for_its_slots():
    driver, _ = made({**SINGLE, "spec.slots": 3, "spec.driver": {}})
    assert container(driver)["resources"] == {
        "limits": {"memory": "1088Mi"},
        "requests": {"cpu": "300m", "memory": "1088Mi"},
    }
    given = {"resources": {"limits": {"memory": "4Gi"}}}
    driver, _ = made({**SINGLE, "spec.driver": given})
    assert container(driver)["resources"]["limits"] == {"memory": "4Gi"}


def test_the_driver():
    driver, _ = made({**CODE, "spec.messageTimeoutSeconds": 90})
    assert driver["metadata"]["name"] == "word-count-driver-2"
    assert driver["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert driver["spec"]["terminationGracePeriodSeconds"] == 120
    assert driver["spec"]["serviceAccountName"] == "word-count-driver"
    assert container(driver)["args"] == ["driver"]
    env = {v["name"]: v.get("value") for v in container(driver)["env"]}
    assert (env["FULMEN_ATTEMPT"], env["FULMEN_UID"]) == ("2", "u-1")
    assert container(driver)["readinessProbe"]["httpGet"]["path"] == "/readyz"
    mounts = {mount["mountPath"] for mount in container(driver)["volumeMounts"]}
    assert {"/opt/fulmen/code", "/etc/fulmen/auth", "/checkpoint"} <= mounts


@pytest.mark.parametrize(("given", "seconds"), [({}, 300), ({"spec.startTimeoutSeconds": 7}, 60)])
def test_a_driver_has_as_long_as_its_topology_says_to_start_and_to_answer_again(given, seconds):
    probes = container(made(given)[0])
    allowed = {
        name: probes[name]["periodSeconds"] * probes[name]["failureThreshold"]
        for name in ("startupProbe", "livenessProbe")
    }
    assert allowed == {"startupProbe": max(120, seconds), "livenessProbe": seconds}


def test_code_in_a_store_is_fetched_by_each_container_with_what_it_has_for_the_checkpoint():
    place = {"uri": "s3://a/code-1.tar.gz", "sha256": "0" * 64}
    secret = {"secretKeyRef": {"name": "s3", "key": "id"}}
    own = [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": secret}]
    changes = {"spec.code": place, "spec.env": own, "spec.worker.image": "mine:1"}
    given = {"containers": [{"name": "worker", "envFrom": [{"secretRef": {"name": "s3"}}]}]}
    changes["spec.worker.podTemplate"] = {"spec": given}
    driver, worker = made(changes)
    seen = observed(changes)
    pod = preflight_of(seen, driver="a")
    [first] = pod["spec"]["initContainers"]
    assert first["envFrom"] == [{"secretRef": {"name": "s3"}}]
    for one in (container(driver), container(worker), container(pod), first):
        env = {variable["name"]: variable for variable in one["env"]}
        assert len(env) == len(one["env"])
        assert env["FULMEN_CODE_URI"]["value"] == place["uri"]
        assert env["FULMEN_CODE_SHA256"]["value"] == place["sha256"]
        assert env["AWS_ACCESS_KEY_ID"]["valueFrom"] == secret
        assert "/opt/fulmen/code" not in {mount["mountPath"] for mount in one["volumeMounts"]}


def test_the_worker():
    _, worker = made(CODE)
    assert worker["metadata"]["labels"]["fulmen.dev/attempt"] == "2"
    assert "ownerReferences" not in worker["metadata"]
    assert worker["spec"]["automountServiceAccountToken"] is False
    secrets = [v["secret"]["secretName"] for v in worker["spec"]["volumes"] if "secret" in v]
    assert secrets == ["word-count-auth-2"]


def test_a_pod_has_what_each_of_its_slots_needs():
    given = {"limits": {"memory": "1.5Gi", "example.com/gpu": "1"}, "requests": {"cpu": "500m"}}
    _, worker = made({"spec.slots": 4, "spec.workers": 8, "spec.worker.resources": given})
    assert container(worker)["resources"] == {
        "limits": {"memory": "6.0Gi", "example.com/gpu": "4"},
        "requests": {"cpu": "2000m", "memory": "6.0Gi"},
    }
    driver, worker = made({"spec.slots": 2, "spec.workers": 2})
    assert container(worker)["resources"]["limits"] == {"memory": "2400Mi"}
    assert container(driver)["resources"]["limits"] == {"memory": "1200Mi"}


def test_memory_is_set_aside_whole():
    driver, worker = made({"spec.worker.resources": {"limits": {"memory": "3Gi", "cpu": "2"}}})
    assert container(worker)["resources"] == {
        "limits": {"memory": "3Gi", "cpu": "2"},
        "requests": {"cpu": "2", "memory": "3Gi"},
    }
    assert container(driver)["resources"]["limits"] == {"memory": "1200Mi"}


@pytest.mark.parametrize("pod", ["spec.driver", "spec.worker"])
def test_a_scheduler_that_knows_gangs_finds_what_the_user_says(pod):
    """Coscheduling's label, YuniKorn's label, Volcano's annotation."""
    labels = {"scheduling.x-k8s.io/pod-group": "gang", "queue": "root.default"}
    metadata = {"labels": labels, "annotations": {"scheduling.k8s.io/group-name": "gang"}}
    template = {"metadata": metadata, "spec": {"schedulerName": "scheduler-plugins-scheduler"}}
    driver, worker = made({pod: {"podTemplate": template}})
    found = driver if pod == "spec.driver" else worker
    assert found["metadata"]["labels"].items() >= labels.items()
    assert found["metadata"]["annotations"].items() >= metadata["annotations"].items()
    assert found["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_the_users_pod_template_is_merged_by_name():
    template = {
        "metadata": {"labels": {"team": "a", contract.TOPOLOGY_LABEL: "other"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "restartPolicy": "Always",
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "securityContext": {"fsGroup": 7},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "driver",
                    "image": "ignored",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "env": [{"name": "A", "value": "template"}],
                },
                {"name": "sidecar", "image": "sidecar:1"},
            ],
        },
    }
    env = [{"name": "B", "value": "1"}]
    driver, worker = made({"spec.driver": {"podTemplate": template, "env": env, "image": "mine:1"}})
    spec = driver["spec"]
    assert driver["metadata"]["labels"]["team"] == "a"
    assert driver["metadata"]["labels"][contract.TOPOLOGY_LABEL] == "word-count"
    assert (spec["nodeSelector"], spec["restartPolicy"]) == ({"disk": "ssd"}, "Never")
    assert spec["securityContext"]["fsGroup"] == 7
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert len(spec["tolerations"]) == 3
    assert [c["name"] for c in spec["containers"]] == ["driver", "sidecar"]
    assert {c["terminationMessagePolicy"] for c in spec["containers"]} == {"FallbackToLogsOnError"}
    assert container(driver)["image"] == "mine:1"
    values = {v["name"]: v.get("value") for v in container(driver)["env"]}
    assert (values["A"], values["B"]) == ("template", "1")
    mounts = {mount["mountPath"] for mount in container(driver)["volumeMounts"]}
    assert {"/data", "/var/fulmen"} <= mounts
    assert "nodeSelector" not in worker["spec"]


def test_variables_of_the_spec_are_in_all_pods():
    secret = {"secretKeyRef": {"name": "shop", "key": "dsn"}}
    shared = [{"name": "DSN", "valueFrom": secret}, {"name": "A", "value": "of both"}]
    changes = {"spec.env": shared, "spec.worker": {"env": [{"name": "A", "value": "of workers"}]}}
    driver, worker = made(changes)
    assert container(driver)["env"][-2:] == shared
    assert container(worker)["env"] == [shared[0], {"name": "A", "value": "of workers"}]


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        ({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}, {"a": 1, "b": {"c": 1, "d": 2}}),
        ({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
            {"env": [{"name": "B", "value": "2"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        ),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]},
         {"tolerations": [{"key": "b"}, {"key": "a"}]}),
    ],
)  # fmt: skip
def test_merging(base, over, result):
    assert merged(base, over) == result


def test_the_preflight_runs_the_drivers_image_without_rights():
    seen = observed({**CODE, "spec.driver": {"image": "mine:1"}})
    pod = preflight_of(seen)
    assert container(pod)["args"] == ["preflight"]
    assert "initContainers" not in pod["spec"]
    assert (container(pod)["image"], pod["spec"]["automountServiceAccountToken"]) == (
        "mine:1",
        False,
    )
    assert len(pod["metadata"]["name"]) <= 63
    mounts = {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    assert mounts == {"/tmp", "/var/fulmen", "/etc/fulmen/candidate", "/opt/fulmen/code"}


@pytest.mark.parametrize(
    ("changes", "memory"),
    [({}, "880Mi"), ({"spec.deployment": "single-pod", "spec.slots": 4}, "384Mi")],
)
def test_a_preflight_finds_room_where_nodes_are_nearly_full(changes, memory):
    seen = observed({**CODE, **changes})
    resources = container(preflight_of(seen))["resources"]
    amounts = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}}
    assert resources == amounts


def test_the_preflight_gets_what_the_user_says_of_the_driver():
    seen = observed({"spec.driver.resources": {"limits": {"cpu": "2", "memory": "3Gi"}}})
    pod = preflight_of(seen)
    assert container(pod)["resources"]["requests"] == {"cpu": "2", "memory": "3Gi"}


def test_the_preflight_runs_the_workers_image_first_if_it_is_another_one():
    changes = {
        "spec.driver": {"imagePullSecrets": [{"name": "both"}, {"name": "mine"}]},
        "spec.worker": {
            "imagePullSecrets": [{"name": "both"}, {"name": "theirs"}],
            "env": [{"name": "A", "value": "1"}],
            "resources": {"limits": {"memory": "64Gi"}},
        },
    }
    seen = observed({**CODE, **changes})
    pod = preflight_of(seen, worker="theirs:1")
    (first,) = pod["spec"]["initContainers"]
    assert (first["image"], container(pod)["image"]) == ("theirs:1", "mine:1")
    for field in ("args", "volumeMounts", "resources", "securityContext"):
        assert first[field] == container(pod)[field]
    assert {"name": "A", "value": "1"} in first["env"]
    secrets = [secret["name"] for secret in pod["spec"]["imagePullSecrets"]]
    assert sorted(secrets) == ["both", "mine", "theirs"]


def test_a_preflight_that_opens_has_for_each_host_what_that_host_has():
    mount = {"name": "models", "mountPath": "/models"}
    template = {
        "spec": {
            "containers": [{"name": "worker", "volumeMounts": [mount], "tty": True}],
            "volumes": [{"name": "models", "configMap": {"name": "models"}}],
        }
    }
    worker = {
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"memory": "8Gi"}},
        "podTemplate": template,
    }
    drivers = {"podTemplate": {"spec": {"volumes": [{"name": "models", "secret": {}}]}}}
    seen = observed(
        {**CODE, "spec.preflight": "Open", "spec.worker": worker, "spec.driver": drivers}
    )
    pod = preflight_of(seen)
    (first,) = pod["spec"]["initContainers"]
    assert (first["args"], container(pod)["args"]) == (
        ["preflight", "worker"],
        ["preflight", "driver"],
    )
    assert {"name": "A", "value": "1"} in first["env"]
    assert first["resources"]["limits"]["memory"] == "8Gi"
    assert container(pod)["resources"]["limits"]["memory"] == "880Mi"
    own = {**mount, "name": f"worker-{mount['name']}"}
    assert own in first["volumeMounts"]
    assert own not in container(pod)["volumeMounts"]
    assert "tty" not in first
    assert {"name": own["name"], "configMap": {"name": "models"}} in pod["spec"]["volumes"]
    assert drivers["podTemplate"]["spec"]["volumes"][0] in pod["spec"]["volumes"]
    assert {v["name"] for v in pod["spec"]["volumes"]} >= {"fulmen-code", "fulmen-candidate"}
    assert first["securityContext"]["readOnlyRootFilesystem"]


def test_a_preflight_that_opens_is_another_one_than_one_that_does_not():
    pods = []
    for mode in ("Load", "Open"):
        seen = observed({**CODE, "spec.preflight": mode})
        pods.append(preflight_of(seen)["metadata"]["name"])
    assert len(set(pods)) == 2
    assert len(pods[1]) <= 63


def test_the_operators_image_is_pulled_as_the_operator_says_and_others_as_the_user_says():
    seen = observed({"spec.driver.imagePullPolicy": "Always"})
    driver, worker = started(seen, 1, Settings(image_pull_policy="Never"))
    assert container(driver)["imagePullPolicy"] == "Always"
    assert container(worker)["imagePullPolicy"] == "Never"


# ---- storage


@pytest.mark.parametrize(
    ("modes", "together"), [(["ReadWriteOnce"], True), (["ReadWriteMany"], False)]
)
def test_a_claim_of_one_node_keeps_all_pods_together(modes, together):
    claim = {"spec": {"accessModes": modes}}
    _, worker = made(children={("PersistentVolumeClaim", "word-count-checkpoint"): claim})
    assert ("affinity" in worker["spec"]) == together


DRIVER = {
    "metadata": {
        "name": "word-count-driver-2",
        "labels": {contract.COMPONENT_LABEL: "driver", contract.ATTEMPT_LABEL: "2"},
    },
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("modes", "pods", "reads", "is_near"),
    [
        pytest.param(["ReadWriteMany"], [], True, False, id="many"),
        pytest.param(["ReadWriteOnce"], [DRIVER], True, True, id="one-node"),
        pytest.param(["ReadWriteOnce"], [], False, False, id="no-driver-on-a-node"),
        pytest.param(["ReadWriteOncePod"], [DRIVER], False, False, id="one-pod"),
        pytest.param(None, [DRIVER], False, False, id="no-claim"),
    ],
)
def test_a_preflight_reads_the_claim_of_the_checkpoint_where_it_can(modes, pods, reads, is_near):
    claim = {"spec": {"accessModes": modes}}
    children = {("PersistentVolumeClaim", "word-count-checkpoint"): claim} if modes else {}
    pod = preflight_of(observed(CODE, children=children, pods=pods))
    mounts = {m["mountPath"]: m.get("readOnly") for m in container(pod)["volumeMounts"]}
    volumes = pod["spec"]["volumes"]
    claims = [v["persistentVolumeClaim"] for v in volumes if "persistentVolumeClaim" in v]
    assert mounts.get("/checkpoint") == (True if reads else None)
    assert claims == ([{"claimName": "word-count-checkpoint"}] if reads else [])
    assert ("affinity" in pod["spec"]) == is_near


def test_a_checkpoint_at_a_uri_needs_no_claim():
    driver, worker = made({"spec.checkpoint.uri": "s3://bucket/path"})
    assert "affinity" not in worker["spec"]
    assert not any("persistentVolumeClaim" in v for v in driver["spec"]["volumes"])


def test_the_claim_is_as_the_operator_was_set_up():
    seen = observed()
    settings = Settings(
        claim_size="3Gi", claim_access_mode="ReadWriteMany", claim_storage_class="x"
    )
    claim = checkpoint_claim(seen, accepted_of(seen), settings)
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "3Gi"}},
        "storageClassName": "x",
    }
    assert "ownerReferences" not in claim["metadata"]


def test_the_secret_never_changes():
    assert auth_secret(observed(), 4)["immutable"] is True


# ---- rights


def test_the_driver_may_do_what_it_needs_and_no_more():
    accounts = [
        m for m in rights(observed(), accepted_of(observed())) if m["kind"] != "RoleBinding"
    ]
    role = next(m for m in accounts if m["kind"] == "Role")
    allowed = {
        (resource, *rule.get("resourceNames", ())): sorted(rule["verbs"])
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert allowed == {
        ("pods",): ["create", "delete", "deletecollection", "get", "list", "patch", "watch"],
        ("configmaps", "word-count-revision"): ["get", "watch"],
        ("topologies", "word-count"): ["get"],
    }


def bound(changes, phase):
    """The accounts that get the rights, while a driver of the default one is in a phase."""
    driver, _ = made()
    seen = observed(changes, pods=[{**driver, "status": {"phase": phase}}])
    objects = rights(seen, accepted_of(seen))
    binding = next(m for m in objects if m["kind"] == "RoleBinding")
    return [subject["name"] for subject in binding["subjects"]]


def test_a_service_account_of_the_users_gets_the_rights_and_a_draining_driver_keeps_them():
    own = {"spec.driver.serviceAccountName": "mine"}
    assert bound(own, "Failed") == ["mine"]
    assert bound(own, "Running") == ["mine", "word-count-driver"]
    assert bound({}, "Running") == ["word-count-driver"]


def test_a_mark_changes_with_the_manifest_and_not_with_itself():
    claim = checkpoint_claim(observed(), accepted_of(observed()), Settings())
    once = marked(claim)
    assert marked(once) == once
    other = marked({**claim, "spec": {}})
    marks = [m["metadata"]["annotations"][APPLIED_ANNOTATION] for m in (once, other)]
    assert marks[0] != marks[1]
