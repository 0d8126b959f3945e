"""All objects that a reconcile looks at, as the watches tell them.

The operator's own writes come in at once, with the API server's answer, so that no decision uses a
state that is known to be outdated; when the watch tells the same, it is no news.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fulmen.kube import contract, names
from fulmen.topology.resource.spec import KIND
from fulmen_operator.model import (
    Key,
    Object,
    component_of,
    is_terminating,
    label,
    name_of,
    owners_of,
    phase_of,
    uid_of,
)

DROPPED: Final = "managedFields"
"""The part of metadata that is dropped: large, and never looked at."""
LARGE: Final = {"Topology": "spec", "ConfigMap": "data"}
"""The parts of large objects that are left out, and read when they are needed."""
MOST_VALUES: Final = 2_000
MOST_CHARACTERS: Final = 64 * 1024
LONGEST_ANNOTATION: Final = 1024
Place = tuple[str, str, str]
"""Kind, namespace and name."""
Namespaces = frozenset[str] | None
"""The namespaces; None: all."""


class WatchCache:
    """Objects by kind and name, and by the topology that their label names."""

    def __init__(self) -> None:
        self._things: dict[Place, Object] = {}
        self._of: dict[Key, set[Place]] = {}
        self._fallen: dict[Key, Object] = {}

    def keys(self, kind: str, thing: Object) -> set[Key]:
        """The topologies of an object: by itself, and by its known version."""
        known = self.get(kind, str(thing["metadata"]["namespace"]), name_of(thing))
        return {key_of(kind, one) for one in (thing, known) if one is not None}

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object, if it is known of."""
        return self._things.get((kind, namespace, name))

    def of(self, key: Key, kind: str) -> list[Object]:
        """The objects of that kind with a topology's label, by name."""
        places = sorted(place for place in self._of.get(key, ()) if place[0] == kind)
        return [self._things[place] for place in places]

    def all_of(self, kind: str) -> list[Object]:
        """All objects of a kind, in any order."""
        return [thing for place, thing in self._things.items() if place[0] == kind]

    def fallen(self, key: Key) -> Object | None:
        """The worker's pod that has failed last: its driver deletes such within a second."""
        return self._fallen.get(key)

    def put(self, kind: str, thing: Object) -> bool:
        """Take an object in.

        Returns:
            Whether that is news: neither known already, nor older than what is known.
        """
        meta = {k: v for k, v in thing["metadata"].items() if k != DROPPED}
        if kind not in ("Topology", "Pod") and "annotations" in meta:
            meta["annotations"] = _of_interest(meta["annotations"] or {})
        place = kind, str(meta["namespace"]), str(meta["name"])
        kept = {**thing, "metadata": meta}
        if kind == "ConfigMap" and not _is_revision(kept):
            kept = {"metadata": meta}  # code, nearly a megabyte each, is never looked at
        part = LARGE.get(kind, "")
        if is_large(kept.get(part)):
            kept = {field: value for field, value in kept.items() if field != part}
        known = self._things.get(place)
        if known is not None:
            same = uid_of(known) == meta["uid"]
            if same and version_of(known) > version_of(kept):
                return False
            if same and version_of(known) == version_of(kept) and known.keys() >= kept.keys():
                return False
            self._discard(place)
        self._things[place] = kept
        if kind == "Pod" and _has_failed(kept):
            self._fallen[key_of(kind, kept)] = {"metadata": meta, "status": kept["status"]}
        self._of.setdefault(key_of(kind, kept), set()).add(place)
        return True

    def remove(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """An object is gone. Returns whether that is news."""
        place = kind, namespace, name
        known = self._things.get(place)
        if known is None or uid_of(known) != uid:
            return False
        self._discard(place)
        if kind == KIND:
            self._fallen.pop(Key(namespace, name), None)
        return True

    def retain(
        self, kind: str, found: Iterable[Object], version: int, among: Namespaces
    ) -> set[Key]:
        """Drop objects of a kind that a list of all does not have, unless they are newer.

        A watch that was cut off may have missed deletions.

        Args:
            kind: The kind.
            found: The objects in the list.
            version: The list's resourceVersion.
            among: The namespaces that were listed; None: all.

        Returns:
            The topologies of dropped objects.
        """
        dropped: set[Key] = set()
        there = {uid_of(thing) for thing in found}
        for place, thing in list(self._things.items()):
            listed = place[0] == kind and (among is None or place[1] in among)
            if listed and uid_of(thing) not in there and version_of(thing) < version:
                self._discard(place)
                dropped.add(key_of(kind, thing))
        return dropped

    def _discard(self, place: Place) -> None:
        thing = self._things.pop(place)
        key = key_of(place[0], thing)
        self._of[key].discard(place)
        if not self._of[key]:
            del self._of[key]


def is_large(value: Any) -> bool:
    """Whether a value is too large to be held for all objects. Looks at no more than needed."""
    rest, characters = [value], 0
    for _ in range(MOST_VALUES):
        if not rest:
            return False
        one = rest.pop()
        if isinstance(one, str):
            characters += len(one)
        elif isinstance(one, Mapping):
            characters += sum(map(len, one))
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        if characters > MOST_CHARACTERS:
            return True
    return bool(rest)


def _of_interest(annotations: Mapping[str, str]) -> dict[str, str]:
    """The operator's own, and those of others that are short: each object may have 256 KiB."""
    own = f"{contract.GROUP}/"
    return {
        name: value
        for name, value in annotations.items()
        if name.startswith(own) or len(value) <= LONGEST_ANNOTATION
    }


def version_of(thing: Object) -> int:
    """The version of an object. Kubernetes' versions are numbers that grow; 0: not known."""
    text = str(thing["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


def _has_failed(pod: Object) -> bool:
    """Whether a pod is a worker's that has failed without being told to end."""
    is_worker = component_of(pod) == contract.WORKER
    return is_worker and not is_terminating(pod) and phase_of(pod) == "Failed"


def _is_revision(config_map: Object) -> bool:
    return name_of(config_map) == names.revision(key_of("ConfigMap", config_map).name)


def key_of(kind: str, thing: Object) -> Key:
    """The topology that an object is of: by its owner, or by its label, which may be changed."""
    owners = [owner["name"] for owner in owners_of(thing) if owner.get("kind") == KIND]
    name = name_of(thing) if kind == KIND else [*owners, label(thing, contract.TOPOLOGY_LABEL)][0]
    return Key(str(thing["metadata"]["namespace"]), name)
