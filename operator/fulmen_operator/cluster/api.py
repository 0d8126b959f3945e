"""The interface to Kubernetes' API: one kind of call, its errors, and the paths of objects."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, Literal, Protocol

from fulmen.kube import contract
from fulmen_operator.model import Object

Method = Literal["GET", "POST", "PATCH", "DELETE"]


class Form(Enum):
    """The form in which objects are sent or answered."""

    WHOLE = auto()
    """A PATCH is a server-side apply."""
    METADATA = auto()
    """Only the metadata of a list's items is answered."""
    MERGE = auto()
    """A PATCH merges what is sent into the object."""


NOT_FOUND: Final = 404
CONFLICT: Final = 409

APPLY: Final = {"fieldManager": contract.MANAGER, "force": "true", "fieldValidation": "Strict"}
"""The query of a server-side apply."""
CREATE: Final = {"fieldManager": contract.MANAGER, "fieldValidation": "Strict"}
"""The query of a creation."""
MERGE: Final = {"fieldManager": contract.MANAGER}
"""The query of a merge."""


class CallFailed(Exception):
    """The API server did not carry out a call.

    Attributes:
        status: The HTTP status; 0: it could not be reached.
        message: Its words.
        what: The call.
    """

    def __init__(self, status: int, message: str, what: str) -> None:
        super().__init__(status, message, what)
        self.status = status
        self.message = message
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: {self.message} ({self.status})"

    @property
    def is_conflict(self) -> bool:
        """Whether somebody was faster: read the object anew."""
        return self.status == CONFLICT

    @property
    def is_namespace_going(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted."""
        return self.status == 403 and "because it is being terminated" in self.message

    @property
    def is_refusal(self) -> bool:
        """Whether the same call would be refused again: people must be told."""
        if "typed patch object" in self.message:  # an unknown field, in a server-side apply
            return True
        return self.status in (400, 403, 404, 413, 422)


class Overtaken(Exception):
    """An object has changed since the decision: decide anew."""


class ApiServer(Protocol):
    """The API server."""

    async def call(
        self,
        method: Method,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        form: Form = Form.WHOLE,
    ) -> dict[str, Any]:
        """Make one call. CallFailed if the server refused, or could not be reached."""

    def now(self) -> datetime:
        """The time by the server's clock, which the times in objects are of."""


@dataclass(frozen=True)
class Kind:
    """The place of a kind's objects in the API.

    Attributes:
        group: `/api/v1`, or `/apis/GROUP/VERSION`.
        plural: The plural of the kind, as in paths.
    """

    group: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """The path of one object, of all in a namespace, or without a namespace of all."""
        tail = f"/{name}" if name else ""
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.group}{where}/{self.plural}{tail}"


def whole(kind: str, item: Object) -> Object:
    """An item of a list with its kind, which lists leave out."""
    version = KINDS[kind].group.split("/", 2)[2]
    return {"apiVersion": version, "kind": kind, **item}


_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
KINDS: Final = {
    "Topology": Kind(f"/apis/{contract.GROUP}/{contract.VERSION}", contract.PLURAL),
    "Pod": Kind("/api/v1", "pods"),
    "ConfigMap": Kind("/api/v1", "configmaps"),
    "Secret": Kind("/api/v1", "secrets"),
    "ServiceAccount": Kind("/api/v1", "serviceaccounts"),
    "PersistentVolumeClaim": Kind("/api/v1", "persistentvolumeclaims"),
    "Event": Kind("/api/v1", "events"),
    "Role": Kind(_RBAC, "roles"),
    "RoleBinding": Kind(_RBAC, "rolebindings"),
    "Lease": Kind("/apis/coordination.k8s.io/v1", "leases"),
    "NetworkPolicy": Kind("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Service": Kind("/api/v1", "services"),
}


async def listed(
    api: ApiServer, kind: str, namespace: str, name: str, form: Form = Form.WHOLE
) -> Object | None:
    """An object, by the right to list its kind, which watching needs anyway."""
    query = {"fieldSelector": f"metadata.name={name}"}
    path = KINDS[kind].path(namespace)
    answer = await api.call("GET", path, query=query, form=form)
    items: list[Object] = answer["items"] or []
    return whole(kind, items[0]) if items else None


def words_of(body: str) -> str:
    """The message in an error of the API server's."""
    try:
        content = json.loads(body)
    except ValueError:
        return body.strip()
    return str(content.get("message", body)) if isinstance(content, dict) else body
