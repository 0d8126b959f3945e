"""What keeps a topology from running, each caused for real, and the words that it is told in."""

import json
import time

import pytest
import yaml

from support.kube import condition, is_ready
from support.numbered import FILE, manifest

pytestmark = pytest.mark.timeout(600)


def apply(kube, name, *assignments):
    """A small topology of its own name."""
    kube.apply(manifest(FILE, f"metadata.name={name}", "spec.workers=1", *assignments))


def wait_for(kube, name, kind, reason, seconds=180):
    """Wait for a condition with that reason; its message."""
    found = kube.wait(
        "topology",
        name,
        lambda topology: condition(topology, kind).get("reason") == reason,
        seconds,
        f"{kind}: {reason}",
    )
    return condition(found, kind)["message"]


@pytest.fixture
def remove(operator, kube):
    """Names of topologies to be deleted after the test."""
    names = []
    yield names.append
    for name in names:
        kube.run("delete", "topology", name, "--ignore-not-found", seconds=180)


def test_a_class_that_is_not_there(kube, remove):
    remove("wrong-class")
    kube.apply(
        manifest(FILE, "metadata.name=wrong-class").replace("numbered.Split", "numbered.Splitt")
    )
    message = wait_for(kube, "wrong-class", "Stalled", "InvalidSpec")
    assert "spec.bolts[0].class" in message
    assert "Did you mean 'Split'?" in message


def test_an_exception_on_import_is_mended_by_better_code(kube, remove):
    remove("bad-import")
    good = manifest(FILE, "metadata.name=bad-import", "spec.workers=1")
    kube.apply(good.replace("import re\n", "import re\n        raise OSError('no such luck')\n"))
    message = wait_for(kube, "bad-import", "SpecAccepted", "InvalidSpec")
    assert "OSError: no such luck (numbered.py, line" in message
    kube.apply(good)
    kube.wait("topology", "bad-import", is_ready, 300, "Ready")


def test_a_pod_that_the_api_server_refuses_is_refused_before_anything_is_made(kube, remove):
    remove("wrong-pod")
    apply(kube, "wrong-pod", "spec.driver={podTemplate: {spec: {nonsense: 1}}}")
    message = wait_for(kube, "wrong-pod", "SpecAccepted", "PodRefused")
    assert 'unknown field "spec.nonsense"' in message
    assert kube.list("serviceaccounts,secrets,pods", "fulmen.dev/topology=wrong-pod") == []


def test_mistakes_in_the_spec_that_no_code_is_needed_for(kube, remove):
    remove("bad-conf")
    content = yaml.safe_load(manifest(FILE, "metadata.name=bad-conf", "spec.workers=1"))
    content["spec"]["spark"] = {"conf": {"spark.master": "local"}}  # `fulmen manifest` refuses it
    kube.apply(content)
    message = wait_for(kube, "bad-conf", "Stalled", "InvalidSpec")
    assert "spec.spark.conf[spark.master]" in message


def test_a_warning_is_told_and_keeps_nothing_from_being_accepted(kube, remove):
    remove("odd")
    apply(kube, "odd", "spec.state=Suspended", "spec.spouts[sentences].tickSeconds=1")
    assert "a spout gets no ticks" in wait_for(kube, "odd", "SpecAccepted", "AcceptedWithWarnings")
    kube.wait("topology", "odd", is_ready, 60, "suspended, and so Ready")


def test_code_that_is_not_there(kube, remove):
    remove("no-code")
    apply(kube, "no-code", "spec.code={configMap: nowhere}")
    message = wait_for(kube, "no-code", "Stalled", "CodeNotFound")
    assert "there is no ConfigMap 'nowhere'" in message
    assert condition(kube.get("topology", "no-code"), "Placed")["reason"] == "NotAccepted"


def test_code_that_is_too_big(kube, remove):
    remove("big-code")
    data = {"numbered.py": "#" * 950_000}
    big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": data}
    kube.run("create", "-f", "-", content=json.dumps(big))
    apply(kube, "big-code", "spec.code={configMap: big}")
    assert "950000 bytes" in wait_for(kube, "big-code", "Stalled", "CodeTooBig")


def test_a_quota_that_does_not_suffice(kube, remove):
    """It is tried again: when there is room the driver starts, here for longer than it may."""
    remove("no-quota")
    kube.run("create", "quota", "none", "--hard=pods=0")
    kube.wait(
        "resourcequota", "none", lambda quota: quota["status"].get("hard"), 60, "looked after"
    )
    try:
        apply(kube, "no-quota", "spec.startTimeoutSeconds=5")
        message = wait_for(kube, "no-quota", "Ready", "Refused")
        assert "exceeded quota: none" in message
    finally:
        kube.delete("resourcequota", "none")
    message = wait_for(kube, "no-quota", "Ready", "StartTimeout")
    assert "is not ready after 5 s" in message


def test_a_quota_that_has_room_for_the_driver_only(kube, remove):
    """It is named while workers are waited for; when there is room, they come."""
    remove("no-workers")
    kube.run("create", "quota", "one", "--hard=pods=1")
    kube.wait("resourcequota", "one", lambda quota: quota["status"].get("hard"), 60, "looked after")
    try:
        apply(kube, "no-workers", "spec.startTimeoutSeconds=60")
        message = wait_for(kube, "no-workers", "Placed", "WorkerRefused")
        assert "exceeded quota: one" in message
    finally:
        kube.delete("resourcequota", "one")
    kube.wait("topology", "no-workers", is_ready, 400, "Ready")


