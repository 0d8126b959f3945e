"""What is written or deleted is the object that was read: another one of its name is left alone.

The calls of the operator, of drivers and of the command line, on a real API server. Between reading
and writing the object is deleted, and somebody else makes one of the same name.
"""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from kubernetes import config
from kubernetes.client import Configuration

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Kubectl
from fulmen.kube.driver import api as driver_api
from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import KINDS, MERGE, CallFailed, Form
from fulmen_operator.cluster.client import KubernetesApi
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.model import Apply, Delete, Observed
from support.cli.documents import word_count
from support.cluster.kube import eventually
from support.cluster.others import CONTENT, left, theirs

APPLIED = [kind for kind in CONTENT if kind not in ("Pod", "Secret")]
"""What the operator changes by applying it: pods and secrets are made once."""
DELETED = ["Pod", "ConfigMap", "NetworkPolicy"]
"""What it deletes."""
REFUSED = (409, 422)
"""A conflict; or a uid can't be changed."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def observed(operator, kube):
    """A topology that owns objects. Its part has a ConfigMap, so that no operator minds it."""
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    made = kube.get("configmap", "owner")
    metadata = {**made["metadata"], "generation": 1}
    return Observed({**made, "metadata": metadata, "spec": {}}, datetime.now(UTC))


def mine(observed, kind):
    """The manifest of an object of that topology's."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": observed.name}
    owners = [{**owner, "uid": observed.topology["metadata"]["uid"]}]
    name = f"mine-{kind.lower()}"
    return theirs(kind, name, namespace=observed.namespace, ownerReferences=owners)


def replaced(kube, thing):
    """Delete an object and make another one of its name, of somebody else's; the other one."""
    kind, name = thing["kind"], thing["metadata"]["name"]
    kube.delete(kind.lower(), name, "--now")
    kube.run("create", "-f", "-", content=json.dumps(theirs(kind, name, labels={"a": "theirs"})))
    return left(kube, kind, name)


def acted(observed, kind, act, meanwhile=lambda _: None, tries=1):
    """Have the operator make an object, and then do something about it.

    Args:
        observed: The topology whose it is.
        kind: Its kind.
        act: Gets what the operator acts by, the API and the object.
        meanwhile: Happens between the two; gets the object.
        tries: How often to act at most, as the operator does if it meets with a conflict.

    Returns:
        The status of the last refusal; None: it was done.
    """

    async def run():
        store = WatchCache()
        async with KubernetesApi() as api:
            access = Access(api, lambda: "secret", store)
            path = KINDS[kind].path(observed.namespace)
            made = await api.call("POST", path, mine(observed, kind))
            store.put(kind, made)
            meanwhile(made)
            for _ in range(tries):
                try:
                    await act(access, api, made)
                except CallFailed as error:
                    status = error.status
                else:
                    return None
            return status

    return asyncio.run(run())


@pytest.mark.parametrize("kind", APPLIED)
def test_the_operator_applies_nothing_to_another_object(kube, observed, kind):
    def apply(access, _, __):
        return access.carry_out(observed, Apply(mine(observed, kind)))

    name, before = f"mine-{kind.lower()}", []
    # Kubernetes may change its own object, too
    assert acted(observed, kind, apply, tries=5) is None
    kube.delete(kind.lower(), name)
    assert acted(observed, kind, apply, lambda made: before.append(replaced(kube, made))) == 409
    assert left(kube, kind, name) == before[0]
    kube.delete(kind.lower(), name)


@pytest.mark.parametrize("kind", DELETED)
def test_the_operator_deletes_no_other_object(kube, observed, kind):
    def delete(access, _, made):
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        return access.carry_out(observed, Delete(kind, name, uid))

    name, before = f"mine-{kind.lower()}", []
    assert acted(observed, kind, delete) is None
    assert kube.get(kind.lower(), name) is None
    assert acted(observed, kind, delete, lambda made: before.append(replaced(kube, made))) is None
    assert left(kube, kind, name) == before[0]
    kube.delete(kind.lower(), name)


def test_the_operator_lets_no_other_pod_run(kube, observed):
    def let_run(_, api, made):
        path = KINDS["Pod"].path(observed.namespace, made["metadata"]["name"])
        change = {"metadata": {"uid": made["metadata"]["uid"]}, "spec": {"schedulingGates": None}}
        return api.call("PATCH", path, change, MERGE, Form.MERGE)

    before = []
    status = acted(observed, "Pod", let_run, lambda made: before.append(replaced(kube, made)))
    assert status in REFUSED
    assert left(kube, "Pod", "mine-pod") == before[0]
    kube.delete("pod", "mine-pod")


def test_a_driver_writes_to_no_other_pod(kube, observed):
    configuration = Configuration()
    config.load_kube_config(client_configuration=configuration)
    api = driver_api.Api(configuration, kube.namespace)
    kube.run("create", "-f", "-", content=json.dumps(mine(observed, "Pod")))
    made = api.pod("mine-pod")
    annotations = {"annotations": {"example.com/report": "mine"}}
    api.patch_pod("mine-pod", made["metadata"]["uid"], annotations)
    written = kube.get("pod", "mine-pod")["metadata"]["annotations"]
    assert written["example.com/report"] == "mine"
    before = replaced(kube, made)
    with pytest.raises(driver_api.ApiError) as refused:
        api.patch_pod("mine-pod", made["metadata"]["uid"], annotations)
    assert refused.value.status in REFUSED
    assert left(kube, "Pod", "mine-pod") == before
    kube.delete("pod", "mine-pod")


def test_the_command_line_deletes_no_other_topology(operator, kube):
    asleep = {"spec.state": "Suspended", "spec.code": {"files": {"wordcount.py": ""}}}
    kube.apply(word_count(asleep))
    first = kube.get("topology", "word-count")
    kube.delete("topology", "word-count")
    kube.apply(word_count(asleep))
    second = kube.get("topology", "word-count")
    command = Kubectl(kube.namespace)
    with pytest.raises(BadInput, match="Another one of that name was made since"):
        command.delete(first)
    kept = kube.get("topology", "word-count")["metadata"]
    assert kept["uid"] == second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "deletionTimestamp" not in kept
    command.delete(second)
    eventually(
        lambda: kube.get("topology", "word-count"), lambda found: found is None, 60, "deleted"
    )
