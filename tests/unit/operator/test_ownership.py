"""What is not the topology's is never written or deleted; a condition says what is in the way."""

import asyncio
from copy import deepcopy

import pytest

from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.model import Delete
from fulmen_operator.reconcile.decide import decide
from support.operator.fake_cluster import KEY, FakeCluster
from support.operator.operated import CODE, OTHER_CODE, summary

CLAIM = "PersistentVolumeClaim"
OURS = {"app.kubernetes.io/managed-by": "fulmen-operator", "fulmen.dev/topology": KEY.name}
RESTRICTED = {
    **CODE,
    "spec.networkPolicy": "Restrict",
    "spec.service": {"ports": [8080]},
    "spec.checkpoint.deletionPolicy": "Delete",
}


@pytest.fixture(scope="module")
def code_name():
    cluster = FakeCluster(CODE)
    cluster.reconcile()
    return next(name for name in cluster.names("ConfigMap") if "-code-" in name)


NAMES = [
    ("ServiceAccount", "word-count-driver"),
    ("ServiceAccount", "word-count-worker"),
    ("Role", "word-count-driver"),
    ("RoleBinding", "word-count-driver"),
    ("ConfigMap", "word-count-revision"),
    ("ConfigMap", "code"),
    (CLAIM, "word-count-checkpoint"),
    ("Secret", "word-count-auth-1"),
    ("NetworkPolicy", "word-count"),
    ("NetworkPolicy", "word-count.clients"),
    ("Service", "word-count"),
    ("Pod", "word-count-driver-1"),
]


def foreign(cluster, kind, name, *, labels=None, owners=()):
    """Somebody else has made an object of that name."""
    metadata = {"name": name, "namespace": KEY.namespace, "labels": labels or {"app": "web"}}
    if owners:
        metadata["ownerReferences"] = list(owners)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    thing = {"kind": kind, "metadata": metadata, "spec": spec if kind == CLAIM else {}}
    if kind == "Pod":
        thing["status"] = {"phase": "Pending"}
    return deepcopy(cluster.api._store(cluster._place(kind, name), thing))


def look(cluster, times=6):
    """The operator looks, and pods go on."""
    for _ in range(times):
        cluster.reconcile_once_more()
        cluster.tick()


@pytest.mark.parametrize(("kind", "name"), NAMES)
@pytest.mark.parametrize("labels", [None, OURS], ids=["unmarked", "with-our-labels"])
def test_an_object_of_others_is_left_alone_and_named(kind, name, labels, code_name):
    if kind == CLAIM and labels:
        return  # that is the mark of a claim that was kept
    name = code_name if name == "code" else name
    cluster = FakeCluster(RESTRICTED)
    component = {"app.kubernetes.io/component": "driver", "fulmen.dev/attempt": "1"}
    labels = {**labels, **component} if labels and kind == "Pod" else labels
    if kind == "Pod" and not labels:
        labels = {"app.kubernetes.io/component": "web"}
    theirs = foreign(cluster, kind, name, labels=labels)
    look(cluster)
    place = cluster._place(kind, name)
    assert cluster.api.objects[place] == theirs
    assert not [pod for pod in cluster.names("Pod") if "driver" in pod and pod != name]
    ready, stalled = cluster.condition("Ready"), cluster.condition("Stalled")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectInTheWay")
    assert (stalled["status"], stalled["reason"]) == ("True", "ObjectInTheWay")
    message = ready["message"]
    assert message.startswith(f"{kind} {name!r} is in the way: it is not this topology's")
    assert f"`kubectl -n {KEY.namespace} get {kind.lower()}/{name}` shows it" in message
    may_adopt = labels is not None and labels.items() >= OURS.items() and kind != "Secret"
    assert ("fulmen.dev/adopt=true" in message) == may_adopt
    assert cluster.condition("Placed")["message"] == "no worker hosts anything"
    assert cluster.events().count("ObjectInTheWay") == 1
    cluster.remove(kind, name)
    look(cluster)
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Stalled")["status"] == "False"
    assert cluster.status["attempt"] == 1


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_an_object_of_others_outlives_suspension_and_deletion(kind, name, code_name):
    name = code_name if name == "code" else name
    cluster = FakeCluster(RESTRICTED)
    labels = {"app.kubernetes.io/component": "web"} if kind == "Pod" else None
    theirs = foreign(cluster, kind, name, labels=labels)
    look(cluster)
    cluster.change({**RESTRICTED, "spec.state": "Suspended"})
    look(cluster)
    cluster.remove("Topology", KEY.name)
    assert cluster.api.objects == {cluster._place(kind, name): theirs} | {
        path: thing for path, thing in cluster.api.objects.items() if "/events/" in path
    }


