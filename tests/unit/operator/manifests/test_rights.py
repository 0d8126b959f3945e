"""The chart gives the operator exactly the rights that it uses."""

import pytest

from fulmen_operator.acceptance.judge import judge
from fulmen_operator.cluster.api import KINDS
from fulmen_operator.controller.watching import WATCHED
from fulmen_operator.manifests.revisions import new_revision
from fulmen_operator.manifests.rights import rights
from fulmen_operator.model import Observed
from fulmen_operator.settings import Settings
from support.cli.documents import word_count
from support.operator.charts import HELM, template
from support.operator.fake_cluster import FakeCluster

CODE = {"spec.code": {"configMap": "code"}}
WATCHES = {(KINDS[kind].plural, verb) for kind in WATCHED for verb in ("list", "watch")}
"""What kopf does."""


def a_whole_life():
    """A cluster in which everything has happened that takes rights."""
    cluster = FakeCluster(CODE)
    for text, changes in [
        ("A", {}),
        ("A", {"spec.networkPolicy": "Restrict"}),
        ("B", {"spec.networkPolicy": "Restrict", "spec.service": {"ports": [8080]}}),
        ("B", {"spec.networkPolicy": "Restrict", "spec.service": {"ports": [8081]}}),
        ("B", {}),
        ("B", {"spec.state": "Suspended"}),
    ]:
        content = {"metadata": {"name": "code"}, "data": {"a.py": text}}
        cluster.api._store(cluster._place("ConfigMap", "code"), content)
        cluster.change({**CODE, "spec.checkpoint.deletionPolicy": "Delete", **changes})
        spoil(cluster)
        cluster.settle()
    return cluster


def spoil(cluster):
    """Somebody changes what the operator has made."""
    for kind in ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Service"):
        for name in cluster.names(kind):
            cluster.api.objects[cluster._place(kind, name)]["metadata"]["annotations"] = {}


def used(calls):
    """(resource, verb) of each call."""
    verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch"}
    plurals = [kind.plural for kind in KINDS.values()]
    for method, path in calls:
        parts = path.split("/")
        if parts[-1] == "status":
            yield "topologies/status", "patch"
        elif method == "GET":
            listed = parts[-1] in plurals
            yield (parts[-1], "list") if listed else (parts[-2], "get")
        else:
            resource = parts[-1] if method == "POST" else parts[-2]
            yield resource, verbs[method]


def allowed(rules):
    return {(r, v) for rule in rules for r in rule["resources"] for v in rule["verbs"]}


def given():
    """What the operator has to have because it gives it to drivers."""
    seen = Observed(
        word_count({"metadata.namespace": "blue", "metadata.uid": "u", "metadata.generation": 1}),
        FakeCluster().now,
    )
    role = next(
        m
        for m in rights(seen, new_revision(seen, judge(seen, {}), None, Settings()))
        if m["kind"] == "Role"
    )
    return allowed(role["rules"])


@pytest.mark.skipif(HELM is None, reason="needs helm")
def test_every_right_is_used_and_none_is_missing():
    role = template()["ClusterRole", "", "tools-fulmen-operator"]
    needed = set(used(a_whole_life().api.calls)) | WATCHES | given()
    assert sorted(needed - allowed(role["rules"])) == [], "missing"
    assert sorted(allowed(role["rules"]) - needed) == [], "never used"
