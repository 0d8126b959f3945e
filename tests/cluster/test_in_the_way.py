"""What others do around a topology: they refuse its pods, and have its names."""

import json
import time

import pytest

from fulmen.kube.contract import MANAGER
from support.cluster import api_reads
from support.cluster.kube import condition, eventually, is_ready
from support.cluster.others import CONTENT, left, theirs
from support.cluster.troubles import apply, told, wait_for, wait_for_pod

pytestmark = pytest.mark.timeout(600)


# ---- a topology that runs, and that has an object of each kind

RUNNING = "running"
WORKERS = f"fulmen.dev/topology={RUNNING},app.kubernetes.io/component=worker"
KINDS = (
    "serviceaccount,role,rolebinding,networkpolicy,service,persistentvolumeclaim,configmap,pod"
    ",secret"
)


@pytest.fixture(scope="module")
def running(operator, kube):
    """The (kind, name) of all that was made for it and for its first driver, but its workers."""
    apply(kube, RUNNING, "spec.networkPolicy=Restrict", "spec.service.ports=[8080]")
    kube.wait("topology", RUNNING, is_ready, 300, "Ready")
    children = [
        (thing["kind"], thing["metadata"]["name"])
        for thing in kube.list(KINDS, f"fulmen.dev/topology={RUNNING}")
        if thing["metadata"]["labels"].get("app.kubernetes.io/component") != "worker"
    ]
    yield children
    kube.delete("topology", RUNNING, "--ignore-not-found")


def test_workers_that_a_policy_of_the_cluster_refuses(kube, running):
    """They are told in the policy's words, and come when it is gone.

    By then Spark may have given up, and the driver may have been started anew.
    """
    kube.apply(*policy(kube.namespace))
    try:
        worker = kube.list("pods", WORKERS)[0]
        again = {**worker, "metadata": {"name": "again", "labels": worker["metadata"]["labels"]}}
        eventually(lambda: refusal_of(kube, again), lambda said: NO_WORKERS in said, 60, "in force")
        kube.delete_all("pods", WORKERS, "--now")
        assert NO_WORKERS in wait_for(kube, RUNNING, "Placed", "WorkerRefused")
        assert NO_WORKERS in told(kube, RUNNING, "WorkerRefused")["message"]
    finally:
        for thing in policy(kube.namespace):
            kube.delete(thing["kind"].lower(), thing["metadata"]["name"])
    wait_for_pod(kube, RUNNING, "worker")


NO_WORKERS = "no workers on Sundays"


