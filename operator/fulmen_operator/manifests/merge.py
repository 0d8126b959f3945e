"""Merges a user's pod template with the manifest that Fulmen needs.

Mappings are merged key by key, lists of named things entry by entry, everything else is replaced.
"""

from collections.abc import Mapping
from typing import Any

LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "env": "name",
    "ports": "name",
    "imagePullSecrets": "name",
}
"""The field that identifies the entries of a list."""
ADDED = ("tolerations", "requiredDuringSchedulingIgnoredDuringExecution")
"""Lists without names: those of both are wanted."""


def merged(base: Any, over: Any, field: str = "") -> Any:
    """`over` laid over `base`: where both say something about the same thing, `over` wins."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        both = {key: merged(base[key], over[key], key) for key in base if key in over}
        return {**base, **over, **both}
    if isinstance(base, list) and isinstance(over, list):
        if field in LIST_KEYS:
            return _named(base, over, LIST_KEYS[field])
        if field in ADDED:
            return [*over, *(entry for entry in base if entry not in over)]
    return over


def _named(base: list[Any], over: list[Any], key: str) -> list[Any]:
    mine = {entry.get(key): entry for entry in base}
    wanted = {entry.get(key): entry for entry in over}
    both = {name: merged(mine[name], wanted[name]) for name in mine if name in wanted}
    return list((mine | wanted | both).values())
