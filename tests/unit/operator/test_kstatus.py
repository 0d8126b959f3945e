"""What waits by the rules of kstatus, such as Flux's, see of a topology."""

import yaml

from fulmen.kube.contract import GROUP, PLURAL
from fulmen.topology.resource.status import TopologyStatus
from support.cluster.cluster_images import ROOT
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE


def kstatus(resource):
    """`InProgress`, `Failed` or `Current`."""
    status = resource.get("status", {})
    observed = status.get("observedGeneration")
    if observed is not None and observed != resource["metadata"]["generation"]:
        return "InProgress"
    said = {c["type"]: c["status"] for c in status.get("conditions", ())}
    if said.get("Reconciling") == "True":
        return "InProgress"
    if said.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if said.get("Ready", "True") in ("False", "Unknown") else "Current"


def test_a_topology_that_no_operator_has_looked_at_is_in_progress():
    definition = yaml.safe_load((ROOT / "crds" / f"{PLURAL}.{GROUP}.yaml").read_text())
    [version] = definition["spec"]["versions"]
    given = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    assert kstatus({**FakeCluster(CODE).topology, "status": given}) == "InProgress"
    assert TopologyStatus.model_validate(given) == TopologyStatus()


def test_a_first_version_is_in_progress_until_it_works():
    cluster = FakeCluster(CODE)
    seen = []
    while not seen or seen[-1] != "Current":
        assert len(seen) < 20
        cluster.reconcile()
        seen.append(kstatus(cluster.topology))
        cluster.tick()
    assert set(seen[:-1]) == {"InProgress"}
    assert cluster.status["state"] == "Active"


def test_a_change_is_in_progress_until_it_runs(cluster):
    assert kstatus(cluster.topology) == "Current"
    cluster.change(OTHER_CODE)
    assert kstatus(cluster.topology) == "InProgress"
    cluster.reconcile()
    assert kstatus(cluster.topology) == "InProgress"
    cluster.settle()
    assert kstatus(cluster.topology) == "Current"


def test_a_refused_change_has_failed_while_the_last_version_runs(cluster):
    cluster.change({**CODE, "spec.maxSpoutPnding": 5})
    cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert kstatus(cluster.topology) == "Failed"


def test_a_suspended_topology_is_current(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    assert (cluster.status["state"], kstatus(cluster.topology)) == ("Suspended", "Current")
