"""One topology loses process after process, and counts every word exactly once all the same."""

import json

import pytest

from support.kube import is_ready
from support.numbered import (
    NAME,
    all_counted,
    apply,
    driver,
    driver_name,
    expected,
    goes_on,
    report_in,
)

SENTENCES = 18_000
"""Of each of two tasks; at 100 in a second they last for all that is done to them."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    apply(kube, SENTENCES, 100)
    return kube


def test_a_python_process_is_killed(topology):
    before = report_in(driver(topology))
    worker = before["workers"][0]["pod"]
    topology.exec(worker, "pkill", "-9", "-n", "-f", "pyspark.daemon")
    after = goes_on(topology, before["batch"])
    assert report_in(after)["workers"] == before["workers"]


def test_a_worker_pod_is_deleted_at_once(topology):
    before = report_in(driver(topology))
    lost = before["workers"][1]
    topology.delete("pod", lost["pod"], "--grace-period=0", "--force")
    topology.wait(
        "pod",
        driver_name(topology),
        lambda pod: (
            lost["pod"] not in [worker["pod"] for worker in report_in(pod)["workers"]]
            and [worker["executors"] for worker in report_in(pod)["workers"]]
            == [worker["executors"] for worker in before["workers"]]
            and all(worker["pod"] for worker in report_in(pod)["workers"])
        ),
        120,
        "hosted by another pod",
    )
    goes_on(topology, before["batch"])


def test_a_workers_java_process_is_killed(topology):
    before = report_in(driver(topology))
    topology.exec(before["workers"][0]["pod"], "pkill", "-9", "java", check=False)
    goes_on(topology, before["batch"])


def test_the_driver_pod_is_deleted_at_once(topology):
    pod = driver(topology)
    before, name = report_in(pod), pod["metadata"]["name"]
    topology.delete("pod", name, "--grace-period=0", "--force")
    after = goes_on(topology, before["batch"], but=name)
    assert report_in(after)["epoch"] > before["epoch"]


def test_the_driver_is_killed(topology):
    before, name = report_in(driver(topology)), driver_name(topology)
    topology.exec(name, "pkill", "-9", "-f", "fulmen.kube", check=False)
    goes_on(topology, before["batch"], but=name)


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


def test_operator_and_driver_are_deleted_together(topology, operator):
    before, name = report_in(driver(topology)), driver_name(topology)
    selector = "app.kubernetes.io/name=fulmen-operator"
    operator.run("delete", "pods", "-l", selector, "--grace-period=0", "--force")
    topology.delete("pod", name, "--grace-period=0", "--force")
    goes_on(topology, before["batch"], but=name)
    topology.wait("topology", NAME, is_ready, 180, "Ready again")


def test_two_drivers_at_once(topology):
    """Only the newer one commits. The older one ends, and the next one takes over from both."""
    pod = driver(topology)
    before, name = report_in(pod), pod["metadata"]["name"]
    topology.apply(double(pod))
    topology.wait("pod", name, is_fenced, 120, "fenced by the other")
    goes_on(topology, before["batch"], but=name)
    topology.delete("pod", "double", "--grace-period=0", "--force")


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


def test_every_word_is_counted_exactly_once(topology):
    assert all_counted(topology, SENTENCES, 400) == expected(SENTENCES)
