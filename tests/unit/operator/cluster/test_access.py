"""What an operator holds of the cluster."""

import asyncio
import pickle

import pytest

from support.operator.fake_cluster import KEY, FakeCluster
from support.operator.operated import put_parts

PARTS = ["a-1", "a-2", "a-3", "a-4"]
SIZE = 100_000
LATER = 31
"""Seconds after which it is asked whether code is still the same."""


@pytest.fixture
def large():
    """A cluster with a topology that runs, and whose code has four large parts."""
    cluster = FakeCluster()
    cluster.change(put_parts(cluster, PARTS, *(bytes([n]) * SIZE for n in range(4))))
    cluster.settle()
    assert cluster.condition("SpecAccepted")["reason"] == "Accepted"
    return cluster


def read_by(access, cluster):
    """Observe twice within a moment; the names of the objects that were read whole for that."""
    cluster.api.contents.clear()
    for _ in range(2):
        asyncio.run(access.observe(KEY))
    return cluster.api.contents


def test_of_claims_that_are_named_no_more_nothing_is_held(cluster):
    access = cluster.access()
    topology = cluster.store().get("Topology", KEY.namespace, KEY.name)
    place = cluster._place("PersistentVolumeClaim", "mine")
    cluster.api._store(place, {"metadata": {"name": "mine"}, "spec": {}})
    held = []
    for number, claim in enumerate(("mine", "none", "mine", None), 1000):
        topology["spec"]["checkpoint"] = {"persistentVolumeClaim": claim}
        topology["metadata"] |= {"resourceVersion": str(number), "generation": number}
        access._store.put("Topology", topology)
        asyncio.run(access.observe(KEY))
        held.append([name for *_, found in access._unwatched._claims.values() for name in found])
    assert held == [["mine"], [], ["mine"], []]


def test_of_code_that_runs_no_contents_are_held(large):
    access = large.access()
    seen = [asyncio.run(access.observe(KEY)) for _ in range(2)]
    assert [len(pickle.dumps(each.sources)) > 4 * SIZE for each in seen] == [True, False]
    assert (
        len(pickle.dumps((access._unwatched._code, access._unwatched._claims, access._store)))
        < SIZE
    )


def test_code_that_runs_is_read_once_and_then_asked_for_its_version(large):
    access = large.access()
    assert read_by(access, large) == PARTS
    large.later(LATER)
    assert read_by(access, large) == []
    change = put_parts(large, PARTS, *(bytes([n]) * 9 for n in range(4)))
    large.later(LATER)
    assert read_by(access, large)[:4] == PARTS
    large.change(change)
    large.settle()
    assert large.status["attempt"] == 2


def test_code_whose_copy_somebody_has_deleted_is_read_and_copied_again(large):
    access, copies = large.access(), [n for n in large.names("ConfigMap") if "-code-" in n]
    assert len(copies) == 4
    asyncio.run(access.observe(KEY))
    large.remove("ConfigMap", copies[2])
    thing = access._store.get("ConfigMap", KEY.namespace, copies[2])
    access._store.remove("ConfigMap", KEY.namespace, copies[2], thing["metadata"]["uid"])
    large.api.contents.clear()
    seen = asyncio.run(access.observe(KEY))
    assert large.api.contents == PARTS
    assert len(seen.sources.contents) == 4
    large.settle()
    assert [n for n in large.names("ConfigMap") if "-code-" in n] == copies


def test_of_a_topology_that_is_gone_no_code_is_held(large):
    access = large.access()
    asyncio.run(access.observe(KEY))
    assert [*access._unwatched._code] == [KEY]
    access._store.remove("Topology", KEY.namespace, KEY.name, large.topology["metadata"]["uid"])
    asyncio.run(access.observe(KEY))
    assert access._unwatched._code == {}


@pytest.mark.parametrize(
    "config", [{"x": list(range(20_000))}, {"x": "y" * 100_000}, {"y" * 70_000: 1}]
)
def test_of_a_topology_with_very_much_in_it_little_is_held_and_it_runs(config):
    cluster = FakeCluster()
    cluster.change({"spec.config": config})
    cluster.settle()
    access = cluster.access()
    seen = asyncio.run(access.observe(KEY))
    assert (seen.topology["spec"]["config"], seen.revision is not None) == (config, True)
    assert (
        len(pickle.dumps([access._store.all_of("Topology"), access._store.of(KEY, "ConfigMap")]))
        < 10_000
    )


def test_of_long_annotations_that_are_not_its_own_nothing_is_held(cluster):
    store = cluster.store()
    [account] = [
        one for one in store.all_of("ServiceAccount") if "driver" in one["metadata"]["name"]
    ]
    meta = account["metadata"]
    own = meta["annotations"]
    meta = {**meta, "resourceVersion": "99999", "annotations": {**own, "a": "b", "c": "d" * 2000}}
    store.put("ServiceAccount", {**account, "metadata": meta})
    held = store.get("ServiceAccount", KEY.namespace, meta["name"])
    assert held["metadata"]["annotations"] == {**own, "a": "b"}
