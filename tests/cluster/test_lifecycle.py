"""One topology is told all that can be told to one, and counts every word exactly once."""

import random
import re
import shutil

import pytest
import yaml

from fulmen.kube.contract import REVISION_KEY
from fulmen.kube.contract.revisions import Revision
from support.cluster import cluster_images, operators
from support.cluster.kube import condition, eventually, is_ready, total
from support.cluster.numbered import (
    FILE,
    NAME,
    PODS,
    TASKS,
    all_counted,
    apply,
    driver_name,
    expected,
    fulmen,
    goes_on,
    manifest,
    patch,
    report_in,
    wait_for_state,
)
from support.runs.spark_topologies import NOTHING_PENDING, Committed

READER = "reader"


def committed(kube, claim, folder):
    """What the newest commit on a claim says.

    Args:
        kube: Where the claim is.
        claim: Its name.
        folder: Where it is copied to; not there yet.
    """
    kube.apply(reader(claim))
    try:
        kube.wait("pod", READER, lambda pod: pod["status"]["phase"] == "Running", 60, "running")
        kube.copy(READER, "/checkpoint", folder)
    finally:
        kube.delete("pod", READER)
    return Committed(folder.as_uri())


def reader(claim):
    """A pod that does nothing but have the claim mounted."""
    container = {
        "name": READER,
        "image": cluster_images.RUNTIME,
        "command": ["sleep", "600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "checkpoint", "mountPath": "/checkpoint", "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 185,
            "runAsGroup": 0,
            "fsGroup": 185,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "checkpoint", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER}, "spec": spec}


SENTENCES, RATE = 10_000, 25
"""Of each of two tasks, and in a second: they last for all but the last step."""
AGENTS = ("fulmen-operator", "fulmen-driver", "fabric8")
"""The operator, the driver and Spark, as the API server knows them."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    apply(kube, SENTENCES, RATE)
    return kube


def batches_later(kube, pod, number):
    """The metrics so many batches later."""
    before = total(kube.metrics(pod), "fulmen_batches_total")
    return eventually(
        lambda: kube.metrics(pod),
        lambda found: total(found, "fulmen_batches_total") >= before + number,
        60,
        f"{number} batches further",
    )


def emits_nothing(kube, pod):
    """Some batches run without any tuple of the spout. The metrics after them.

    What was under way when the driver was told, or was being committed, comes first.
    """
    first = batches_later(kube, pod, 2)
    later = batches_later(kube, pod, 6)
    emitted = [
        total(found, "fulmen_emitted_total", component="sentences") for found in (first, later)
    ]
    assert emitted[0] == emitted[1] > 0
    return later


def has_worked(revision_map):
    """Whether a topology's revision is noted as one that has committed a batch."""
    return Revision.from_json(revision_map["data"][REVISION_KEY]).worked


def test_what_an_author_logs_is_in_the_logs_of_workers(topology):
    logs = [
        topology.run("logs", pod["metadata"]["name"])
        for pod in topology.list("pods", PODS + "worker")
    ]
    for task in range(TASKS):
        line = f" INFO numbered: task {task} begins at sentence 0\n"
        assert any(line in log for log in logs), logs


def test_while_all_is_well_it_costs_the_api_server_at_most_ten_calls_a_minute(topology, requests):
    wait_until_placed(topology, 2)
    goes_on(topology, 1)
    # That it has worked is noted once, after its first commit: a part of its start.
    topology.wait("configmap", f"{NAME}-revision", has_worked, 60, "known to work")
    later = requests.from_now_on()
    eventually(later.seconds, lambda seconds: seconds > 60, 120, "a minute of requests")
    # Whole rounds of what is asked each 20, 30 and 60 s: of 70 s as many may fall into its ends as
    # into 90.
    calls = later.count(topology.namespace, *AGENTS, seconds=60)
    assert calls["pods", "patch"] >= 2, "the driver did not report"
    assert calls.total() <= 10, calls


def test_inactive(topology):
    """Spouts emit nothing, while batches go on."""
    pod = driver_name(topology)
    assert "asked for Inactive" in fulmen(topology, "deactivate", NAME)
    wait_for_state(topology, "Inactive")
    later = emits_nothing(topology, pod)
    shown = figures(fulmen(topology, "top", NAME, "--once"), "sentences")
    acked = total(later, "fulmen_acked_total", component="sentences")
    assert int(shown["acked"].replace(",", "")) == acked > 0
    assert (shown["exec/tasks"], shown["pending"]) == ("2/2", "0")


def figures(picture, component):
    """A line of the table that `fulmen top` shows, by its columns."""
    joined = picture.replace("state ", "state_")  # the one title of two words
    lines = [re.sub(r"(\d) (ms|s)\b", r"\1\2", line).split() for line in joined.splitlines()]
    (titles,) = (words for words in lines if words[:1] == ["component"])
    (values,) = (words for words in lines if words[:1] == [component])
    return dict(zip(titles, values, strict=True))


def test_active_again(topology):
    pod = driver_name(topology)
    fulmen(topology, "activate", NAME)
    wait_for_state(topology, "Active")
    goes_on(topology, topology.report(pod)["batch"])
    assert driver_name(topology) == pod


def test_other_configuration_is_taken_over_while_it_runs(topology):
    """At no sentences a second nothing is emitted any more; the driver and its pods stay."""
    pod = driver_name(topology)
    apply(topology, SENTENCES, 0)
    emits_nothing(topology, pod)
    apply(topology, SENTENCES, RATE)
    goes_on(topology, topology.report(pod)["batch"])
    assert driver_name(topology) == pod


