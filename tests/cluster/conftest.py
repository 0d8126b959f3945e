"""One cluster for all tests: images once, one operator, a namespace for each file of tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import cluster_images
from support.kube import Kube

SYSTEM = "fulmen-system"
CHART = cluster_images.ROOT / "charts" / "fulmen"
HELM = Path(sys.executable).with_name("helm")
SAYS = pytest.StashKey[list]()


@pytest.fixture(scope="session")
def cluster():
    """Skips where there is none."""
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("no cluster: KUBECONFIG is not set")
    done = subprocess.run(["kubectl", "version"], capture_output=True, text=True, timeout=30)
    if done.returncode:
        pytest.fail(f"the cluster of KUBECONFIG does not answer: {done.stderr}")


@pytest.fixture(scope="session")
def images(cluster):
    cluster_images.build()


@pytest.fixture(scope="session")
def operator(cluster, images):
    """The operator, installed as its users do."""
    cluster_images.call(
        [
            *(str(HELM), "upgrade", "--install", "fulmen", str(CHART)),
            *("--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout", "3m"),
            "--take-ownership",  # of the definition, which an uninstalled release leaves behind
            *("--set", f"image={cluster_images.OPERATOR}"),
            *("--set", f"runtime.image={cluster_images.RUNTIME}"),
        ]
    )
    system = Kube(SYSTEM)
    deployment = "deployment/fulmen-operator"
    system.run("rollout", "restart", deployment)  # the tag of a new image is that of the old one
    system.run("rollout", "status", deployment, seconds=180)
    return system


@pytest.fixture(scope="module")
def kube(cluster, request):
    """A namespace that enforces restricted pod security; gone afterwards with all that is in it."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    whole = Kube(name)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    whole.run("delete", "namespace", name, "--ignore-not-found", seconds=180)
    whole.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    yield whole
    whole.run("delete", "namespace", name, "--ignore-not-found", seconds=180)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What the namespace and the operator say is part of a failure."""
    report = yield
    kube = item.funcargs.get("kube") if hasattr(item, "funcargs") else None
    if report.failed and kube is not None:
        report.sections.append((f"namespace {kube.namespace}", kube.said()))
        report.sections.append(("the operator", Kube(SYSTEM).said()))
    return report