def test_all_that_is_in_the_way_is_named_at_once():
    cluster = FakeCluster()
    foreign(cluster, "Role", "word-count-driver")
    foreign(cluster, CLAIM, "word-count-checkpoint")
    look(cluster)
    message = cluster.condition("Ready")["message"]
    assert message.startswith("2 objects (1 PersistentVolumeClaim, 1 Role) are in the way: they")
    places = "persistentvolumeclaim/word-count-checkpoint role/word-count-driver"
    assert set(places.split()) <= set(message.split("`")[1].split())
    assert "spec.checkpoint.persistentVolumeClaim" in message


# ---- what has lost its owner


@pytest.fixture
def orphaned(cluster):
    """A topology was deleted without what belongs to it, and made again under its name."""
    document = deepcopy(cluster.topology)
    del cluster.api.objects[cluster._place("Topology", KEY.name)]
    for path, thing in cluster.api.objects.items():
        owners = thing["metadata"].get("ownerReferences", ())
        kept = [owner for owner in owners if owner["kind"] != "Topology"]
        if len(kept) < len(owners):
            thing["metadata"]["ownerReferences"] = kept
            assert "/events/" not in path
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del document["metadata"][field]
    del document["status"]
    cluster.api._store(cluster._place("Topology", KEY.name), document)
    cluster.forget()
    return cluster


def test_what_has_lost_its_owner_is_told_in_one_sentence(orphaned):
    look(orphaned)
    assert orphaned.condition("Ready")["reason"] == "ObjectInTheWay"
    message = orphaned.condition("Ready")["message"]
    assert "2 ConfigMap, 1 Role, 1 RoleBinding, 2 ServiceAccount" in message
    assert "`kubectl -n blue annotate topology word-count fulmen.dev/adopt=true`" in message
    assert "word-count-driver-2" not in orphaned.names("Pod")


def test_a_topology_adopts_what_its_user_says_is_its_own(orphaned):
    """The old driver is drained, and the next one goes on from its checkpoint."""
    look(orphaned)
    before = {kind: orphaned.names(kind) for kind, _ in APPLIED}
    orphaned.topology["metadata"]["annotations"] = {"fulmen.dev/adopt": "true"}
    directives = []
    for _ in range(6):
        look(orphaned, 1)
        directives.append(orphaned.revision.directive)
    assert "Drain" in directives
    orphaned.settle()
    assert summary(orphaned) == ("Active", "True", "Active")
    assert [name for name in orphaned.names("Pod") if "driver" in name] == ["word-count-driver-2"]
    assert {kind: orphaned.names(kind) for kind, _ in APPLIED} == before
    orphaned.remove("Topology", KEY.name)
    kinds = {kind for kind, _ in APPLIED if kind != CLAIM}
    assert {kind: names for kind in kinds if (names := orphaned.names(kind))} == {}


def test_what_is_anothers_is_not_adopted(orphaned):
    role = orphaned.api.objects[orphaned._place("Role", "word-count-driver")]
    uid = orphaned.api.objects[orphaned._place(CLAIM, "word-count-checkpoint")]["metadata"]["uid"]
    owner = {"kind": CLAIM, "name": "word-count-checkpoint", "uid": uid}
    role["metadata"]["ownerReferences"] = [owner]
    unmarked = orphaned.api.objects[orphaned._place("ServiceAccount", "word-count-driver")]
    unmarked["metadata"]["labels"] = {"app": "web"}
    left = deepcopy([role, unmarked])
    orphaned.topology["metadata"]["annotations"] = {"fulmen.dev/adopt": "true"}
    look(orphaned)
    assert [role, unmarked] == left
    assert "2 objects (1 Role, 1 ServiceAccount)" in orphaned.condition("Ready")["message"]


