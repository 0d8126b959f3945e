"""From pods for workers to one pod with all: the same promises.

The other way: test_recovery.py.
"""

import re

import pytest

from support.cluster.kube import is_ready
from support.cluster.numbered import (
    FILE,
    NAME,
    SINGLE_POD,
    START_SECONDS,
    all_counted,
    driver_name,
    expected,
    goes_on,
    hurry,
    manifest,
)

SENTENCES, RATE = 6_000, 25
"""Of each of two tasks, and in a second: they last for all but the last step."""
ALL = f"fulmen.dev/topology={NAME}"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    """It ran in pods of its own, and has been told since to run in one."""
    config = "spec.spouts[sentences].config"
    settings = ("spec.workers=1", f"{config}.count={SENTENCES}", f"{config}.rate={RATE}")
    kube.apply(manifest(FILE, *settings))
    wait_for(kube, workers=1, pods=2)
    goes_on(kube, 1, workers=1)
    last = kube.report(driver_name(kube))["batch"]
    kube.apply(manifest(FILE, *settings, *SINGLE_POD))
    wait_for(kube, workers=1, pods=1)
    goes_on(kube, last, workers=1)
    return kube


def wait_for(kube, workers, pods):
    """Until so many workers are ready, in so many pods of the topology, the driver's included."""

    def is_there(found):
        running = {pod["metadata"]["name"] for pod in kube.list("pods", ALL)}
        wanted = {"desired": workers, "ready": workers}
        return is_ready(found) and found["status"]["workers"] == wanted and len(running) == pods

    return kube.wait("topology", NAME, is_there, START_SECONDS, f"{workers} in {pods} pods")


def test_one_pod_has_all_and_may_make_no_other(topology):
    found = wait_for(topology, workers=1, pods=1)
    name = driver_name(topology)
    assert {row["pod"] for row in found["status"]["assignment"]} == {name}
    role = topology.get("role", f"{NAME}-driver")
    [verbs] = [rule["verbs"] for rule in role["rules"] if rule["resources"] == ["pods"]]
    assert sorted(verbs) == ["get", "patch"]


def test_what_workers_print_is_in_the_log_of_the_pod(topology):
    log = topology.run("logs", driver_name(topology))
    assert re.search(r" INFO numbered: task 0 begins at sentence [1-9]\d*\n", log)


def test_another_worker_takes_part_while_it_runs(topology):
    before = driver_name(topology)
    topology.patch("topology", NAME, {"spec": {"workers": 2}})
    wait_for(topology, workers=2, pods=1)
    goes_on(topology, 1)
    assert driver_name(topology) == before


def test_every_word_is_counted_exactly_once(topology):
    hurry(topology)
    assert all_counted(topology, SENTENCES, 400) == expected(SENTENCES)
