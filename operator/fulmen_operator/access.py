"""Reads all that belongs to a topology, and carries out what was decided about it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fulmen.kube import contract
from fulmen.topology.spec import API_VERSION, KIND
from fulmen_operator.acceptance import own_claim
from fulmen_operator.api import APPLY, KINDS, Api, ApiError
from fulmen_operator.manifests.common import marked
from fulmen_operator.model import (
    Action,
    Apply,
    Delete,
    Event,
    Key,
    MakeSecret,
    Manifest,
    Object,
    Observed,
    Trial,
    clipped,
    text_of,
)

LISTED = ("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "NetworkPolicy")
NOT_FOUND, CONFLICT = 404, 409
MAX_NOTE = 1024
"""As much as an Event's message may have."""


class Access:
    """A topology's objects, through the API.

    Args:
        api: The API server.
        clock: The time.
        secret: Makes the random content of a secret.
    """

    def __init__(self, api: Api, clock: Callable[[], datetime], secret: Callable[[], str]) -> None:
        self._api = api
        self._clock = clock
        self._secret = secret

    async def observe(self, key: Key) -> Observed | None:
        """Everything about a topology, read anew; None if it is gone."""
        topology = await self._get("Topology", key.namespace, key.name)
        if topology is None:
            return None
        spec = topology.get("spec") or {}
        source = (spec.get("code") or {}).get("configMap")
        named = (spec.get("checkpoint") or {}).get("persistentVolumeClaim")
        claims = {own_claim(key.name), *([named] if named else [])}
        (plan, source_map, *found), (pods, *lists) = await asyncio.gather(
            asyncio.gather(
                self._get("ConfigMap", key.namespace, contract.plan_name(key.name)),
                self._get("ConfigMap", key.namespace, source) if source else _nothing(),
                *(self._get("PersistentVolumeClaim", key.namespace, name) for name in claims),
            ),
            asyncio.gather(*(self._list(kind, key) for kind in ("Pod", *LISTED))),
        )
        children: dict[tuple[str, str], Object] = {
            (kind, item["metadata"]["name"]): item
            for kind, items in zip(LISTED, lists, strict=True)
            for item in items
        }
        children |= {
            ("PersistentVolumeClaim", name): claim
            for name, claim in zip(claims, found, strict=True)
            if claim is not None
        }
        return Observed(
            topology=topology,
            now=self._clock(),
            plan=plan,
            pods=pods,
            children=children,
            source=source_map,
        )

    async def write_status(self, seen: Observed, status: Manifest) -> None:
        """Write the whole status, unless somebody has changed the topology since it was read.

        Raises:
            ApiError: Of status 409 if so, or if it is gone.
        """
        meta = {
            "name": seen.name,
            "namespace": seen.namespace,
            "resourceVersion": seen.topology["metadata"]["resourceVersion"],
        }
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "status": status}
        path = KINDS["Topology"].path(seen.namespace, seen.name)
        try:
            await self._api.call("PATCH", f"{path}/status", body, APPLY)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise ApiError(CONFLICT, "it was deleted meanwhile", error.what) from error
            raise

    async def carry_out(self, seen: Observed, action: Action) -> None:
        """Do one thing. What is done already is not an error.

        Raises:
            ApiError: The server refused it, or could not be reached.
        """
        match action:
            case Apply(manifest):
                await self._apply(seen.namespace, marked(manifest))
            case MakeSecret(manifest, key):
                content = {**manifest, "stringData": {key: self._secret()}}
                path = KINDS["Secret"].path(seen.namespace)
                await self._unless(CONFLICT, "POST", path, content)
            case Delete(kind, name, uid):
                body = {"preconditions": {"uid": uid}} if uid else {}
                path = KINDS[kind].path(seen.namespace, name)
                await self._unless(CONFLICT, "DELETE", path, body)

    async def try_out(self, seen: Observed, trial: Trial) -> str:
        """Ask the server about pods without making them.

        Returns:
            What it refuses, in its words; nothing if it would take them.

        Raises:
            ApiError: It could not be reached.
        """
        path = KINDS["Pod"].path(seen.namespace)
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        refused = []
        for pod in trial.pods:
            try:
                await self._api.call("POST", path, pod, query)
            except ApiError as error:
                if not error.is_refusal:
                    raise
                if "exceeded quota" not in error.message:  # what is there now counts against it
                    refused.append(f"{pod['metadata']['name']}: {error.message}")
        return " ".join(refused)

    async def tell(self, seen: Observed, event: Event) -> None:
        """Tell people about something that happened to a topology."""
        now = text_of(seen.now)
        meta = seen.topology["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{seen.name}.", "namespace": seen.namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": seen.name,
                "namespace": seen.namespace,
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": clipped(event.message, MAX_NOTE),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": contract.MANAGER},
            "reportingComponent": contract.MANAGER,
            "reportingInstance": contract.MANAGER,
        }
        await self._api.call("POST", KINDS["Event"].path(seen.namespace), body)

    # ---- single calls

    async def _apply(self, namespace: str, manifest: Manifest) -> None:
        path = KINDS[manifest["kind"]].path(namespace, manifest["metadata"]["name"])
        await self._api.call("PATCH", path, manifest, APPLY)

    async def _unless(self, status: int, method: Any, path: str, body: Mapping[str, Any]) -> None:
        """Make a call that may find its work done: the object is there, or is gone."""
        try:
            await self._api.call(method, path, body)
        except ApiError as error:
            if error.status not in (status, NOT_FOUND if method == "DELETE" else status):
                raise

    async def _get(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return await self._api.call("GET", KINDS[kind].path(namespace, name))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def _list(self, kind: str, key: Key) -> list[Object]:
        query = {"labelSelector": f"{contract.TOPOLOGY_LABEL}={key.name}"}
        path = KINDS[kind].path(key.namespace)
        code = kind == "ConfigMap"  # nearly a megabyte each, and never looked at
        found = await self._api.call("GET", path, query=query, metadata_only=code)
        return list(found["items"] or ())  # none is null in lists of metadata


async def _nothing() -> None:
    return None


def words_of(body: str) -> str:
    """The message in an error of the API server's."""
    try:
        content = json.loads(body)
    except ValueError:
        return body.strip()
    return str(content.get("message", body)) if isinstance(content, dict) else body
