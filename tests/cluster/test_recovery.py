"""One topology loses process after process, and counts every word exactly once all the same."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fulmen.kube.contract import REPORT_ANNOTATION
from support.kube import eventually, is_ready

NAME = "numbered"
FILE = Path(__file__).parent / "topologies" / "numbered.yaml"
SENTENCES, TASKS = 20_000, 2
PODS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component="

pytestmark = pytest.mark.timeout(900)


def expected():
    """What is counted in the end: worked out without any of the topology's code."""
    counts = Counter()
    for number in range(SENTENCES):
        counts.update(["all", f"w{number % 7}", f"w{number % 11}"])
    return {word: n * TASKS for word, n in counts.items()}


@pytest.fixture(scope="module")
def topology(operator, kube):
    manifest = [Path(sys.executable).with_name("fulmen"), "manifest", FILE]
    text = subprocess.run(manifest, check=True, capture_output=True, text=True).stdout
    kube.apply(text)
    kube.wait("topology", NAME, is_ready, 300, "Ready")
    return kube


def report_in(pod):
    """What the driver in this pod last said."""
    text = pod["metadata"].get("annotations", {}).get(REPORT_ANNOTATION)
    return json.loads(text) if text else {"phase": "", "batch": 0, "workers": []}


def driver(kube):
    """The pod of the newest driver."""
    pods = kube.list("pods", PODS + "driver")
    return max(pods, key=lambda pod: int(pod["metadata"]["labels"]["fulmen.dev/attempt"]))


def goes_on(kube, since, workers=2):
    """Wait until batches are committed again, by so many workers."""

    def is_on(pod):
        report = report_in(pod)
        return report["batch"] > since + 2 and len(report["workers"]) == workers

    return kube.wait_any("pods", PODS + "driver", is_on, 180, f"past batch {since}")


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
        driver(topology)["metadata"]["name"],
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
    before = report_in(pod)
    topology.delete("pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    after = goes_on(topology, before["batch"])
    assert report_in(after)["epoch"] > before["epoch"]
    assert after["metadata"]["name"] != pod["metadata"]["name"]


def test_the_driver_is_killed(topology):
    pod = driver(topology)
    before = report_in(pod)
    topology.exec(pod["metadata"]["name"], "pkill", "-9", "-f", "fulmen.kube", check=False)
    after = goes_on(topology, before["batch"])
    assert after["metadata"]["name"] != pod["metadata"]["name"]


def test_operator_and_driver_are_deleted_together(topology, operator):
    before = report_in(driver(topology))
    selector = "app.kubernetes.io/name=fulmen-operator"
    operator.run("delete", "pods", "-l", selector, "--grace-period=0", "--force")
    topology.delete("pod", driver(topology)["metadata"]["name"], "--grace-period=0", "--force")
    goes_on(topology, before["batch"])
    topology.wait("topology", NAME, is_ready, 180, "Ready again")


def test_every_word_is_counted_exactly_once(topology):
    def counts():
        name = driver(topology)["metadata"]["name"]
        command = ("fulmen", "state", "file:///checkpoint", "count", "-o", "json")
        entries = json.loads(topology.exec(name, *command))
        return {entry["key"]: entry["value"] for entry in entries}

    wanted = expected()
    found = eventually(
        counts, lambda found: sum(found.values()) >= sum(wanted.values()), 400, "all counted"
    )
    assert found == wanted
