"""What keeps a topology from running, each caused for real, and the words that it is told in."""

import json
import re

import pytest
import yaml

from support.cluster.cluster_images import RUNTIME
from support.cluster.kube import condition, eventually, is_ready, total
from support.cluster.numbered import FILE, SINGLE_POD, manifest
from support.cluster.troubles import (
    TOLD_SECONDS,
    apply,
    seconds_between,
    told,
    unscheduled,
    wait_for,
)

IMAGE = "nowhere.invalid/fulmen:1"
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff")
"""The kubelet says one after the other."""
LOOK = "test -e /models/model || { echo looking; echo there is no model; exit 3; }"

pytestmark = pytest.mark.timeout(600)


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
    good = manifest(FILE, "metadata.name=bad-import", *SINGLE_POD)
    kube.apply(good.replace("import re\n", "import re\n        raise OSError('no such luck')\n"))
    message = wait_for(kube, "bad-import", "SpecAccepted", "InvalidSpec")
    assert "OSError: no such luck (numbered.py, line" in message
    kube.apply(good)
    wait_for(kube, "bad-import", "SpecAccepted", "Accepted")


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
        for kind in ("Placed", "Ready"):
            assert "exceeded quota: none" in wait_for(kube, "no-quota", kind, "Refused")
        assert "exceeded quota: none" in told(kube, "no-quota", "Refused")["message"]
    finally:
        kube.delete("resourcequota", "none")
    message = wait_for(kube, "no-quota", "Ready", "StartTimeout")
    assert "is not ready after 5 s" in message


def test_what_keeps_workers_away_is_named_while_they_are_waited_for(kube, remove):
    """One thing after the other: as soon as one is mended, the next is told."""
    remove("no-workers")
    volume = {"name": "models", "configMap": {"name": "models"}}
    mount = {"name": "worker", "volumeMounts": [{"name": "models", "mountPath": "/models"}]}
    first = {**mount, "name": "look", "image": RUNTIME, "command": ["sh", "-c", LOOK]}
    template = {"spec": {"volumes": [volume], "containers": [mount], "initContainers": [first]}}
    worker = {"image": IMAGE, "podTemplate": template}
    kube.run("create", "quota", "one", "--hard=pods=1")
    kube.wait("resourcequota", "one", lambda quota: quota["status"].get("hard"), 60, "looked after")
    try:
        apply(kube, "no-workers", f"spec.worker={json.dumps(worker)}")
        message = wait_for(kube, "no-workers", "Placed", "WorkerRefused")
        assert "exceeded quota: one" in message
        assert "exceeded quota: one" in told(kube, "no-workers", "WorkerRefused")["message"]
    finally:
        kube.delete("resourcequota", "one")
    message = wait_for(kube, "no-workers", "Placed", "VolumesNotMounted")
    assert "ConfigMap 'models'" in message
    metadata = {"name": "models"}
    models = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    kube.apply(models)
    words = "its init container 'look' ended with exit code 3: there is no model"
    assert words in wait_for(kube, "no-workers", "Placed", "WorkerFailed")
    assert words in told(kube, "no-workers", "WorkerFailed")["message"]
    kube.apply({**models, "data": {"model": ""}})
    assert IMAGE in wait_for(kube, "no-workers", "Placed", *NO_IMAGE)
    assert IMAGE in told(kube, "no-workers", *NO_IMAGE)["message"]
    assert not is_ready(kube.get("topology", "no-workers"))


def test_of_many_drivers_some_wait_until_others_have_started(kube, remove):
    """None gets to start here: a pod that waits for its volumes takes no CPU, and counts."""
    names = [f"many-{number}" for number in range(5)]
    volume = {"name": "nowhere", "configMap": {"name": "nowhere"}}
    mount = {"name": "driver", "volumeMounts": [{"name": "nowhere", "mountPath": "/nowhere"}]}
    template = {"spec": {"volumes": [volume], "containers": [mount]}}
    one = yaml.safe_load(manifest(FILE, f"spec.driver.podTemplate={json.dumps(template)}"))
    for name in names:
        remove(name)
    kube.apply(*({**one, "metadata": {"name": name}} for name in names))

    def reasons():
        return [condition(kube.get("topology", name), "Ready").get("reason") for name in names]

    eventually(reasons, lambda found: "WaitsToStart" in found, 60, "waiting to start, one of five")


def test_an_image_that_can_not_be_pulled(kube, remove):
    remove("no-image")
    settings = (f"spec.driver={{image: '{IMAGE}'}}", "spec.startTimeoutSeconds=5")
    apply(kube, "no-image", *settings)
    for kind in ("Placed", "Ready"):
        assert IMAGE in wait_for(kube, "no-image", kind, *NO_IMAGE)
    assert IMAGE in told(kube, "no-image", *NO_IMAGE)["message"]
    assert driver_name_of(kube, "no-image")


def test_a_driver_that_no_node_has_room_for(kube, remove):
    """It is told at once, and is the reason for not being ready when it has lasted."""
    remove("too-big")
    resources = "spec.driver={resources: {requests: {cpu: '1000'}}}"
    # No claim: until it is bound, the scheduler says nothing else.
    checkpoint = "spec.checkpoint={uri: 's3://nowhere/too-big'}"
    apply(kube, "too-big", resources, checkpoint, "spec.startTimeoutSeconds=5")
    for kind in ("Placed", "Ready"):
        assert "Insufficient cpu" in wait_for(kube, "too-big", kind, "Unschedulable")
    event = told(kube, "too-big", "Unschedulable")
    assert "Insufficient cpu" in event["message"]
    assert seconds_between(unscheduled(kube, "too-big", "driver"), event) <= TOLD_SECONDS


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


OUTPUTS = 'class Split(BasicBolt):\n            outputs = ("word",)\n'
NEEDS_A_SERVICE = """
            def prepare(self, conf, context):
                import os
                from fulmen import ServiceUnavailable

                if not os.path.exists("/tmp/service-answers"):
                    raise ServiceUnavailable("Redis at cache:6379", "connection refused")
"""
"""What the class has as well, as the resource has it."""


def test_a_service_that_a_bolt_needs_is_away(kube, remove):
    """It is named with the bolt that needs it; when it answers, the topology goes on."""
    remove("no-service")
    text = manifest(FILE, "metadata.name=no-service", *SINGLE_POD)
    assert text.count(OUTPUTS) == 1
    code = text.replace(OUTPUTS, OUTPUTS + NEEDS_A_SERVICE)
    kube.apply(code)
    message = wait_for(kube, "no-service", "Ready", "ServiceUnavailable")
    pattern = r"'split' waits for Redis at cache:6379 since 20.* UTC: connection refused"
    assert re.fullmatch(pattern, message)
    assert re.search(pattern, told(kube, "no-service", "ServiceUnavailable")["message"])
    driver = driver_name_of(kube, "no-service")
    assert total(kube.metrics(driver), "fulmen_service_away_seconds", component="split") >= 5
    kube.exec(driver, "touch", "/tmp/service-answers")
    kube.wait("topology", "no-service", is_ready, 180, "Ready")
    assert not [name for name, _ in kube.metrics(driver) if "service_away" in name]


def driver_name_of(kube, name):
    """The pod that waits is not deleted."""
    pods = kube.list("pods", f"fulmen.dev/topology={name},app.kubernetes.io/component=driver")
    return pods[0]["metadata"]["name"]
