"""The store: filled by lists, kept by watches; and what is done when it lags behind."""

import asyncio
from contextlib import nullcontext

import pytest

from fulmen.kube.contract import COMPONENT_LABEL
from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller import watching
from fulmen_operator.controller.loop import Memory, reconcile
from fulmen_operator.controller.queue import Queue
from fulmen_operator.controller.watching import WATCHED, keep_fresh, refresh
from fulmen_operator.handlers import Running
from fulmen_operator.settings import Settings
from support.operator.fake_cluster import KEY, NAMESPACE, FakeCluster
from support.operator.operated import OTHER_CODE, summary


def names(store):
    return {kind: [thing["metadata"]["name"] for thing in store.of(KEY, kind)] for kind in WATCHED}


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)], ids=["everywhere", "there"])
def test_a_list_of_each_kind_fills_the_store(cluster, namespaces):
    store = WatchCache()
    cluster.api.calls.clear()
    asyncio.run(refresh(cluster.api, store, namespaces))
    assert names(store) == names(cluster.store())
    assert names(store)["Pod"]
    assert len(cluster.api.calls) == len(WATCHED)


def test_what_is_gone_without_a_word_is_dropped_and_what_is_newer_than_the_list_is_not(cluster):
    store = cluster.store()
    place = cluster._place("Role", "word-count-driver")
    del cluster.api.objects[place]
    newer = {**cluster.pod("word-count-driver-1")["metadata"], "name": "newer", "uid": "newer"}
    store.put("Pod", {"metadata": {**newer, "resourceVersion": "10000000"}})
    asyncio.run(refresh(cluster.api, store, ()))
    assert names(store)["Role"] == []
    assert "newer" in names(store)["Pod"]


def test_namespaces_that_are_not_listed_are_left_as_they_are(cluster):
    store = cluster.store()
    asyncio.run(refresh(cluster.api, store, ("green",)))
    assert names(store) == names(cluster.store())


@pytest.mark.parametrize(("status", "raises"), [(403, False), (500, True)])
def test_a_namespace_that_was_deleted_with_its_role_hides_no_other(cluster, caplog, status, raises):
    gone = Refusing(cluster.api, "/namespaces/gone/", status)
    store = WatchCache()
    with pytest.raises(CallFailed) if raises else nullcontext():
        asyncio.run(refresh(gone, store, ("gone", NAMESPACE)))
        assert names(store) == names(cluster.store())
        assert "left out, as it may not be read: GET /" in caplog.text
    with pytest.raises(CallFailed):
        asyncio.run(refresh(gone, store, ("gone",)))


class Refusing:
    """An API server that refuses calls to a place."""

    def __init__(self, api, place, status):
        self._api, self._place, self._status = api, place, status

    async def call(self, method, path, **options):
        if self._place in path:
            raise CallFailed(self._status, "not allowed", f"{method} {path}")
        return await self._api.call(method, path, **options)


class Paged:
    """An API server that answers with one object at a time."""

    def __init__(self, failures=0):
        self.failures = failures

    async def call(self, method, path, *, query, form):
        if self.failures:
            self.failures -= 1
            raise CallFailed(0, "no route", path)
        number = int(query.get("continue", 0))
        metadata = {"name": f"t{number}", "namespace": "blue", "uid": f"{path}{number}"}
        more = {"continue": str(number + 1)} if number < 2 else {}
        return {"items": [{"metadata": metadata}], "metadata": {"resourceVersion": "5", **more}}


def test_long_lists_come_in_pages():
    store = WatchCache()
    asyncio.run(refresh(Paged(), store, ()))
    assert all(store.get("Topology", "blue", f"t{n}") for n in range(3))


def fill(api, store, queue):
    """The operator starts."""
    filled = asyncio.Event()

    async def run():
        task = asyncio.ensure_future(keep_fresh(api, store, (), queue, filled))
        await asyncio.wait_for(filled.wait(), 10)
        task.cancel()

    asyncio.run(run())


def test_what_is_there_at_the_start_is_looked_at_though_it_is_no_news_to_the_watch(cluster):
    running, queue = Running(Settings()), Queue(lambda: 0.0, lambda: 0.0, str)
    running.queue = queue
    fill(cluster.api, running.store, queue)
    assert set(queue._due) == {KEY}
    queue._due.clear()
    fill(cluster.api, running.store, queue)
    assert not queue._due
    cluster.remove("Role", "word-count-driver")
    fill(cluster.api, running.store, queue)
    assert set(queue._due) == {KEY}


