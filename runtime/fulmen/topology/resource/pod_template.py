"""The shape of a `podTemplate`, as far as Fulmen reads it. The rest is for the API server."""

from collections.abc import Mapping
from typing import Any, Final

from fulmen.topology.resource.base import refuse

TEXT: Final = "text"
NEEDED: Final = "needed text"
_HOOK: Final = {"httpGet": {"host": TEXT}, "tcpSocket": {"host": TEXT}}
_SECURITY: Final = {
    "capabilities": {"add": [TEXT], "drop": [TEXT]},
    "seLinuxOptions": {},
    "seccompProfile": {},
    "appArmorProfile": {},
    "windowsOptions": {},
    "sysctls": [{"name": TEXT}],
}
_CONTAINER: Final = {
    "name": NEEDED,
    "env": [{"name": NEEDED}],
    "ports": [{"name": TEXT}],
    "volumeMounts": [{"name": NEEDED, "mountPath": NEEDED}],
    "securityContext": _SECURITY,
    "livenessProbe": _HOOK,
    "readinessProbe": _HOOK,
    "startupProbe": _HOOK,
    "lifecycle": {"postStart": _HOOK, "preStop": _HOOK},
}
_SHAPE: Final = {
    "metadata": {"labels": {}, "annotations": {}},
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "ephemeralContainers": [_CONTAINER],
        "volumes": [{"name": NEEDED}],
        "imagePullSecrets": [{"name": TEXT}],
        "securityContext": _SECURITY,
    },
}
"""A mapping's fields, the one kind of entry that a list has, or text. Null is none of it.

What is needed is what Kubernetes merges entries by: without it, the API server's refusal is about
another entry, or about a patch of all.
"""


def shaped(template: dict[str, Any]) -> dict[str, Any]:
    """The same, whose parts can be merged by name and judged; else pydantic reports it."""
    _check(template, _SHAPE, "")
    return template


def _check(value: Any, shape: Any, path: str) -> None:
    if shape in (TEXT, NEEDED):
        if not isinstance(value, str):
            refuse("must have text here", path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            refuse("must have a list here", path)
        for number, entry in enumerate(value):
            _check(entry, shape[0], f"{path}[{number}]")
    else:
        if not isinstance(value, Mapping):
            refuse("must have a mapping here", path)
        for field in shape:
            if value.get(field) is not None:
                _check(value[field], shape[field], f"{path}.{field}")
            elif shape[field] == NEEDED:
                refuse(f"must have a {field} here, as Kubernetes tells entries apart by it", path)
