"""Every verb that operator and drivers are given is needed: each is taken away once.

The operator that runs here has all of its code but kopf, and real calls of a real API server, as a
ServiceAccount whose Role lacks a verb. The pods that it makes find no node: nothing is started.

For drivers the API server is asked what it would say without a verb. That drivers ask for what it
allows is what test_afterwards.py sees in its log of their requests.
"""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import KINDS, MERGE, CallFailed, Form
from fulmen_operator.cluster.client import KubernetesApi
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.loop import Memory, reconcile
from fulmen_operator.controller.watching import WATCHED, refresh
from fulmen_operator.manifests.rights import driver_role
from fulmen_operator.model import APPLIED_ANNOTATION, Key
from fulmen_operator.settings import Settings
from support.cluster import operators
from support.cluster.kube import eventually
from support.operator.charts import template
from support.servers.ports import free_port

WATCHED_ONLY = {(KINDS[kind].plural, "watch") for kind in WATCHED} - {
    ("pods", "watch"),
    ("configmaps", "watch"),
}
"""What only kopf does: the others are drivers' as well."""
AT_A_TIME = 4
AS_USER = {"fieldManager": "user", "force": "true"}

pytestmark = pytest.mark.timeout(300)


def rights():
    """All that the chart gives: (API group, resource, verb)."""
    rules = template()["ClusterRole", "", "tools-fulmen-operator"]["rules"]
    return [
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def account(name, rights):
    """A ServiceAccount with these rights."""
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in rights
    ]
    return account_with(name, rules)


def account_with(name, rules):
    """A ServiceAccount with a Role of these rules."""
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
    ]


@pytest.fixture(scope="module")
def accounts(operator, kube):
    """An account for each right, without that right; last one with all. No operator runs."""
    given = rights()
    lacking = {f"lacks-{n}": right for n, right in enumerate(given)}
    objects = [o for name, lack in lacking.items() for o in account(name, set(given) - {lack})]
    with operators.none():
        kube.apply(*objects, *account("lacks-nothing", given))
        user = f"--as=system:serviceaccount:{kube.namespace}:lacks-nothing"
        eventually(
            lambda: kube.run("auth", "can-i", "list", "topologies", user, check=False).strip(),
            lambda answer: answer == "yes",
            30,
            "known to the API server",
        )
        yield lacking


class Impersonating(KubernetesApi):
    """The API server, as somebody else.

    Attributes:
        refused: What it refused to do.
        wrote: Whether anything was written.
    """

    def __init__(self, user):
        super().__init__()
        self.user = user
        self.refused = []
        self.wrote = False

    async def __aenter__(self):
        await super().__aenter__()
        self._client.set_default_header("Impersonate-User", self.user)
        return self

    async def call(self, method, path, *args, **options):
        self.wrote |= method != "GET"
        try:
            return await super().call(method, path, *args, **options)
        except CallFailed as error:
            if error.status == 403:
                self.refused.append(error.message)
            raise


async def refusals(namespace, name):
    """What an operator with the account of that name is refused, in the life of a topology."""
    user = f"system:serviceaccount:{namespace}:{name}"
    async with KubernetesApi() as own, Impersonating(user) as api:
        memory = Memory()
        for code, policy in (
            (None, "None"),
            ("a = 1", "Restrict"),
            ("b = 2", "Restrict"),
            ("c = 3", "None"),
        ):
            await change(own, namespace, name, code, policy)
            await spoil(own, namespace, name)
            api.wrote = True
            while api.wrote:
                api.wrote = False
                try:
                    store = WatchCache()
                    await refresh(api, store, [namespace])
                    access = Access(api, lambda: "secret", store)
                    await reconcile(Key(namespace, name), access, Settings(), memory)
                except CallFailed as error:
                    if error.status == 409:  # such as what an earlier test has left
                        continue
                    if error.status != 403:
                        raise
                    return api.refused
        return api.refused


async def refusals_of_all(namespace, names):
    """What each of several accounts is refused. Some at a time: they mostly wait for the server."""
    some = asyncio.Semaphore(AT_A_TIME)

    async def of_one(name):
        async with some:
            return await refusals(namespace, name)

    return dict(zip(names, await asyncio.gather(*map(of_one, names)), strict=True))


