"""The table of rights is what the API server lets each of them do."""

import json

import pytest

from support.cluster.kube import Kube, eventually
from support.cluster.operators import SYSTEM
from support.docs.scripts import script

TABLE = script("rights_table")
OF_EVERYBODY = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}


def rights(kube, user, *, of=None):
    """What the API server says that a user may do, of one group of the API or of all."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": kube.namespace},
    }
    made = kube.run(
        *("create", "-f", "-", "-o", "json", "--validate=false", f"--as={user}"),
        content=json.dumps(review),
    )
    rules = [
        rule
        for rule in json.loads(made)["status"]["resourceRules"]
        if not OF_EVERYBODY & set(rule["resources"]) and of in (None, *rule["apiGroups"])
    ]
    return TABLE.rights_of(rules)


def bound(name, role, user):
    """A RoleBinding of one of Kubernetes' own roles."""
    rbac = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }


def test_the_operator_may_do_what_the_table_says(operator, kube):
    user = f"system:serviceaccount:{SYSTEM}:fulmen-operator"
    wanted = TABLE.matrix()
    assert rights(kube, user) == wanted["operator"]
    at_home = {what: verbs for what, verbs in wanted[TABLE.AT_HOME].items() if what[0] != "events"}
    assert rights(Kube(SYSTEM), user) == {**wanted["operator"], **at_home}


@pytest.mark.parametrize(("who", "role"), [("editor", "edit"), ("viewer", "view")])
def test_roles_of_kubernetes_have_what_the_table_says(operator, kube, who, role):
    kube.apply(bound(who, role, f"fulmen-{who}"))
    found = eventually(
        lambda: rights(kube, f"fulmen-{who}", of="fulmen.dev"), bool, 30, "known to the API server"
    )
    wanted = TABLE.matrix()
    more = wanted["viewer"] if who == "editor" else {}  # Kubernetes adds view to edit
    assert found == {
        what: wanted[who].get(what, frozenset()) | more.get(what, frozenset())
        for what in {*wanted[who], *more}
    }


def test_the_driver_of_a_topology_may_do_what_the_table_says_and_its_workers_nothing(
    operator, kube
):
    name = "numbered"
    kube.apply(
        {
            "apiVersion": "fulmen.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": name},
            "spec": {
                "spouts": [{"name": "numbers", "class": "nowhere.Numbers"}],
                "driver": {
                    "podTemplate": {"spec": {"nodeSelector": {"fulmen.dev/nowhere": "true"}}}
                },
            },
        }
    )
    driver = f"system:serviceaccount:{kube.namespace}:{name}-driver"
    found = eventually(lambda: rights(kube, driver), bool, 60, "known to the API server")
    wanted = TABLE.matrix()["driver"]
    assert found == {
        (what, who.replace("NAME", name)): verbs for (what, who), verbs in wanted.items()
    }
    assert rights(kube, f"system:serviceaccount:{kube.namespace}:{name}-worker") == {}
