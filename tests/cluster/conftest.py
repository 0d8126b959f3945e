"""One cluster for all tests: images once, one operator, a namespace for each file of tests."""

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster import operators
from support.cluster.kube import Kube
from support.cluster.metrics_api import running_metrics_api
from support.cluster.reasons import Seen
from support.cluster.requests import logged
from support.servers.kafka_server import running_kafka
from support.servers.postgres import running_postgres
from support.servers.s3 import running_s3
from support.suite.long_first import long_first

NEEDED = {
    "api_server": "API_SERVER_PID_FILE",
    "kafka": "MACHINE_ADDRESS",
    "kubelet": "KUBELET_PID_FILE",
    "metrics_api": "MACHINE_ADDRESS",
    "postgres": "MACHINE_ADDRESS",
    "requests": "API_SERVER_LOG",
    "s3": "MACHINE_ADDRESS",
}
"""What some clusters can't give: the fixture, and the variable that says that this one can."""
LAST = "test_afterwards.py"
ALONE = {"test_neighbours.py", "test_recovery.py", "test_rights.py", LAST}
"""They take the operator, the API server or the node away: nothing may run beside them."""
LONGEST = (
    "test_transactions.py",
    "test_lifecycle.py",
    "test_troubles.py",
    "test_checkpoint.py",
    "test_savepoints.py",
)
FOLDER = "FULMEN_CLUSTER_RUN"
"""Of `make test-cluster`, which builds, installs, and runs pytest twice: what each has seen."""


def pytest_itemcollected(item):
    if item.path.name in ALONE:
        item.add_marker("alone")


def pytest_collection_modifyitems(config, items):
    """Leave out what this cluster can't give; begin with what takes long.

    What all other tests have caused is looked at last.
    """
    lacking = {fixture for fixture, name in NEEDED.items() if not os.environ.get(name)}
    left_out = [
        item
        for item in items
        if lacking & set(getattr(item, "fixturenames", ())) or (lacking and item.path.name == LAST)
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    long_first(items, LONGEST)
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def cluster():
    """Skips where there is none."""
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("no cluster: KUBECONFIG is not set")
    done = subprocess.run(["kubectl", "version"], capture_output=True, text=True, timeout=30)
    if done.returncode:
        pytest.fail(f"the cluster of KUBECONFIG does not answer: {done.stderr}")


@pytest.fixture(scope="session")
def installed(cluster):
    """The operator of the images that were built now; `make test-cluster` has done it already."""
    if not os.environ.get(FOLDER):
        operators.build_and_install()


@pytest.fixture(scope="session")
def seen(installed):
    """What is seen of all topologies, and what was seen by earlier runs of the same tests."""
    with Seen(os.environ.get(FOLDER)) as seen:
        yield seen


@pytest.fixture(scope="session")
def requests(cluster):
    """What was asked of the API server, by whom."""
    with logged(Path(os.environ["API_SERVER_LOG"]), os.environ.get(FOLDER)) as requests:
        yield requests


@pytest.fixture(scope="session")
def operator(installed, seen, request):
    """The operator, installed as its users do, in its namespace."""
    if os.environ.get(NEEDED["requests"]):
        request.getfixturevalue("requests")
    return Kube(operators.SYSTEM)


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """An S3 server on this machine that pods reach."""
    with running_s3(tmp_path_factory.mktemp("s3"), os.environ["MACHINE_ADDRESS"]) as server:
        yield server


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL on this machine that pods reach, and that can be killed."""
    with running_postgres(os.environ["MACHINE_ADDRESS"]) as server:
        yield server


@pytest.fixture(scope="module")
def kafka():
    """A Kafka broker on this machine that pods reach, and that can be killed."""
    with running_kafka(os.environ["MACHINE_ADDRESS"]) as server:
        yield server


@pytest.fixture
def api_server():
    """Stops the API server's process for as long as a context is open: it does not answer."""
    return lambda: paused(NEEDED["api_server"])


@pytest.fixture
def kubelet():
    """Stops the kubelet's process for as long as a context is open: the node is lost."""
    return lambda: paused(NEEDED["kubelet"])


@contextmanager
def paused(variable):
    """Stop the process whose id is in the file that a variable names, until the context ends."""
    pid = int(Path(os.environ[variable]).read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def metrics_api(kube, tmp_path):
    """What autoscalers ask about the pods of the namespace, with answers that a test decides."""
    with running_metrics_api(kube, tmp_path, os.environ["MACHINE_ADDRESS"]) as usage:
        yield usage


@pytest.fixture(scope="module")
def kube(cluster, request):
    """A namespace that enforces restricted pod security; goes afterwards with all that is in it.

    That takes Kubernetes a while: only who needs its name next waits for it.
    """
    whole = Kube(request.module.__name__.rpartition(".")[2].replace("_", "-"))
    whole.delete_namespace()
    whole.make_namespace()
    yield whole
    whole.delete_namespace("--wait=false")


@pytest.fixture
def remove(operator, kube):
    """Names of topologies to be deleted after the test."""
    names = []
    yield names.append
    for name in names:
        kube.run("delete", "topology", name, "--ignore-not-found", seconds=180)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What the namespace and the operator say is part of a failure."""
    report = yield
    kube = item.funcargs.get("kube") if hasattr(item, "funcargs") else None
    if report.failed and kube is not None:
        report.sections.append((f"namespace {kube.namespace}", kube.said()))
        report.sections.append(("the operator", Kube(operators.SYSTEM).said()))
    return report