async def spoil(api, namespace, name):
    """Somebody changes what the operator has made."""
    change = {"metadata": {"annotations": {APPLIED_ANNOTATION: None}}}
    for kind in ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"):
        query = {"labelSelector": f"fulmen.dev/topology={name}"}
        found = await api.call("GET", KINDS[kind].path(namespace), query=query)
        for thing in found["items"]:
            path = KINDS[kind].path(namespace, thing["metadata"]["name"])
            await api.call("PATCH", path, change, MERGE, Form.MERGE)


async def change(api, namespace, name, code, policy):
    """What a user does: write code, and apply a topology of that name that runs it."""
    if code is not None:
        source = {"metadata": {"name": f"{name}-source"}, "data": {"code.py": code}}
        content = {"apiVersion": "v1", "kind": "ConfigMap", **source}
        place = KINDS["ConfigMap"].path(namespace, f"{name}-source")
        await api.call("PATCH", place, content, AS_USER)
    nowhere = {"podTemplate": {"spec": {"nodeSelector": {"fulmen.dev/nowhere": "true"}}}}
    topology = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {
            "code": {"configMap": f"{name}-source"},
            "networkPolicy": policy,
            "checkpoint": {"deletionPolicy": "Delete"},
            "spouts": [{"name": "numbers", "class": "code.Numbers"}],
            "driver": nowhere,
        },
    }
    place = KINDS["Topology"].path(namespace, name)
    await api.call("PATCH", place, topology, AS_USER)


def test_with_all_of_them_nothing_is_refused(accounts, kube):
    assert asyncio.run(refusals(kube.namespace, "lacks-nothing")) == []
    assert kube.get("configmap", "lacks-nothing-revision") is not None


def test_without_any_of_them_something_is_refused(accounts, kube):
    lacking = [name for name, right in accounts.items() if right[1:] not in WATCHED_ONLY]
    found = asyncio.run(refusals_of_all(kube.namespace, lacking))
    assert [accounts[name] for name, refused in found.items() if not refused] == []


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_without_its_watches_the_operator_says_so(accounts, kube, tmp_path, verb):
    right = next(name for name, right in accounts.items() if right[1:] == ("topologies", verb))
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(kube, right)))
    env = {
        **os.environ,
        "KUBECONFIG": str(config),
        "FULMEN_NAMESPACES": kube.namespace,
        "FULMEN_METRICS_PORT": str(free_port()),
        "FULMEN_PROBE_PORT": str(free_port()),
    }
    command = [sys.executable, "-m", "fulmen_operator"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert any(f'cannot {verb} resource "topologies"' in line for line in process.stdout)
        finally:
            process.kill()


def may(kube, account, verb, rule):
    """Whether the API server lets an account do this with the resource of a rule."""
    group, resource = rule["apiGroups"][0], rule["resources"][0]
    names = [f"/{name}" for name in rule.get("resourceNames", ())]
    what = f"{resource}.{group}".rstrip(".") + "".join(names)
    user = f"--as=system:serviceaccount:{kube.namespace}:{account}"
    return kube.run("auth", "can-i", verb, what, user, check=False).strip() == "yes"


def test_without_a_verb_of_its_role_a_driver_is_refused_what_it_asks_for(operator, kube):
    rules = driver_role("numbered")
    rights = [(rule, verb) for rule in rules for verb in rule["verbs"]]
    lacking = [
        [{**r, "verbs": [v]} for r, v in rights if (r, v) != taken_away] for taken_away in rights
    ]
    objects = [o for n, some in enumerate(lacking) for o in account_with(f"driver-{n}", some)]
    kube.apply(*objects, *account_with("driver", rules))
    last, verb = rights[-1]
    eventually(lambda: may(kube, "driver", verb, last), bool, 30, "known to the API server")
    assert [(v, r["resources"]) for r, v in rights if not may(kube, "driver", v, r)] == []
    allowed = [
        (verb, rule["resources"])
        for n, (rule, verb) in enumerate(rights)
        if may(kube, f"driver-{n}", verb, rule)
    ]
    assert allowed == []


def kubeconfig(kube, name):
    """The one that is used here, but for a ServiceAccount."""
    used = json.loads(kube.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    token = kube.run("create", "token", name).strip()
    return {**used, "users": [{"name": used["users"][0]["name"], "user": {"token": token}}]}
