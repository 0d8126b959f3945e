"""One topology loses operator, API server and node, and counts every word exactly once.

What kills of single processes and pods do: test_chaos.py, test_transactions.py, test_memory.py.
"""

import json
import time
from urllib.request import urlopen

import pytest

from fulmen.kube.contract import ATTEMPT_LABEL, METRICS_PORT
from support.cluster import cluster_images, operators
from support.cluster.kube import condition, eventually, is_ready, samples, total
from support.cluster.numbered import (
    NAME,
    PODS,
    SINGLE_POD,
    all_counted,
    apply,
    driver,
    driver_name,
    expected,
    goes_on,
    report_in,
)
from support.cluster.troubles import TOLD_SECONDS, seconds_between, told, unscheduled, wait_for

OWN = f"fulmen.dev/topology={NAME}"
SENTENCES = 20_000
"""Of each of two tasks; at 20 in a second they last for all that is done to them."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    apply(kube, SENTENCES, 20, *SINGLE_POD)
    return kube


def test_the_driver_is_evicted(topology):
    """SIGTERM: it ends after a commit, and the next one goes on from there."""
    before, name = report_in(driver(topology)), driver_name(topology)
    topology.delete("pod", name, "--wait=false")
    ended = topology.wait(
        "pod",
        name,
        lambda pod: "terminated" in pod["status"]["containerStatuses"][0]["state"],
        90,
        "ended",
    )
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 143
    assert json.loads(state["message"])["reason"] == "Terminated"
    assert "was committed" in state["message"]
    goes_on(topology, before["batch"], but=name)


@pytest.fixture(scope="class")
def two_operators(operator):
    """Two of them; one leads. The second one comes by an upgrade that leaves the first as it is."""
    before = operators.leader()
    operators.install("replicas=2")
    assert operators.leader() == before
    yield operator
    operators.install()


class TestTwoOperators:
    def test_leader_and_driver_are_deleted_together(self, topology, two_operators):
        """The other operator goes on. The topology's status is lost as well.

        Attempts go on from the last, and no secret outlives its driver. The last may be known by
        nothing any more but its number, which the next driver then has too.
        """
        last, first_leader = driver(topology), operators.leader()
        before, name, uid = report_in(last), last["metadata"]["name"], uid_of(last)
        two_operators.delete("pod", first_leader, "--grace-period=0", "--force")
        remove = json.dumps([{"op": "remove", "path": "/status"}])
        status = ("--subresource=status", "--type=json", "-p", remove)
        topology.run("patch", "topology", NAME, *status)
        topology.delete("pod", name, "--grace-period=0", "--force")
        goes_on(topology, before["batch"], but=uid)
        assert operators.leader() not in ("", first_leader)
        found = topology.wait("topology", NAME, is_ready, 180, "Ready again")
        assert found["status"]["attempt"] == attempt_of(driver(topology)) >= attempt_of(last)
        eventually(
            lambda: (
                {owner_of(secret) for secret in topology.list("secrets", OWN)},
                {uid_of(pod) for pod in topology.list("pods", PODS + "driver")},
            ),
            lambda seen: seen[0] == seen[1] and uid_of(driver(topology)) in seen[0],
            60,
            "left with a secret for each driver: one runs, one may be kept for its log",
        )

    def test_the_leader_is_stopped_for_a_while(self, topology, two_operators, kubelet):
        """The other one leads. The first one wakes, has not ended meanwhile, and leads no more."""
        pods, first, pod = operators.pods(), operators.leader(), driver(topology)
        with operators.stopped(first):
            topology.patch("topology", NAME, {"spec": {"maxSpoutPending": 4800}})
            topology.wait("topology", NAME, is_ready, 60, "Ready by what it was told since")
            second = operators.leader()
        leads = [
            total(two_operators.metrics(name, 9465), "fulmen_operator_leader")
            for name in (first, second)
        ]
        assert leads == [0, 1]
        assert (operators.leader(), operators.pods()) == (second, pods)
        assert uid_of(driver(topology)) == uid_of(pod)


def owner_of(thing):
    """The uid of what an object goes with."""
    (owner,) = thing["metadata"]["ownerReferences"]
    return owner["uid"]


def test_a_node_stops_answering_and_comes_back(topology, kubelet):
    """Its containers run on. The next driver is made, fences the last one, and goes on from it."""
    pod = driver(topology)
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    with kubelet():
        topology.wait("node", node, does_not_answer, 240, "lost")
        # Kubernetes does so itself, unless it has lost all nodes: then it evicts nothing any more.
        topology.run("taint", "node", node, f"{UNREACHABLE}:NoExecute", "--overwrite")
        replaced = topology.wait_any(
            "pods",
            PODS + "driver",
            lambda found: attempt_of(found) > attempt_of(pod),
            240,
            "replaced by another driver",
        )
        assert replaced["status"]["phase"] == "Pending"
        before = report_in(topology.get("pod", name))
    goes_on(topology, before["batch"], but=name)


UNREACHABLE = "node.kubernetes.io/unreachable"
"""A taint, which is gone when the node answers again."""


def does_not_answer(node):
    conditions = node["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "Unknown" for c in conditions)


def test_a_paused_driver_wakes_when_another_has_taken_over(topology):
    """It can't commit any more, and ends. The next one takes over from both."""
    pod = driver(topology)
    before, name = report_in(pod), pod["metadata"]["name"]
    for process in ("python3", "java"):
        topology.exec(name, "pkill", "-STOP", process)
    topology.apply(double(pod))
    look = ("python3", "-m", "fulmen.checkpoint", "file:///checkpoint")
    eventually(
        lambda: topology.exec("double", *look),
        lambda text: "made by 'double, " in text,
        60,
        "taken over by the other",
    )
    for process in ("java", "python3"):
        topology.exec(name, "pkill", "-CONT", process)
    topology.wait("pod", name, is_fenced, 120, "fenced by the other")
    topology.delete("pod", "double", "--grace-period=0", "--force")
    goes_on(topology, before["batch"], but=name)


