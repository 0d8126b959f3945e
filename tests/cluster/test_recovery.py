"""One topology loses process after process, and counts every word exactly once all the same."""

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

SENTENCES = 12_000
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
    topology.delete("pod", driver_name(topology), "--grace-period=0", "--force")
    goes_on(topology, before["batch"])
    topology.wait("topology", NAME, is_ready, 180, "Ready again")


def test_every_word_is_counted_exactly_once(topology):
    assert all_counted(topology, SENTENCES, 400) == expected(SENTENCES)
