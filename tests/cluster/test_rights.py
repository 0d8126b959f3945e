"""Every verb that operator and drivers are given is needed.

The operator that runs here has all of its code but kopf, and real calls of a real API server. The
pods that it makes find no node: nothing is started. What it asks for in the life of a topology it
needs. The other rights let it make what it applies, and give rights to drivers: each is taken away
once, of a ServiceAccount whose Role lacks it.

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
from support.cluster import api_reads, operators
from support.cluster.kube import eventually
from support.cluster.requests import asked_for
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
    """Makes an account without each of some rights; None: one with all. No operator runs."""
    given = rights()

    def make(lacking):
        names = {right: f"lacks-{given.index(right) if right else 'nothing'}" for right in lacking}
        kube.apply(
            *(o for right, name in names.items() for o in account(name, set(given) - {right}))
        )
        eventually(
            lambda: all(has_some_right(kube.namespace, name) for name in names.values()),
            bool,
            30,
            "known to the API server",
        )
        return names

    with operators.none():
        yield make


def has_some_right(namespace, account):
    """Whether its Role is in force: it lacks one of these at most."""
    asked = [("patch", "configmaps"), ("patch", "serviceaccounts")]
    return any(api_reads.may(namespace, user_of(namespace, account), *what) for what in asked)


def user_of(namespace, account):
    """What the API server calls a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{account}"


class Impersonating(KubernetesApi):
    """The API server, as somebody else.

    Attributes:
        asked: (API group, resource, verb) of all that was asked for.
        refused: What it refused to do.
        wrote: Whether anything was written.
    """

    def __init__(self, user):
        super().__init__()
        self.user = user
        self.asked = set()
        self.refused = []
        self.wrote = False

    async def __aenter__(self):
        await super().__aenter__()
        self._client.set_default_header("Impersonate-User", self.user)
        return self

    async def call(self, method, path, *args, **options):
        self.wrote |= method != "GET"
        if asked := asked_for(method, path):
            self.asked.add((group_of(path), *asked))
        try:
            return await super().call(method, path, *args, **options)
        except CallFailed as error:
            if error.status == 403:
                self.refused.append(error.message)
            raise


def group_of(path):
    """The API group that a path is of; the first one's is empty."""
    _, root, group, *_ = path.split("/")
    return group if root == "apis" else ""


async def life(namespace, name):
    """What an operator with the account of that name asks for in the life of a topology.

    Ends as soon as it is refused something.

    Returns:
        The API as it has seen it.
    """
    async with KubernetesApi() as own, Impersonating(user_of(namespace, name)) as api:
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
                    return api
        return api


async def refusals_of_all(namespace, names):
    """What each of several accounts is refused. Some at a time: they mostly wait for the server."""
    some = asyncio.Semaphore(AT_A_TIME)

    async def of_one(name):
        async with some:
            return (await life(namespace, name)).refused

    return dict(zip(names, await asyncio.gather(*map(of_one, names)), strict=True))


async def spoil(api, namespace, name):
    """Somebody changes what the operator has made."""
    change = {"metadata": {"annotations": {APPLIED_ANNOTATION: None}}}
    for kind in ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Service"):
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
            **({"service": {"ports": [8080]}} if policy == "Restrict" else {}),
            "checkpoint": {"deletionPolicy": "Delete"},
            "spouts": [{"name": "numbers", "class": "code.Numbers"}],
            "driver": nowhere,
        },
    }
    place = KINDS["Topology"].path(namespace, name)
    await api.call("PATCH", place, topology, AS_USER)


def test_each_right_is_asked_for_or_its_lack_is_refused(accounts, kube):
    accounts([None])
    with_all = asyncio.run(life(kube.namespace, "lacks-nothing"))
    assert with_all.refused == []
    assert kube.get("configmap", "lacks-nothing-revision") is not None
    others = [
        right for right in rights() if right not in with_all.asked and right[1:] not in WATCHED_ONLY
    ]
    assert ("", "pods", "deletecollection") in others
    lacking = accounts(others)
    refused = asyncio.run(refusals_of_all(kube.namespace, lacking.values()))
    assert [right for right, name in lacking.items() if not refused[name]] == []


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_without_its_watches_the_operator_says_so(accounts, kube, tmp_path, verb):
    [name] = accounts([("fulmen.dev", "topologies", verb)]).values()
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(kube, name)))
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
    [name] = rule.get("resourceNames", [""])
    user = user_of(kube.namespace, account)
    return api_reads.may(kube.namespace, user, verb, resource, group, name)


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