def double(pod):
    """Another driver of the same topology, of which the operator knows nothing."""
    spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
    spec["volumes"] = [v for v in spec["volumes"] if "projected" not in v]
    kept = {volume["name"] for volume in spec["volumes"]}
    container = dict(spec["containers"][0])
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] in kept]
    container["env"] = [
        {"name": "FULMEN_ATTEMPT", "value": "99"} if e["name"] == "FULMEN_ATTEMPT" else e
        for e in container["env"]
    ]
    metadata = {"name": "double", "labels": {"double": "yes"}}
    spec["containers"] = [container]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def is_fenced(pod):
    """Whether the driver in this pod has ended because of another."""
    for status in pod["status"].get("containerStatuses", ()):
        ended = status["state"].get("terminated")
        if ended is not None:
            assert ended["exitCode"] == 4, ended
            return json.loads(ended["message"])["reason"] == "Fenced"
    return False


def test_workers_get_pods_of_their_own(topology):
    """What follows is about them, too."""
    before, name = report_in(driver(topology)), driver_name(topology)
    apply(topology, SENTENCES, 20)
    goes_on(topology, before["batch"], but=name)
    topology.wait("topology", NAME, is_placed, 180, "placed")
    eventually(  # before that it is on trial, and would have to be as fast as what follows says
        lambda: report_in(driver(topology)),
        lambda report: report.get("committed"),
        60,
        "known to work",
    )


def is_placed(found):
    return is_ready(found) and condition(found, "Placed").get("status") == "True"


def test_workers_that_find_no_node_any_more(topology):
    """Their driver stays, says so, and goes on when there is a node again."""
    before = topology.get("topology", NAME)["status"]
    topology.patch("topology", NAME, {"spec": {"startTimeoutSeconds": 5}})
    node = topology.get("pod", before["driverPod"])["spec"]["nodeName"]
    topology.run("cordon", node)
    try:
        topology.delete_all("pods", PODS + "worker", "--now")
        for kind in ("Placed", "Ready"):
            assert "unschedulable" in wait_for(topology, NAME, kind, "Unschedulable")
        event = told(topology, NAME, "Unschedulable")
        assert seconds_between(unscheduled(topology, NAME, "worker"), event) <= TOLD_SECONDS
    finally:
        topology.run("uncordon", node)
        topology.patch("topology", NAME, {"spec": {"startTimeoutSeconds": None}})
    found = topology.wait("topology", NAME, is_ready, 300, "Ready")
    assert found["status"]["attempt"] == before["attempt"]


