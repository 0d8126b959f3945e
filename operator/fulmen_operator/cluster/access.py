"""Reads all that belongs to a topology, and carries out what was decided about it."""

from collections.abc import Callable, Sequence

from fulmen.kube import contract, names
from fulmen.topology.resource.spec import API_VERSION, KIND
from fulmen_operator.cluster.api import (
    APPLY,
    CONFLICT,
    CREATE,
    KINDS,
    MERGE,
    NOT_FOUND,
    ApiServer,
    CallFailed,
    Form,
    Overtaken,
    listed,
)
from fulmen_operator.cluster.events import event_about
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.cluster.unwatched import Unwatched
from fulmen_operator.manifests.common import marked
from fulmen_operator.model import (
    START_GATE,
    Action,
    Adopt,
    Apply,
    Delete,
    Event,
    Key,
    Manifest,
    Mend,
    Object,
    Observed,
    StartDriver,
    Trial,
    is_gated,
    label,
    name_of,
    uid_of,
)
from fulmen_operator.ownership import (
    CLAIM,
    belongs,
    changed_labels,
    has_claim,
    noted_claim,
    obstacle,
    own_pods,
)
from fulmen_operator.room import older_waiting

LISTED = ("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "NetworkPolicy", "Service")


class Access:
    """A topology's objects: read from the watches, written through the API.

    Args:
        api: The API server.
        secret: Makes the random content of a secret.
        store: The objects that the watches have told.
    """

    def __init__(
        self,
        api: ApiServer,
        secret: Callable[[], str],
        store: WatchCache,
    ) -> None:
        self._api = api
        self._secret = secret
        self._store = store
        self._unwatched = Unwatched(api)

    async def observe(self, key: Key) -> Observed | None:
        """Read everything about a topology; None if it is gone."""
        topology = self._store.get("Topology", key.namespace, key.name)
        if topology is not None and "spec" not in topology:  # it was too large to be held
            topology = await listed(self._api, "Topology", key.namespace, key.name)
        if topology is None:
            self._unwatched.forget(key)
            return None
        children = {
            (kind, name_of(item)): item
            for kind in LISTED
            for item in self._store.of(key, kind)
            if belongs(item, topology)
        }
        revision = await self._revision(key, topology)
        known = self._store.of(key, "Pod")
        known += [pod for pod in await self._look_for_driver(key, topology) if pod not in known]
        pods = own_pods(known, topology)
        own = {uid_of(pod) for pod in pods}
        claims = await self._claims(key, topology, revision, pods)
        children |= {(CLAIM, name_of(claim)): claim for claim in claims}
        return Observed(
            topology=topology,
            now=self._api.now(),
            revision=revision,
            pods=pods,
            children=children,
            mends=changed_labels([one for one in known if uid_of(one) in own], topology),
            sources=await self._unwatched.sources(key, topology, children),
            fallen=self._store.fallen(key),
            older_waits=older_waiting(topology, self._store.all_of),
        )

    def pods_in(self, namespace: str) -> list[Object]:
        """The pods of all topologies of a namespace."""
        found = self._store.all_of("Pod")
        return [pod for pod in found if pod["metadata"]["namespace"] == namespace]

    async def _look_for_driver(self, key: Key, topology: Object) -> list[Object]:
        """A driver's pod that the watch has nothing of: it may have lost its labels."""
        status = topology.get("status") or {}
        name = str(status.get("driverPod") or "")
        if name == "" or status.get("state") in ("Suspended", "Failed"):
            return []
        found = self._store.get("Pod", key.namespace, name)
        found = found or await self._look("Pod", key.namespace, name)
        return [found] if found is not None else []

    async def _claims(
        self, key: Key, topology: Object, revision: Object | None, pods: Sequence[Object]
    ) -> list[Object]:
        """The claim that is made for the topology, that of its spec, and those that pods mount."""
        own = names.claim(key.name)
        found = self._store.get(CLAIM, key.namespace, own)
        if found is None and noted_claim(revision):
            found = await self._look(CLAIM, key.namespace, own)
        checkpoint = (topology.get("spec") or {}).get("checkpoint") or {}
        volumes = [v for pod in pods for v in (pod.get("spec") or {}).get("volumes") or ()]
        mounted = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes]
        named = {name for name in (*mounted, checkpoint.get("persistentVolumeClaim")) if name}
        if found is not None:
            named.discard(own)
        others = await self._unwatched.claims(key, topology, named)
        return [*others, found] if found is not None else [*others]

    async def _revision(self, key: Key, topology: Object) -> Object | None:
        """The revision. It is asked for if the watch told only that it exists, or nothing yet."""
        name = names.revision(key.name)
        known = self._store.get("ConfigMap", key.namespace, name)
        if known is None or "data" not in known:
            known = await self._look("ConfigMap", key.namespace, name)
        return known if known is not None and belongs(known, topology) else None

    async def write_status(self, seen: Observed, status: Manifest) -> None:
        """Write the whole status, unless somebody has changed the topology since it was read.

        Raises:
            CallFailed: Somebody has (`is_conflict`), or the server could not be reached.
            Overtaken: The topology is gone.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": _as_seen(seen),
            "status": status,
        }
        path = KINDS["Topology"].path(seen.namespace, seen.name)
        try:
            written = await self._api.call("PATCH", f"{path}/status", body, APPLY)
        except CallFailed as error:
            if error.status == NOT_FOUND:
                raise Overtaken(f"{error.what}: it was deleted meanwhile") from error
            raise
        self._store.put("Topology", written)

    async def carry_out(self, seen: Observed, action: Action) -> None:
        """Do one thing. What is done already is not an error.

        Raises:
            CallFailed: The server refused it, or could not be reached.
            InTheWay: An object of others has the name.
            Overtaken: It can't be done as it was decided.
        """
        match action:
            case Apply(manifest):
                await self._apply(seen, marked(manifest))
            case StartDriver(pod, secret, key):
                await self._start(seen, marked(pod), secret, key)
            case Delete(kind, name, uid):
                await self._delete(seen, kind, name, uid)
            case Adopt(name, uid, owner):
                await self._merge(seen, "ConfigMap", name, {"uid": uid, "ownerReferences": [owner]})
            case Mend(name, uid, labels):
                await self._merge(seen, "Pod", name, {"uid": uid, "labels": dict(labels)})

    async def try_out(self, seen: Observed, trial: Trial) -> str:
        """Ask the server what it refuses of pods that replace the present ones.

        The new pods find room in quotas, as the others go. Raises and returns what `try_beside`
        does.
        """
        return await self._dry_run(seen, trial, lambda why: "exceeded quota" not in why)

    async def try_beside(self, seen: Observed, trial: Trial) -> str:
        """Ask the server what it refuses of pods beside the present ones.

        Returns:
            Its words; empty if it would take them.

        Raises:
            CallFailed: It could not be reached.
        """
        return await self._dry_run(seen, trial, lambda _why: True)

    async def _dry_run(self, seen: Observed, trial: Trial, counts: Callable[[str], bool]) -> str:
        path = KINDS["Pod"].path(seen.namespace)
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        refused = []
        for pod in trial.pods:
            try:
                await self._api.call("POST", path, pod, query)
            except CallFailed as error:
                if not error.is_refusal or error.is_namespace_going:
                    raise
                if counts(error.message):
                    refused.append(f"{pod['metadata']['name']}: {error.message}")
        return " ".join(refused)

    async def tell(self, seen: Observed, event: Event) -> None:
        """Tell people about something that happened to a topology."""
        about = {"apiVersion": API_VERSION, "kind": KIND, **_as_seen(seen)}
        body = event_about(about, event, seen.now)
        await self._api.call("POST", KINDS["Event"].path(seen.namespace), body)

    # ---- writing

    async def _apply(self, seen: Observed, manifest: Manifest) -> None:
        """Create an object, or change the topology's own: by uid and resourceVersion."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        found = self._store.get(kind, seen.namespace, name)
        if found is not None and not _is_own(kind, found, seen):
            found = await self._look(kind, seen.namespace, name)  # it may be gone: watches lag
        if found is None:
            found = await self._create(seen, manifest)
            if found is None:
                return
        if not _is_own(kind, found, seen):
            raise obstacle(kind, name, found, seen.topology)
        if kind == "Pod":
            return  # pods are made once
        known = {field: found["metadata"][field] for field in ("uid", "resourceVersion")}
        body = {**manifest, "metadata": {**manifest["metadata"], **known}}
        path = KINDS[kind].path(seen.namespace, name)
        try:
            self._store.put(kind, await self._api.call("PATCH", path, body, APPLY))
        except CallFailed as error:
            if error.is_conflict:  # it is not what it was: look at it anew
                await self._look(kind, seen.namespace, name)
            raise

    async def _create(self, seen: Observed, manifest: Manifest) -> Object | None:
        """Create an object.

        Returns:
            The one that has its name and may have to be changed, if any.
        """
        kind, meta = manifest["kind"], manifest["metadata"]
        path = KINDS[kind].path(seen.namespace)
        owned = "ownerReferences" in meta
        if kind == CLAIM and owned:  # who creates a claim can't take back later that it is owned
            meta = {key: value for key, value in meta.items() if key != "ownerReferences"}
        try:
            made = await self._api.call("POST", path, {**manifest, "metadata": meta}, CREATE)
        except CallFailed as error:
            if not error.is_conflict:
                raise
            found = await self._look(kind, seen.namespace, meta["name"])
            if found is None:
                raise Overtaken(f"{error.what}: it was there, and is gone") from error
            return found
        self._store.put(kind, made)
        return made if kind == CLAIM and owned else None

    async def _merge(self, seen: Observed, kind: str, name: str, meta: Manifest) -> None:
        """Change metadata of an object, if it still is the one with that uid."""
        path = KINDS[kind].path(seen.namespace, name)
        made = await self._api.call("PATCH", path, {"metadata": meta}, MERGE, Form.MERGE)
        self._store.put(kind, made)

    async def _start(self, seen: Observed, pod: Manifest, secret: Manifest, key: str) -> None:
        """Make a driver's pod, then the secret for it, then let the pod run.

        If an operator dies in between, the pod has no secret and has never run: it is made anew. So
        a secret of that name that exists already is somebody else's.
        """
        name, pods = pod["metadata"]["name"], KINDS["Pod"].path(seen.namespace)
        gates = [*pod["spec"].get("schedulingGates", ()), {"name": START_GATE}]
        gated = {**pod, "spec": {**pod["spec"], "schedulingGates": gates}}
        try:
            made = await self._api.call("POST", pods, gated, CREATE)
        except CallFailed as error:
            if error.is_conflict:
                await self._is_there(seen, name)
                return
            raise
        meta = secret["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid_of(made)}
        content = {
            **secret,
            "metadata": {**meta, "ownerReferences": [{**owner, "controller": True}]},
            "stringData": {key: self._secret()},
        }
        try:
            await self._api.call("POST", KINDS["Secret"].path(seen.namespace), content, CREATE)
        except CallFailed as error:
            if not error.is_conflict:
                raise
            await self._delete(seen, "Pod", name, uid_of(made))
            raise obstacle("Secret", meta["name"], None, seen.topology) from error
        others = [gate for gate in made["spec"]["schedulingGates"] if gate["name"] != START_GATE]
        change = {"metadata": {"uid": uid_of(made)}, "spec": {"schedulingGates": others or None}}
        started = await self._api.call("PATCH", f"{pods}/{name}", change, MERGE, Form.MERGE)
        self._store.put("Pod", started)

    async def _is_there(self, seen: Observed, name: str) -> None:
        """Check a driver's pod that exists already: whose it is, and whether it runs."""
        found = await self._look("Pod", seen.namespace, name)
        if found is None:
            raise Overtaken(f"pod {name} was there, and is gone")
        if not belongs(found, seen.topology):
            raise obstacle("Pod", name, found, seen.topology)
        if is_gated(found):
            await self._delete(seen, "Pod", name, uid_of(found))
            raise Overtaken(f"pod {name} was made without its secret, and is made anew")

    async def _delete(self, seen: Observed, kind: str, name: str, uid: str) -> None:
        path = KINDS[kind].path(seen.namespace, name)
        try:
            await self._api.call("DELETE", path, {"preconditions": {"uid": uid}})
        except CallFailed as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
        if kind != "Pod":  # a pod ends in its own time
            self._store.remove(kind, seen.namespace, name, uid)

    # ---- reading

    async def _look(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object that the watch has not told of, or not as it is now."""
        found = await listed(self._api, kind, namespace, name)
        known = self._store.get(kind, namespace, name)
        if found is not None and label(found, contract.TOPOLOGY_LABEL):
            self._store.put(kind, found)  # of others no watch would tell that they are gone
        elif known is not None:
            self._store.remove(kind, namespace, name, uid_of(known))
        return found


def _as_seen(seen: Observed) -> Manifest:
    """The identity and version of the topology, as it was read."""
    fields = ("name", "namespace", "uid", "resourceVersion")
    return {field: seen.topology["metadata"][field] for field in fields}


def _is_own(kind: str, found: Object, seen: Observed) -> bool:
    if kind == CLAIM:
        return has_claim(found, seen.topology, seen.revision)
    return belongs(found, seen.topology, kind)
