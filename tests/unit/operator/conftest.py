"""A cluster that a test moves by hand, with a topology that runs."""

import pytest

from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE


@pytest.fixture(scope="module")
def settled():
    """A cluster with a topology that runs."""
    made = FakeCluster(CODE)
    made.settle()
    assert made.status["state"] == "Active"
    return made


@pytest.fixture
def cluster(settled):
    """A cluster of the test's own, with a topology that runs."""
    return settled.copy()