def test_the_api_server_is_away_for_a_minute(topology, operator, api_server):
    """Batches are committed all the while. Nothing is started anew, during it or after it."""
    pod, operators_pods = driver(topology), operators.pods()
    began = time.monotonic()
    with api_server():
        first = batches_of(pod)
        eventually(
            lambda: (batches_of(pod), time.monotonic() - began),
            lambda now: now[0] > first + 20 and now[1] > 60,
            150,
            "20 batches further, after a minute",
        )
    goes_on(topology, report_in(pod)["batch"] + 20)
    topology.patch("topology", NAME, {"spec": {"maxSpoutPending": 5000}})
    topology.wait("topology", NAME, is_ready, 180, "Ready by what it was told since")
    assert uid_of(driver(topology)) == uid_of(pod)
    assert operators.pods() == operators_pods


def batches_of(pod):
    """How many batches a driver has committed, as it says itself."""
    url = f"http://{pod['status']['podIP']}:{METRICS_PORT}/metrics"
    with urlopen(url, timeout=10) as answer:
        return total(samples(answer.read().decode()), "fulmen_batches_total")


def uid_of(pod):
    return pod["metadata"]["uid"]


def test_the_node_is_drained(topology):
    """All pods are evicted, the operator's as well; they come back when there is a node."""
    pod = driver(topology)
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    topology.apply(budget(topology.list("pods", PODS + "worker")[0]))
    try:
        drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
        topology.run(*drain, seconds=180)
        assert topology.get("pod", name) is None
    finally:
        topology.run("uncordon", node)
        topology.delete("pdb", "workers")
    goes_on(topology, report_in(pod)["batch"], but=name)


def budget(worker):
    """One worker at least: it goes only with its driver."""
    names = ("fulmen.dev/topology", "app.kubernetes.io/component")
    labels = {name: worker["metadata"]["labels"][name] for name in names}
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    metadata = {"name": "workers"}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return {**kind, "metadata": metadata, "spec": spec}


def attempt_of(pod):
    return int(pod["metadata"]["labels"][ATTEMPT_LABEL])


def test_the_operator_is_uninstalled_comes_in_another_version_and_is_upgraded(topology, operator):
    """Topologies to come get another runtime. What runs keeps its own, and goes on meanwhile."""
    pod, before = driver(topology), pods_of(topology)
    operators.uninstall()
    goes_on(topology, report_in(pod)["batch"])
    with operators.another("runtime.image=fulmen:next", "resources.limits.memory=300Mi"):
        assert operators.images() == {cluster_images.NEXT_OPERATOR}
        topology.patch("topology", NAME, {"spec": {"maxSpoutPending": 4500}})
        topology.wait("topology", NAME, is_ready, 180, "Ready by what it was told since")
        goes_on(topology, report_in(pod)["batch"])
        assert pods_of(topology) == before
    assert operators.images() == {cluster_images.OPERATOR}
    topology.patch("topology", NAME, {"spec": {"maxSpoutPending": 4600}})
    topology.wait("topology", NAME, is_ready, 180, "Ready by what it was told since")
    assert pods_of(topology) == before


def pods_of(kube):
    """The driver's pod and the workers', and how often their containers were started anew."""
    attempt = attempt_of(driver(kube))
    return {
        uid_of(pod): [status["restartCount"] for status in pod["status"]["containerStatuses"]]
        for part in ("driver", "worker")
        for pod in kube.list("pods", f"{PODS}{part},{ATTEMPT_LABEL}={attempt}")
    }


def test_every_word_is_counted_exactly_once(topology):
    apply(topology, SENTENCES, 4000)
    assert all_counted(topology, SENTENCES, 400) == expected(SENTENCES)


def test_deleted_in_the_foreground_it_is_gone_at_once_and_its_checkpoint_stays(topology):
    claim = topology.get("pvc", f"{NAME}-checkpoint")
    topology.delete("topology", NAME, "--cascade=foreground")
    assert topology.get("topology", NAME) is None
    workers = "app.kubernetes.io/component=worker"
    assert topology.list("secrets,configmaps,roles", OWN) == []
    assert topology.list("pods", f"{OWN},{workers.replace('=', '!=')}") == []
    eventually(  # they are the driver's, and Spark lets it go before them
        lambda: topology.list("pods", f"{OWN},{workers}"), lambda left: not left, 60, "gone"
    )
    kept = topology.get("pvc", f"{NAME}-checkpoint")
    assert kept["metadata"]["uid"] == claim["metadata"]["uid"]
    assert "deletionTimestamp" not in kept["metadata"]
