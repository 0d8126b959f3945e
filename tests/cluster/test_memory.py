"""One topology that runs out of memory: in its driver, and then in its worker."""

import pytest

from support.cluster.kube import eventually, is_ready
from support.cluster.numbered import FILE, START_SECONDS, manifest, state

NAME = "hungry"
NUMBERS = 100
MEAL = NUMBERS // 2

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def topology(operator, kube):
    """A package with data in it: it comes to the pods packed."""
    file = FILE.parents[1] / "hungry" / "hungry.yaml"
    kube.apply(manifest(file, option="--config-map"))
    return kube


def test_a_driver_with_too_little_memory_until_it_gets_more(topology):
    found = topology.wait(
        "topology",
        NAME,
        lambda found: found.get("status", {}).get("restarts", {}).get("cause") == "OOMKilled",
        180,
        "restarted, for lack of memory",
    )
    assert "raise its memory limit" in found["status"]["restarts"]["message"]
    assert not is_ready(found)
    enough = {"resources": {"limits": {"memory": "3Gi"}}}
    topology.patch("topology", NAME, {"spec": {"driver": enough}})
    topology.wait("topology", NAME, is_ready, START_SECONDS, "Ready")


def test_a_tuple_that_takes_more_memory_than_its_worker_has(topology):
    """It fails, and it alone."""
    pod = topology.get("topology", NAME)["status"]["driverPod"]
    counted = eventually(
        lambda: state(topology, pod, "count"),
        lambda found: len(found) >= NUMBERS - 1,
        300,
        "all counted but one",
    )
    assert counted == {number: 1 for number in range(NUMBERS) if number != MEAL}
    failed = eventually(lambda: state(topology, pod, "meals"), len, 120, "told what failed")
    assert list(failed) == [MEAL]
