"""A topology gets another worker when there is more to do, and gives it back: all of it live."""

import json
from pathlib import Path

import pytest

from support.cluster import api_reads
from support.cluster.kube import eventually, is_ready
from support.cluster.numbered import START_SECONDS, fulmen, manifest

NAME = "working"
FILE = Path(__file__).parent / "topologies" / "working.yaml"
MUCH, LITTLE = 40, 2
"""Jobs in a second of each of two tasks, of which one worker can do 50 in all."""
SCALED_SECONDS = 240

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    kube.apply(manifest(FILE))
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    return kube


def emit(kube, rate):
    """Have the spout emit so many jobs in a second from now on."""
    path = "/spec/spouts/0/config/rate"
    change = json.dumps([{"op": "replace", "path": path, "value": rate}])
    kube.run("patch", "topology", NAME, "--type=json", "-p", change)


def wait_for(kube, workers):
    """Until there are so many workers, which are ready and host all that they should."""

    def is_there(found):
        status = found["status"]
        counts = {"desired": workers, "ready": workers}
        placed = next(c for c in status["conditions"] if c["type"] == "Placed")
        return is_ready(found) and status["workers"] == counts and placed["status"] == "True"

    return kube.wait("topology", NAME, is_there, SCALED_SECONDS, f"{workers} workers")


def shown(kube, pod):
    """What the driver's page says of it."""
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{pod}:9464/proxy/api/topology"
    return json.loads(api_reads.text(path))["autoscale"]


def test_it_grows_with_its_load_and_shrinks_again_without_a_restart(topology):
    found = wait_for(topology, 1)
    assert found["status"]["autoscale"]["workers"] == 1
    driver = found["status"]["driverPod"]
    emit(topology, MUCH)
    found = wait_for(topology, 2)
    hosts = [row for row in found["status"]["assignment"] if row["worker"] >= 0]
    assert all(any("work[" in name for name in row["executors"]) for row in hosts)
    emit(topology, LITTLE)
    found = wait_for(topology, 1)
    assert found["status"]["driverPod"] == driver
    assert found["status"]["restarts"]["count"] == 0
    assert found["spec"]["workers"] == 1
    assert found["status"]["autoscale"]["direction"] == "Down"
    for change in ("1 to 2 workers: ", "2 to 1 workers: "):  # told after the status is written
        eventually(
            lambda: [e["message"] for e in topology.events(NAME) if e["reason"] == "Scaled"],
            lambda told, change=change: any(message.startswith(change) for message in told),
            30,
            f"an event: {change}",
        )


def test_a_number_that_is_set_by_hand_counts_at_once(topology):
    topology.run("scale", "topology", NAME, "--replicas=2")
    found = wait_for(topology, 2)
    assert found["status"]["autoscale"]["lastChange"] == "spec.workers is 2"
    assert "autoscale: 2 workers since" in fulmen(topology, "top", NAME, "--once")
    eventually(
        lambda: shown(topology, found["status"]["driverPod"]),
        lambda said: said["last_change"] == "spec.workers is 2",
        30,
        "on the page",
    )