def test_while_the_api_server_is_away_it_is_asked_again(caplog, monkeypatch):
    monkeypatch.setattr(watching, "RETRY_SECONDS", 0)
    store, queue = WatchCache(), Queue(lambda: 0.0, lambda: 0.0, str)
    fill(Paged(failures=2), store, queue)
    assert store.get("Topology", "blue", "t2")
    assert "no route" in caplog.text


# ---- a watch that lags behind


def look(cluster, store, times=3):
    """Operators look that know no more than this store; each conflict makes them look again."""
    access, memory = cluster.access(), Memory()
    access._store = store
    for _ in range(times):
        asyncio.run(reconcile(KEY, access, cluster.settings, memory))


@pytest.mark.parametrize("kind", [kind for kind in WATCHED if kind != "Topology"])
def test_what_the_watch_has_not_told_of_is_neither_made_twice_nor_in_the_way(cluster, kind):
    before = cluster.state()
    store = cluster.store()
    for thing in store.of(KEY, kind):
        meta = thing["metadata"]
        store.remove(kind, NAMESPACE, meta["name"], meta["uid"])
    look(cluster, store)
    if kind == "Pod":  # the driver is looked for by its name, its workers are not
        assert (cluster.status["attempt"], cluster.status["workers"]["ready"]) == (1, 0)
        assert len(cluster.pods("driver")) == 1
    else:
        assert cluster.state() == before


@pytest.mark.parametrize("kind", ["ServiceAccount", "Role", "RoleBinding"])
def test_an_object_without_its_labels_is_the_topologys_nevertheless(cluster, kind):
    place = cluster._place(kind, "word-count-driver")
    uid = cluster.api.objects[place]["metadata"]["uid"]
    cluster.api.objects[place]["metadata"] |= {"labels": {}, "annotations": {}}
    cluster.settle()
    meta = cluster.api.objects[place]["metadata"]
    assert (meta["uid"], meta["labels"]["fulmen.dev/topology"]) == (uid, KEY.name)
    assert summary(cluster) == ("Active", "True", "Active")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ServiceAccount", "word-count-driver"),
        ("Role", "word-count-driver"),
        ("RoleBinding", "word-count-driver"),
        ("ConfigMap", "word-count-revision"),
        ("PersistentVolumeClaim", "word-count-checkpoint"),
        ("Pod", "word-count-driver-1"),
    ],
)
def test_an_object_of_others_that_is_gone_is_in_the_way_no_more_though_no_watch_tells(kind, name):
    cluster = FakeCluster()
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {COMPONENT_LABEL: "web"}}
    cluster.api._store(cluster._place(kind, name), {"metadata": metadata, "spec": {}})
    store = cluster.store()
    look(cluster, store)
    assert cluster.condition("Stalled")["reason"] == "ObjectInTheWay"
    del cluster.api.objects[cluster._place(kind, name)]
    look(cluster, store)
    assert cluster.names("Pod") == ["word-count-driver-1"]
    assert cluster.condition("Stalled")["reason"] == "AsExpected"


def test_what_the_watch_does_not_know_to_be_gone_is_made_again(cluster):
    store = cluster.store()
    cluster.remove("RoleBinding", "word-count-driver")
    cluster.remove("ConfigMap", "word-count-revision")
    cluster.change(OTHER_CODE)
    asyncio.run(refresh(cluster.api, store, ()))
    look(cluster, store)
    assert cluster.names("RoleBinding") == ["word-count-driver"]


@pytest.mark.parametrize("kind", ["ServiceAccount", "ConfigMap"])
def test_what_an_earlier_topology_has_left_is_looked_for_before_it_is_waited_for(kind):
    """Its deletion may have come before the store's list was told of it."""
    cluster = FakeCluster()
    name = {"ServiceAccount": "word-count-driver", "ConfigMap": "word-count-revision"}[kind]
    owner = {"kind": "Topology", "name": KEY.name, "uid": "of-an-earlier-one"}
    labels = {"fulmen.dev/topology": KEY.name}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
    stale = {"uid": "stale", "resourceVersion": "1", **meta}
    store = cluster.store()
    store.put(kind, {"metadata": stale})
    look(cluster, store)
    assert cluster.names("Pod") == ["word-count-driver-1"]
    assert cluster.api.objects[cluster._place(kind, name)]["metadata"]["uid"] != "stale"