def policy(namespace):
    """One that refuses the workers of that topology, and what puts it in force."""
    admission = "admissionregistration.k8s.io/v1"
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    labels = dict(label.split("=") for label in WORKERS.split(","))
    of_it = {
        "resourceRules": [pods],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": labels},
    }
    name = f"{namespace}-workers"
    return [
        {
            "apiVersion": admission,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": of_it,
                "validations": [{"expression": "false", "message": NO_WORKERS}],
            },
        },
        {
            "apiVersion": admission,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def refusal_of(kube, pod, user=""):
    """What the API server says against a pod of a user; empty if it would take it."""
    content = {key: pod[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    spec = {key: value for key, value in content["spec"].items() if key != "nodeName"}
    return api_reads.refusal("pod", kube.namespace, {**content, "spec": spec}, user)


DRIVER = f"system:serviceaccount:test-in-the-way:{RUNNING}-driver"
CONTAINER = ("spec", "containers", 0)


def changed(pod, path, value):
    """The pod with another value at a place."""
    made = json.loads(json.dumps(pod))
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


NOT_WORKERS = [
    (("metadata", "name"), "web"),
    (("metadata", "ownerReferences"), []),
    (("spec", "automountServiceAccountToken"), True),
    (("spec", "hostPID"), True),
    (("spec", "volumes", 0), {"name": "node", "hostPath": {"path": "/"}}),
    (("spec", "securityContext"), {"runAsNonRoot": True}),
    ((*CONTAINER, "securityContext"), {"privileged": True}),
    ((*CONTAINER, "securityContext", "capabilities"), {"drop": ["ALL"], "add": ["SYS_PTRACE"]}),
    ((*CONTAINER, "lifecycle"), {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 1}}}),
]
"""What makes a worker's pod another one, or lets it reach the node."""


def test_a_driver_may_make_no_pods_but_its_workers(kube, running):
    """Nothing is made: the API server is asked, in a namespace that enforces no pod security."""
    worker = kube.list("pods", WORKERS)[0]
    meta = {field: worker["metadata"][field] for field in ("labels", "ownerReferences")}
    again = {**worker, "metadata": {**meta, "name": f"{RUNNING}-1-exec-99"}}
    spec = {**worker["spec"], "volumes": [{"name": "first", "emptyDir": {}}]}
    again["spec"] = {**spec, "containers": [{**spec["containers"][0], "volumeMounts": []}]}
    kube.run("label", "namespace", kube.namespace, "pod-security.kubernetes.io/enforce-")
    try:
        assert refusal_of(kube, again, DRIVER) == ""
        others = [changed(again, path, value) for path, value in NOT_WORKERS]
        assert [text for other in others if (text := refusal_of(kube, other))] == []
        said = [refusal_of(kube, other, DRIVER) for other in others]
        assert [text for text in said if "denied request" not in text] == []
    finally:
        restricted = "pod-security.kubernetes.io/enforce=restricted"
        kube.run("label", "namespace", kube.namespace, restricted)


def test_a_driver_may_label_pods_and_not_change_what_they_run(kube, running):
    name = kube.list("pods", WORKERS)[0]["metadata"]["name"]
    kube.run("label", "pod", name, "example.com/seen=yes", "--as", DRIVER)
    images = [{"name": "worker", "image": "other"}]
    change = json.dumps({"spec": {"containers": images}})
    with pytest.raises(AssertionError, match="not change what runs in them"):
        kube.run("patch", "pod", name, "-p", change, "--as", DRIVER)


def test_a_driver_that_its_node_ends_says_so_and_another_one_follows(kube, running):
    """As the kubelet ends one whose probes get no answer: by a signal, and no deletion."""
    topology = kube.wait("topology", RUNNING, is_ready, 300, "Ready")
    kube.exec(f"{RUNNING}-driver-{topology['status']['attempt']}", "sh", "-c", "kill 1")
    assert "startup or liveness probe" in wait_for(kube, RUNNING, "Ready", "ProbeFailed")
    kube.wait("topology", RUNNING, is_ready, 300, "Ready again")


def test_a_claim_that_is_being_deleted_is_told_while_it_can_be_saved(kube, running):
    kube.delete("persistentvolumeclaim", f"{RUNNING}-checkpoint", "--wait=false")
    assert f"{RUNNING}-checkpoint" in wait_for(kube, RUNNING, "Stalled", "BeingDeleted")
    assert is_ready(kube.get("topology", RUNNING))


# ---- objects of others


LATER = ("Pod", "Secret")
"""Are needed only when there is all that a driver needs: the pod, and then its secret."""


def seen_of(kube, kind, name):
    """What somebody else has made of an object, and whether the operator has written to it."""
    path = api_reads.path_of(kind.lower(), kube.namespace, name)
    fields = json.loads(api_reads.text(path))["metadata"]["managedFields"]
    writers = {entry["manager"] for entry in fields}
    return left(kube, kind, name), MANAGER in writers


def test_objects_of_others_are_in_the_way_and_stay(kube, remove, running):
    """Whatever is done with the topology. When they are gone it starts."""
    kube.delete("topology", RUNNING, "--ignore-not-found")  # its room is needed
    remove("occupied")
    foreign = [(kind, name.replace(RUNNING, "occupied", 1)) for kind, name in running]
    assert {kind for kind, _ in foreign} == CONTENT.keys()
    kube.apply(*(theirs(kind, name) for kind, name in foreign))
    before = {(kind, name): seen_of(kube, kind, name) for kind, name in foreign}

    def stay():
        return {place: seen_of(kube, *place) for place in before} == before

    network = ("spec.networkPolicy=Restrict", "spec.service.ports=[8080]")
    settings = ("spec.checkpoint.deletionPolicy=Delete", *network)
    apply(kube, "occupied", *settings)
    message = wait_for(kube, "occupied", "Ready", "ObjectInTheWay")
    for kind, name in foreign:
        assert (in_the_way(kind, name) in message) == (kind not in LATER)
    assert stay()

    kube.patch("topology", "occupied", {"spec": {"state": "Suspended"}})
    kube.wait("topology", "occupied", is_observed, 180, "looked at, to be suspended")
    assert stay()
    kube.delete("topology", "occupied", "--cascade=foreground")
    assert stay()

    apply(kube, "occupied", *settings)
    wait_for(kube, "occupied", "Ready", "ObjectInTheWay")
    steps = [[place for place in foreign if place[0] not in LATER]]
    steps += [[place for place in foreign if place[0] == kind] for kind in LATER]
    for step, following in zip(steps, [*steps[1:], []], strict=True):
        assert all(seen_of(kube, *place) == before[place] for place in step)
        for kind, name in step:
            kube.delete(kind.lower(), name)
        look_again(kube, "occupied")
        for kind, name in following:
            words = in_the_way(kind, name)
            kube.wait(
                "topology",
                "occupied",
                lambda found, words=words: words in condition(found, "Ready")["message"],
                180,
                words,
            )
    wait_for_pod(kube, "occupied", "driver")


def in_the_way(kind, name):
    return f"{kind.lower()}/{name}"


def is_observed(topology):
    """Whether the operator has looked at this very spec."""
    return topology["status"].get("observedGeneration") == topology["metadata"]["generation"]


def look_again(kube, name):
    """Have the operator look at it now, not when half a minute is over."""
    kube.run("annotate", "topology", name, f"example.com/at={time.monotonic()}", "--overwrite")