def wait_until_placed(kube, workers):
    """Wait until the topology is Ready on so many workers; the topology."""
    return kube.wait(
        "topology",
        NAME,
        lambda found: (
            is_ready(found)
            and condition(found, "Placed").get("status") == "True"
            and found["status"]["workers"] == {"desired": workers, "ready": workers}
        ),
        180,
        f"placed on {workers} workers",
    )


def test_an_autoscaler_gives_it_more_workers_and_takes_them_away(topology, metrics_api):
    """Kubernetes' own, by the CPU that the pods with `status.selector` use."""
    pod = driver_name(topology)
    metrics_api.millicores = 900
    topology.apply(autoscaler(fewest=2, most=3, millicores=700))
    try:
        found = wait_until_placed(topology, 3)
        for hosted in found["status"]["assignment"]:
            assert hosted["pod"]
            assert hosted["executors"] == hosted["planned"]
        metrics_api.millicores = 100
        wait_until_placed(topology, 2)
    finally:
        topology.delete("hpa", NAME)
    assert driver_name(topology) == pod
    goes_on(topology, topology.report(pod)["batch"], 2)


def autoscaler(fewest, most, millicores):
    """As docs/operations.md shows it, but quick to change its mind."""
    target = {"type": "AverageValue", "averageValue": f"{millicores}m"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "fulmen.dev/v1alpha1",
                "kind": "Topology",
                "name": NAME,
            },
            "minReplicas": fewest,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def test_an_image_of_workers_alone_that_is_not_there_replaces_nothing(topology):
    pod = driver_name(topology)
    patch(
        topology,
        worker={"image": "missing:1", "imagePullPolicy": "Never"},
        startTimeoutSeconds=5,
    )
    refused = topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "SpecAccepted").get("reason") == "ErrImageNeverPull",
        120,
        "refused",
    )
    assert '"missing:1" is not present' in condition(refused, "SpecAccepted")["message"]
    goes_on(topology, topology.report(pod)["batch"])
    assert driver_name(topology) == pod
    patch(topology, worker={"image": None, "imagePullPolicy": None}, startTimeoutSeconds=None)
    wait_for_state(topology, "Active")


def test_paused_it_runs_on_as_it_was(topology):
    pod = driver_name(topology)
    topology.run("annotate", "topology", NAME, "fulmen.dev/paused=true")
    topology.wait(
        "topology",
        NAME,
        lambda found: condition(found, "Reconciling").get("reason") == "Paused",
        60,
        "paused",
    )
    plan = topology.get("configmap", f"{NAME}-revision")
    topology.run("scale", "topology", NAME, "--replicas=1")
    goes_on(topology, topology.report(pod)["batch"])
    assert topology.get("configmap", f"{NAME}-revision") == plan
    topology.run("scale", "topology", NAME, "--replicas=2")
    topology.run("annotate", "topology", NAME, "fulmen.dev/paused-")
    wait_for_state(topology, "Active")
    assert driver_name(topology) == pod


def test_better_code_that_is_applied_replaces_the_driver(topology, tmp_path):
    """The code is in a ConfigMap before that, and then in four: it has become large."""
    pod = driver_name(topology)
    better = shutil.copytree(FILE.parent, tmp_path / "better") / FILE.name
    with better.with_suffix(".py").open("a") as code:
        code.write("\n# better\n")
    model = better.parent / "model"
    model.mkdir()
    (model / "__init__.py").touch()
    (model / "weights").write_bytes(random.Random(1).randbytes(3_000_000))
    *sources, changed = yaml.safe_load_all(manifest(better, option="--config-map"))
    topology.run("create", "-f", "-", content="---\n".join(map(yaml.safe_dump, sources)))
    patch(topology, code={"configMap": None, **changed["spec"]["code"]})
    topology.wait_any(
        "pods",
        PODS + "driver",
        lambda found: found["metadata"]["name"] != pod and report_in(found)["phase"] == "Active",
        300,
        "replaced",
    )
    wait_for_state(topology, "Active")
    worker = topology.list("pods", PODS + "worker")[0]["metadata"]["name"]
    for pod in (driver_name(topology), worker):
        show = "cd /var/fulmen/code; cat numbered.py; wc -c model/*"
        shown = topology.exec(pod, "sh", "-c", show)
        assert "\n# better\n" in shown
        assert "3000000 model/weights" in shown


def test_killed_without_an_operator_and_made_again_it_carries_on(topology, tmp_path):
    """Nobody suspends it, so it is deleted when the time is over, and its driver drains."""
    last = topology.report(driver_name(topology))["batch"]
    with operators.none():
        said = fulmen(topology, "kill", NAME, "-w", "1")
        assert "although it was not suspended, but Active, after 1 s." in said
        eventually(
            lambda: topology.list("pods,secrets,configmaps", f"fulmen.dev/topology={NAME}"),
            lambda left: not left,
            180,
            "gone, all that belonged to it",
        )
    found = committed(topology, f"{NAME}-checkpoint", tmp_path / "checkpoint")
    assert found.manifest.number >= last
    assert found.pending() == NOTHING_PENDING
    config = "spec.spouts[sentences].config"
    topology.apply(manifest(FILE, f"{config}.count={SENTENCES}", f"{config}.rate=1000"))
    found = wait_for_state(topology, "Active")
    assert found["status"]["lastBatch"] >= last


def test_every_word_is_counted_exactly_once(topology):
    assert all_counted(topology, SENTENCES, 300) == expected(SENTENCES)


def test_killed_when_its_trees_have_ended(topology):
    assert "Its pending trees had ended." in fulmen(topology, "kill", NAME)
    assert topology.get("topology", NAME) is None
    assert topology.get("pvc", f"{NAME}-checkpoint") is not None