def test_what_takes_an_objects_place_does_not_stop_what_runs(cluster):
    cluster.remove("Role", "word-count-driver")
    theirs = foreign(cluster, "Role", "word-count-driver")
    look(cluster)
    assert cluster.api.objects[cluster._place("Role", "word-count-driver")] == theirs
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("Stalled")["reason"] == "ObjectInTheWay"
    cluster.change({**CODE, "spec.state": "Suspended"})
    look(cluster)
    assert cluster.status["state"] == "Suspended"


APPLIED = [(kind, name) for kind, name in NAMES if kind not in ("Pod", "Secret") and name != "code"]
"""What is changed by applying it. Pods, secrets and code are made once."""


@pytest.fixture(scope="module")
def restricted():
    """A cluster with a topology that runs and has an object of each kind."""
    made = FakeCluster(RESTRICTED)
    made.settle()
    return made


@pytest.mark.parametrize(("kind", "name"), APPLIED)
def test_an_object_that_is_another_one_since_it_was_seen_is_not_changed(kind, name, restricted):
    cluster = restricted.copy()
    place = cluster._place(kind, name)
    cluster.api.objects[place]["metadata"]["annotations"] = {}  # so it has to be applied
    access = cluster.access()
    seen = asyncio.run(access.observe(KEY))
    del cluster.api.objects[place]
    theirs = foreign(cluster, kind, name)
    (apply,) = decide(seen, cluster.settings).actions
    assert (apply.manifest["kind"], apply.manifest["metadata"]["name"]) == (kind, name)
    with pytest.raises(CallFailed, match="changed meanwhile"):
        asyncio.run(access.carry_out(seen, apply))
    assert cluster.api.objects[place] == theirs


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
@pytest.mark.parametrize(("kind", "name"), APPLIED)
def test_what_is_applied_says_which_object_in_which_version_is_meant(kind, name, field, restricted):
    cluster = restricted.copy()
    thing = cluster.api.objects[cluster._place(kind, name)]
    thing["metadata"]["annotations"] = {}
    access = cluster.access()
    seen = asyncio.run(access.observe(KEY))
    thing["metadata"][field] = "another"
    before = deepcopy(thing)
    (apply,) = decide(seen, cluster.settings).actions
    with pytest.raises(CallFailed, match="changed meanwhile"):
        asyncio.run(access.carry_out(seen, apply))
    assert cluster.api.objects[cluster._place(kind, name)] == before


def test_a_drivers_pod_that_is_another_one_since_it_was_made_is_not_let_run():
    cluster, theirs = FakeCluster(CODE), []
    place = cluster._place("Pod", "word-count-driver-1")

    def take_its_place(method, path):
        if method == "POST" and path.endswith("/secrets"):
            del cluster.api.objects[place]
            foreign(cluster, "Pod", "word-count-driver-1")
            pod = cluster.api.objects[place]
            pod["spec"] = {"schedulingGates": [{"name": "theirs"}]}
            theirs.append(deepcopy(pod))

    cluster.api.on_write = take_its_place
    cluster.reconcile_once_more()
    assert [cluster.api.objects[place]] == theirs


@pytest.mark.parametrize("kind", ["Pod", "ConfigMap", "NetworkPolicy", "Service"])
def test_an_object_that_is_another_one_since_it_was_seen_is_not_deleted(cluster, kind):
    access = cluster.access()
    seen = asyncio.run(access.observe(KEY))
    theirs = foreign(cluster, kind, "mine")
    asyncio.run(access.carry_out(seen, Delete(kind, "mine", "another-uid")))
    assert cluster.api.objects[cluster._place(kind, "mine")] == theirs


def test_pods_of_others_with_the_topologys_label_are_neither_counted_nor_deleted(cluster):
    for component in ("driver", "worker", "preflight"):
        labels = {**OURS, "app.kubernetes.io/component": component, "fulmen.dev/attempt": "0"}
        foreign(cluster, "Pod", f"mine-{component}", labels=labels)
    cluster.change(OTHER_CODE)
    cluster.settle()
    assert {"mine-driver", "mine-worker", "mine-preflight"} <= set(cluster.names("Pod"))
    cluster.change({**OTHER_CODE, "spec.state": "Suspended"})
    cluster.settle()
    assert cluster.names("Pod") == ["mine-driver", "mine-preflight", "mine-worker"]
    assert cluster.status["state"] == "Suspended"


# ---- a topology made again under the same name


