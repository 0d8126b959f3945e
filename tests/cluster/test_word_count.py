"""The word count on pods, from `kubectl apply` to its counts, as a reader of the README does it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fulmen.kube.contract import DRIVER, REPORT_ANNOTATION, WORKER_LABEL
from support.cluster.cluster_images import ROOT
from support.cluster.kube import condition, eventually, is_ready, total

EXAMPLE = ROOT / "examples" / "word-count" / "topology.yaml"
NAME = "word-count"
DRIVER_POD = f"{NAME}-driver-1"
WORKERS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=worker"
COUNT_LINES = """
import sysconfig
from wordcount import lines_of, text_files
print(sum(len(lines_of(file)) for file in text_files(sysconfig.get_path("stdlib"))))
"""
VERIFY = """
cd /opt/fulmen/code
folder=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
fulmen state get file:///checkpoint count -o json | python3 verify.py "$folder"
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def topology(operator, kube):
    """The word count, applied and Ready."""
    manifest = [Path(sys.executable).with_name("fulmen"), "manifest", EXAMPLE]
    text = subprocess.run(manifest, check=True, capture_output=True, text=True).stdout
    kube.apply(text)
    return kube.wait(
        "topology",
        NAME,
        lambda found: is_ready(found) and condition(found, "Placed").get("status") == "True",
        300,
        "Ready and Placed",
    )


@pytest.fixture(scope="module")
def counted(topology, kube):
    """The number of lines, when all of them are acked."""
    command = ("env", "PYTHONPATH=/opt/fulmen/code", "python3", "-c", COUNT_LINES)
    lines = int(kube.exec(DRIVER_POD, *command))
    eventually(
        lambda: kube.metrics(DRIVER_POD),
        lambda metrics: total(metrics, "fulmen_acked_total", component="lines") >= lines,
        300,
        f"{lines} lines acked",
    )
    return lines


def test_each_word_is_counted_as_often_as_it_is_there(counted, kube):
    assert "were counted right" in kube.exec(DRIVER_POD, "sh", "-c", VERIFY, seconds=120)


def test_ackers_saw_every_tree_acked_and_none_fail(counted, kube):
    metrics = kube.metrics(DRIVER_POD)
    assert total(metrics, "fulmen_acker_trees_acked_total") == counted
    assert total(metrics, "fulmen_acker_trees_failed_total") == 0
    assert total(metrics, "fulmen_acker_executed_total") > counted


def test_placement_is_as_planned(counted, kube):
    rows = kube.get("topology", NAME)["status"]["assignment"]
    planned = {row["worker"]: row["planned"] for row in rows}
    report = kube.report(DRIVER_POD)
    assert {hosted["worker"]: hosted["executors"] for hosted in report["workers"]} == planned
    pods = [pod["metadata"] for pod in kube.list("pods", WORKERS)]
    labelled = {int(pod["labels"][WORKER_LABEL]): pod["name"] for pod in pods}
    assert labelled == {hosted["worker"]: hosted["pod"] for hosted in report["workers"]}


def test_state_stays_in_the_one_process_of_its_worker(counted, kube):
    metrics = kube.metrics(DRIVER_POD)
    assert total(metrics, "fulmen_failed_attempts_total") == 0
    assert total(metrics, "fulmen_restored_tasks_total") == 0


def test_no_secret_is_in_an_environment_or_a_log(counted, kube):
    secrets = kube.list("secrets", f"fulmen.dev/topology={NAME}")
    texts = [kube.exec(DRIVER_POD, "env"), kube.run("logs", DRIVER_POD)]
    for pod in kube.list("pods", WORKERS):
        texts += [kube.exec(pod["metadata"]["name"], "env"), json.dumps(pod)]
    secret = kube.exec(DRIVER_POD, "cat", "/etc/fulmen/auth/secret").strip()
    assert secrets
    assert secret
    assert not any(secret in text for text in texts)
    assert not any("SPARK_AUTH_SECRET" in text for text in texts)


def test_the_report_is_small(counted, kube):
    pod = kube.get("pod", DRIVER_POD)
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == DRIVER
    report = json.loads(pod["metadata"]["annotations"][REPORT_ANNOTATION])
    assert report["phase"] == "Active"
    assert report["epoch"] >= 1
    assert report["batch"] > 0
    assert report["tasks"] == {"__acker": 2, "count": 4, "lines": 2, "split": 2}