def test_a_volume_of_workers_that_is_not_there(kube, remove):
    """It is named while it is waited for; when it is there, they start."""
    remove("no-volume")
    volume = {"name": "models", "configMap": {"name": "models"}}
    mount = {"name": "worker", "volumeMounts": [{"name": "models", "mountPath": "/models"}]}
    template = {"spec": {"volumes": [volume], "containers": [mount]}}
    apply(kube, "no-volume", f"spec.worker.podTemplate={json.dumps(template)}")
    message = wait_for(kube, "no-volume", "Placed", "VolumesNotMounted")
    assert "ConfigMap 'models'" in message
    metadata = {"name": "models"}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    kube.wait("topology", "no-volume", is_ready, 400, "Ready")


def test_an_image_that_can_not_be_pulled(kube, remove):
    remove("no-image")
    settings = ("spec.driver={image: nowhere.invalid/fulmen:1}", "spec.startTimeoutSeconds=5")
    apply(kube, "no-image", *settings)
    found = kube.wait(
        "topology",
        "no-image",
        lambda topology: (
            condition(topology, "Ready")
            .get("reason", "")
            .endswith(("ErrImagePull", "ImagePullBackOff"))
        ),
        120,
        "Ready: ErrImagePull",
    )
    assert "nowhere.invalid/fulmen:1" in condition(found, "Ready")["message"]
    assert driver_name_of(kube, "no-image")


def test_a_driver_that_no_node_has_room_for(kube, remove):
    remove("too-big")
    resources = "spec.driver={resources: {requests: {cpu: '1000'}}}"
    apply(kube, "too-big", resources, "spec.startTimeoutSeconds=5")
    message = wait_for(kube, "too-big", "Ready", "Unschedulable")
    assert "Insufficient cpu" in message
    assert driver_name_of(kube, "too-big")


def test_workers_that_find_no_node_any_more(kube, remove):
    """Their driver stays, says so, and goes on when there is a node again."""
    remove("deserted")
    apply(kube, "deserted")
    kube.wait("topology", "deserted", is_ready, 300, "Ready")
    kube.patch("topology", "deserted", {"spec": {"startTimeoutSeconds": 5}})
    node = kube.get("pod", driver_name_of(kube, "deserted"))["spec"]["nodeName"]
    kube.run("cordon", node)
    try:
        workers = "fulmen.dev/topology=deserted,app.kubernetes.io/component=worker"
        kube.run("delete", "pods", "-l", workers, "--now")
        assert "unschedulable" in wait_for(kube, "deserted", "Ready", "Unschedulable")
        assert condition(kube.get("topology", "deserted"), "Placed")["status"] == "False"
    finally:
        kube.run("uncordon", node)
    kube.wait("topology", "deserted", is_ready, 300, "Ready")
    assert kube.get("topology", "deserted")["status"]["attempt"] == 1


def test_a_store_that_does_not_answer(kube, remove):
    remove("no-store")
    variables = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }
    env = [{"name": name, "value": value} for name, value in variables.items()]
    settings = (f"spec.driver={json.dumps({'env': env})}", "spec.checkpoint={uri: 's3://b/path'}")
    apply(kube, "no-store", *settings)
    found = kube.wait(
        "topology",
        "no-store",
        lambda topology: (
            topology.get("status", {}).get("restarts", {}).get("cause") == "CheckpointUnreachable"
        ),
        180,
        "restarted because of its store",
    )
    assert not is_ready(found)


def driver_name_of(kube, name):
    """The pod that waits is not deleted."""
    pods = kube.list("pods", f"fulmen.dev/topology={name},app.kubernetes.io/component=driver")
    return pods[0]["metadata"]["name"]


FOREIGN = [
    ("serviceaccount", "occupied-driver"),
    ("role", "occupied-driver"),
    ("configmap", "occupied-plan"),
    ("persistentvolumeclaim", "occupied-checkpoint"),
    ("secret", "occupied-auth-1"),
]


def test_objects_of_others_are_in_the_way_and_stay(kube, remove):
    remove("occupied")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    kinds = {
        "serviceaccount": {"apiVersion": "v1", "kind": "ServiceAccount"},
        "role": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []},
        "configmap": {"apiVersion": "v1", "kind": "ConfigMap"},
        "persistentvolumeclaim": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": spec,
        },
        "secret": {"apiVersion": "v1", "kind": "Secret"},
    }
    kube.apply(*({**kinds[kind], "metadata": {"name": name}} for kind, name in FOREIGN))
    before = {kind: kube.get(kind, name)["metadata"] for kind, name in FOREIGN}
    apply(kube, "occupied", "spec.checkpoint.deletionPolicy=Delete")
    message = wait_for(kube, "occupied", "Ready", "ObjectInTheWay")
    for kind, name in FOREIGN[:-1]:
        assert f"{kind} '{name}' is in the way" in message.lower()
    for kind, name in FOREIGN[:-1]:  # only then a driver is made, and needs its secret
        kube.delete(kind, name, "--ignore-not-found")
    look_again(kube, "occupied")
    kube.wait(
        "topology",
        "occupied",
        lambda topology: "Secret 'occupied-auth-1'" in topology["status"]["message"],
        90,
        "in want of its secret",
    )
    assert kube.get("secret", "occupied-auth-1")["metadata"]["uid"] == before["secret"]["uid"]
    kube.delete("secret", "occupied-auth-1")
    look_again(kube, "occupied")
    kube.wait("topology", "occupied", is_ready, 300, "Ready")


def look_again(kube, name):
    """Have the operator look at it now, not when half a minute is over."""
    kube.run("annotate", "topology", name, f"example.com/at={time.monotonic()}", "--overwrite")
