"""`helm test` on a cluster: a small topology acks, and nothing of it stays."""

import pytest

from support.cluster import cluster_images
from support.cluster.kube import Kube
from support.cluster.operators import HELM, SYSTEM

pytestmark = pytest.mark.timeout(420)
NAME = "fulmen-test"


def test_helm_test_passes_and_leaves_nothing(operator):
    said = cluster_images.call(
        [str(HELM), "test", "fulmen", "--namespace", SYSTEM, "--timeout", "5m"], 400
    )
    assert "Phase:          Succeeded" in said
    system = Kube(SYSTEM)
    for kind in ("topology", "pod", "serviceaccount", "role", "rolebinding"):
        assert system.get(kind, NAME) is None, kind
