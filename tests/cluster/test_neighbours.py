"""Topologies that share a node which has not room for all of them."""

import time

import pytest

from support.cluster.kube import is_ready
from support.cluster.troubles import apply, wait_for

pytestmark = pytest.mark.timeout(600)


def test_of_topologies_that_find_no_room_together_the_oldest_gets_it(kube, remove):
    """Each gets a driver, and none a worker, until the younger ones give theirs back.

    What becomes of these then: test_losses.py.
    """
    names = ("first", "second", "third")
    cpus = ("spec.driver.resources.requests.cpu=500m", "spec.worker.resources.requests.cpu=800m")
    for name in names:
        remove(name)
        apply(kube, name, "spec.startTimeoutSeconds=5", *cpus)
        time.sleep(1)  # creation times have whole seconds
    assert "those of" in wait_for(kube, "third", "Ready", "WaitsForRoom")
    kube.wait("topology", "first", is_ready, 300, "Ready")
