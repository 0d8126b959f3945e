"""Labels and annotations that somebody changes, of each object that the operator has made."""

import pytest

from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.watching import WATCHED, take_in
from support.operator.fake_cluster import KEY, FakeCluster
from support.operator.operated import CODE, summary

RESTRICTED = {**CODE, "spec.networkPolicy": "Restrict"}
OTHERS = "somebody-else"
INPUT = "fulmen.dev/input"
"""By this a driver is known to run what was accepted: one without it is replaced."""


def stays_changed(kind, path, place, key):
    """Whether nobody gives it back, since nothing depends on it, or Spark has made the object."""
    if kind == "Pod":
        return place == "annotations" or ("-exec-" in path and key == "fulmen.dev/topology")
    return "-code-" in path


@pytest.fixture(scope="module")
def settled():
    """A cluster with a topology that runs and has an object of each kind."""
    made = FakeCluster(RESTRICTED)
    made.settle()
    return made


def objects(cluster):
    """All that the operator has made and watches, and the workers: (kind, path)."""
    return [
        (kind, path)
        for kind in WATCHED[1:]
        for path in sorted(cluster.api.objects)
        if path.startswith(cluster._place(kind, ""))
    ]


def marks(cluster, path):
    """Each label and annotation of an object: where, and which."""
    meta = cluster.api.objects[path]["metadata"]
    return [(place, key) for place in ("labels", "annotations") for key in meta.get(place) or ()]


@pytest.mark.parametrize("value", [None, OTHERS], ids=["removed", "changed"])
def test_what_is_the_topologys_gets_its_labels_back_and_nothing_is_begun_anew(settled, value):
    wrong, tried, before = [], 0, [path for _, path in objects(settled)]
    for kind, path in objects(settled):
        for place, key in marks(settled, path):
            cluster = settled.copy()
            held = dict(cluster.api.objects[path]["metadata"][place])
            made = held.pop(key)
            put(cluster, path, place, held | ({key: value} if value else {}))
            cluster.settle()
            tried += 1
            if key == INPUT:
                assert (cluster.status["attempt"], cluster.status["lastBatch"]) == (2, 7)
                continue
            is_same = all(uid(cluster, each) == uid(settled, each) for each in before)
            is_right = is_same and (
                cluster.api.objects[path]["metadata"][place].get(key) == made
                or stays_changed(kind, path, place, key)
            )
            if not is_right or summary(cluster) != ("Active", "True", "Active"):
                wrong.append((path, place, key, summary(cluster)))
    assert wrong == []
    assert tried > 60


def uid(cluster, path):
    return cluster.api.objects.get(path, {"metadata": {}})["metadata"].get("uid")


def put(cluster, path, place, held):
    """Somebody gives an object other labels or annotations."""
    found = cluster.api.objects[path]
    cluster.api._store(path, {**found, "metadata": {**found["metadata"], place: held}})


def test_a_topology_is_looked_at_if_its_label_is_taken_from_an_object(settled):
    """By what was known of the object, or by its owner, if an operator has just begun."""
    missed = []
    for kind, path in objects(settled):
        if "-exec-" in path:
            continue
        store, thing = settled.store(), settled.api.objects[path]
        version = str(int(thing["metadata"]["resourceVersion"]) + 1)
        labels = {**thing["metadata"]["labels"], "fulmen.dev/topology": OTHERS}
        meta = {**thing["metadata"], "labels": labels, "resourceVersion": version}
        stores = [store, WatchCache()] if "ownerReferences" in meta else [store]
        keys = [take_in(each, kind, "MODIFIED", {**thing, "metadata": meta}) for each in stores]
        if not all(KEY in each for each in keys):
            missed.append(path)
    assert missed == []


@pytest.mark.parametrize("labels", [{"app.kubernetes.io/managed-by": "backup"}, {}])
def test_a_claim_that_may_have_a_checkpoint_is_never_advised_to_be_deleted(labels):
    """It was left by an earlier topology of this name, whose revision is gone."""
    cluster = FakeCluster(CODE)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "word-count-checkpoint", "namespace": KEY.namespace, "labels": labels}
    place = cluster._place("PersistentVolumeClaim", "word-count-checkpoint")
    cluster.api._store(place, {"metadata": meta, "spec": spec})
    cluster.reconcile_once_more()
    cluster.reconcile_once_more()
    message = cluster.condition("Ready")["message"]
    assert "is in the way" in message
    assert "elete" not in message.replace("PersistentVolumeClaim", "")
    mended = "label pvc word-count-checkpoint --overwrite fulmen.dev/topology=word-count"
    assert f"{mended} app.kubernetes.io/managed-by=fulmen-operator" in message
    ours = {"fulmen.dev/topology": KEY.name, "app.kubernetes.io/managed-by": "fulmen-operator"}
    put(cluster, place, "labels", ours)
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