def test_a_claim_that_was_kept_is_taken_over_and_one_that_is_to_go_is_not(code_name):
    kept = FakeCluster(RESTRICTED)
    foreign(kept, CLAIM, "word-count-checkpoint", labels=OURS)
    kept.settle()
    assert summary(kept) == ("Active", "True", "Active")
    owner = {"kind": "Topology", "name": KEY.name, "uid": "an-earlier-one"}
    going = FakeCluster(RESTRICTED)
    foreign(going, CLAIM, "word-count-checkpoint", labels=OURS, owners=[owner])
    look(going)
    assert summary(going) == ("Starting", "False", "EarlierTopologyEnds")


def test_what_an_earlier_topology_has_left_is_waited_for_without_alarm(cluster):
    document = deepcopy(cluster.topology)
    pods = cluster.names("Pod")
    del cluster.api.objects[cluster._place("Topology", KEY.name)]  # no garbage was collected yet
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del document["metadata"][field]
    del document["status"]
    cluster.api._store(cluster._place("Topology", KEY.name), document)
    cluster.forget()
    told = len(cluster.events())
    for _ in range(3):
        cluster.reconcile_once_more()
    assert cluster.names("Pod") == pods
    assert summary(cluster) == ("Starting", "False", "EarlierTopologyEnds")
    assert cluster.condition("Stalled")["status"] == "False"
    assert len(cluster.events()) == told
    cluster.api.collect_garbage()
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.status["restarts"]["count"] == 0


# ---- what is left behind


def test_a_claim_is_owned_only_if_it_is_to_go_with_the_topology():
    """It is made without an owner: who owned it by creating it could not apply it without one."""
    cluster, owned = FakeCluster(RESTRICTED), []
    place = cluster._place(CLAIM, "word-count-checkpoint")

    def look(method, path):
        if "claims" in path:
            metadata = cluster.api.objects[place]["metadata"]
            owned.append((method, "ownerReferences" in metadata))

    cluster.api.on_write = look
    cluster.settle()
    assert owned == [("POST", False), ("PATCH", True)]


def test_secrets_go_with_their_drivers_whoever_ends_them(cluster):
    cluster.end("word-count-driver-1", 0, why="Completed")
    cluster.settle()
    assert cluster.names("Secret") == ["word-count-auth-2"]
    cluster.remove("Pod", "word-count-driver-2")
    cluster.settle()
    assert cluster.names("Secret") == ["word-count-auth-3"]
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    assert cluster.names("Secret") == []


def lose_status(cluster):
    del cluster.topology["status"]
    cluster.forget()


def test_a_lost_status_starts_nothing_anew(cluster):
    cluster.end("word-count-driver-1", 143)
    cluster.settle()
    before, pods = cluster.status, cluster.names("Pod")
    lose_status(cluster)
    cluster.settle()
    assert cluster.names("Pod") == pods
    for field in ("attempt", "epoch", "lastBatch", "state"):
        assert cluster.status[field] == before[field], field


def test_after_a_lost_status_a_topology_without_pods_goes_on_with_the_next_attempt(cluster):
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    lose_status(cluster)
    cluster.settle()
    assert cluster.names("Pod") == []
    cluster.change(CODE)
    cluster.settle()
    assert "word-count-driver-2" in cluster.names("Pod")


def test_without_status_and_pods_a_revision_that_has_worked_says_that_there_were_commits(cluster):
    """So that an empty checkpoint, restored without its content, is a lost one, and no new one."""
    cluster.remove("Pod", "word-count-driver-1")
    for worker in cluster.pods("worker"):
        cluster.remove("Pod", worker["metadata"]["name"])
    lose_status(cluster)
    cluster.settle()
    assert cluster.revision.last_batch == 1


def test_after_a_lost_status_attempts_never_go_backwards(cluster):
    for attempt in (1, 2):
        cluster.end(f"word-count-driver-{attempt}", 137, reason="Evicted")
        cluster.settle()
    cluster.remove("Pod", "word-count-driver-3")
    lose_status(cluster)
    cluster.settle()
    assert cluster.status["attempt"] >= 3
    assert cluster.revision.last_batch == 7
    drivers = [name for name in cluster.names("Pod") if "driver" in name]
    assert drivers == ["word-count-driver-2", f"word-count-driver-{cluster.status['attempt']}"]
    cluster.change({**CODE, "spec.state": "Suspended"})
    cluster.settle()
    assert (cluster.names("Pod"), cluster.names("Secret")) == ([], [])
