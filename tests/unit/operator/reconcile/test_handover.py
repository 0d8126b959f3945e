"""A driver that is replaced keeps its clients until the next one is ready."""

import pytest

from fulmen.kube import contract
from fulmen.kube.contract.reports import DriverPhase, Report
from fulmen.kube.contract.revisions import Directive
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary

SERVED = {"spec.service": {"ports": [8080]}}
OLD, NEW = "word-count-driver-1", "word-count-driver-2"


class Served(FakeCluster):
    """A cluster whose drivers hand over, and whose new drivers are not ready yet.

    Attributes:
        is_slow: Whether they are not.
    """

    is_slow = False

    def drive(self, pod):
        revision = self.revision
        attempt = int(pod["metadata"]["labels"][contract.ATTEMPT_LABEL])
        if attempt < self.status["attempt"]:
            return  # it keeps its clients, and what revisions say is not for it any more
        if revision.directive is Directive.DRAIN and revision.successor:
            finished = DriverPhase.FINISHED
            report = Report(phase=finished, generation=1, committed=True, hands_over=True)
            self.say(pod, report)
            return
        super().drive(pod)

    def run(self, pod):
        super().run(pod)
        if self.is_slow:
            self.set_status(pod, {"phase": "Running"})

    def drivers(self):
        return sorted(pod["metadata"]["name"] for pod in self.pods(contract.DRIVER))


@pytest.fixture
def cluster():
    cluster = Served({**CODE, **SERVED})
    cluster.settle()
    cluster.is_slow = True
    return cluster


def test_the_next_driver_starts_beside_the_last_one_which_goes_when_it_is_ready(cluster):
    cluster.change({**OTHER_CODE, **SERVED})
    cluster.settle()
    assert cluster.drivers() == [OLD, NEW]
    assert cluster.status["attempt"] == 2
    assert cluster.status["state"] == "Starting"
    ready = {"type": "Ready", "status": "True"}
    cluster.set_status(cluster.pod(NEW), {"phase": "Running", "conditions": [ready]})
    cluster.settle()
    assert cluster.drivers() == [NEW]
    assert summary(cluster) == ("Active", "True", "Active")


def test_a_driver_is_told_which_one_follows_it_while_it_drains_to_be_replaced(cluster):
    cluster.change({**OTHER_CODE, **SERVED})
    told = []
    for _ in range(8):
        cluster.reconcile_once_more()
        told.append((cluster.revision.directive, cluster.revision.successor))
        cluster.tick()
    assert (Directive.DRAIN, 2) in told
    assert told[-1] == (Directive.RUN, 0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({**CODE, **SERVED, "spec.state": "Suspended"}, id="suspended"),
        pytest.param(OTHER_CODE, id="without-a-service"),
    ],
)
def test_a_driver_without_clients_to_keep_hands_over_to_nobody(cluster, change):
    cluster.is_slow = False
    cluster.change(change)
    told = set()
    for _ in range(8):
        cluster.reconcile_once_more()
        told.add((cluster.revision.directive, cluster.revision.successor))
        cluster.tick()
    assert (Directive.DRAIN, 0) in told
    assert {successor for _, successor in told} == {0}


def test_a_driver_goes_whose_successor_has_failed(cluster):
    cluster.change({**OTHER_CODE, **SERVED})
    cluster.settle()
    cluster.end(NEW, 1)
    for _ in range(4):
        cluster.later(10)
        cluster.reconcile_once_more()
        cluster.tick()
    assert OLD not in cluster.drivers()
    assert cluster.status["attempt"] > 2
