"""Claims, and other things that a topology stands on, that are deleted while they are in use."""

import pytest

from fulmen_operator.model import text_of
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary

CLAIM = "PersistentVolumeClaim"
OWN = "word-count-checkpoint"
MINE = {**CODE, "spec.checkpoint": {"persistentVolumeClaim": "mine"}}


def told_to_go(cluster, kind, name):
    """Somebody deletes what is in use: it stays until its finalizers are gone."""
    place = cluster._place(kind, name)
    found = cluster.api.objects[place]
    meta = {**found["metadata"], "deletionTimestamp": text_of(cluster.now)}
    cluster.api._store(place, {**found, "metadata": meta})


def with_own():
    cluster = FakeCluster(CODE)
    cluster.settle()
    found = cluster.api.objects[cluster._place(CLAIM, OWN)]
    found["spec"]["volumeName"] = "pv-7"
    return cluster, OWN, CODE


def with_mine():
    cluster = FakeCluster(MINE)
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-7"}
    cluster.api._store(cluster._place(CLAIM, "mine"), {"metadata": {"name": "mine"}, "spec": spec})
    cluster.settle()
    return cluster, "mine", MINE


def with_mounted():
    """A claim that is not the checkpoint's."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    changes = {**CODE, "spec.driver": {"podTemplate": {"spec": {"volumes": [volume]}}}}
    cluster = FakeCluster(changes)
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-7"}
    cluster.api._store(cluster._place(CLAIM, "mine"), {"metadata": {"name": "mine"}, "spec": spec})
    cluster.settle()
    return cluster, "mine", changes


@pytest.mark.parametrize("made", [with_own, with_mine, with_mounted])
def test_a_claim_that_is_deleted_while_it_is_mounted_is_told_and_keeps_its_driver(made):
    cluster, claim, spec = made()
    told_to_go(cluster, CLAIM, claim)
    cluster.settle()
    stalled = cluster.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "BeingDeleted")
    assert f"{CLAIM} {claim!r} is being deleted" in stalled["message"]
    assert "kubectl patch pv pv-7 -p" in stalled["message"]
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.events().count("BeingDeleted") == 1
    cluster.change({**spec, **OTHER_CODE})
    cluster.settle()
    drivers = [name for name in cluster.names("Pod") if "driver" in name]
    assert drivers == ["word-count-driver-1"]
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "BeingDeleted")
    cluster.change({**spec, **OTHER_CODE, "spec.state": "Suspended"})  # its user may end it
    cluster.settle()
    assert cluster.names("Pod") == []


def test_a_claim_without_a_watch_is_looked_at_now_and_then():
    cluster, claim, _ = with_mine()
    again_in = cluster.reconcile()
    assert again_in <= 60
    access = cluster.access()
    cluster.access = lambda api=None: access
    cluster.reconcile()
    told_to_go(cluster, CLAIM, claim)
    cluster.later(again_in)
    cluster.reconcile_once_more()
    assert cluster.condition("Stalled")["reason"] == "BeingDeleted"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ServiceAccount", "word-count-driver"),
        ("Role", "word-count-driver"),
        ("ConfigMap", "word-count-revision"),
    ],
)
def test_another_object_that_is_being_deleted_is_told_and_holds_no_change_up(cluster, kind, name):
    told_to_go(cluster, kind, name)
    cluster.settle()
    assert cluster.condition("Stalled")["reason"] == "BeingDeleted"
    assert cluster.condition("Stalled")["message"].startswith(f"{kind} {name!r} is being deleted")
    cluster.change(OTHER_CODE)
    cluster.settle()
    assert "word-count-driver-2" in cluster.names("Pod")
    cluster.remove(kind, name)
    cluster.settle()
    assert cluster.condition("Stalled")["status"] == "False"
    assert name in cluster.names(kind)
