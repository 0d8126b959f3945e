"""Objects that topologies name and that are not watched, as they may be large: code, claims."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from fulmen.kube import names
from fulmen_operator.acceptance.sources import sources_in_parts, whole_source
from fulmen_operator.cluster.api import ApiServer, Form, listed
from fulmen_operator.model import Key, Object, Sources, uid_of
from fulmen_operator.ownership import CLAIM

OTHERS_SECONDS: Final = 30
"""Seconds for which an object of others (code, a claim) is taken as unchanged."""


@dataclass(frozen=True)
class _Read:
    """The ConfigMaps with a topology's code, as they were read.

    Attributes:
        named: Their names.
        at: When they were last seen in this state.
        generation: The topology's generation then.
        versions: The uid and the resourceVersion of each.
        sources: Their sources, without contents.
    """

    named: Sequence[str]
    at: datetime
    generation: int
    versions: Sequence[tuple[str, str]]
    sources: Sources


class Unwatched:
    """Objects of users that topologies name: read now and then.

    Args:
        api: The API server.
    """

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._claims: dict[Key, tuple[datetime, int, dict[str, Object]]] = {}
        self._code: dict[Key, _Read] = {}

    def forget(self, key: Key) -> None:
        """A topology is gone."""
        self._claims.pop(key, None)
        self._code.pop(key, None)

    async def claims(self, key: Key, topology: Object, names: Collection[str]) -> Sequence[Object]:
        """Claims that the user names. Their like are not watched: there may be many."""
        known, now = self._claims.pop(key, None), self._api.now()
        generation = int(topology["metadata"]["generation"])
        if known is None or known[1] != generation or _is_old(known[0], now):
            known = now, generation, {}
        for name in sorted(set(names) - known[2].keys()):
            found = await listed(self._api, CLAIM, key.namespace, name)
            if found is not None:
                known[2][name] = found
        if names:
            self._claims[key] = known
        return [found for name, found in known[2].items() if name in names]

    async def sources(
        self, key: Key, topology: Object, children: Collection[tuple[str, str]]
    ) -> Sources:
        """The code that the user names: with its contents, unless all has been copied already.

        It is not watched, as it may be large. Only its digests are held.
        """
        code = (topology.get("spec") or {}).get("code") or {}
        single, parts = code.get("configMap"), code.get("configMaps") or ()
        named = [single] if single else list(parts)
        known = self._code.pop(key, None)
        if not named:
            return Sources()
        generation, now = int(topology["metadata"]["generation"]), self._api.now()
        if known is not None and known.named == named:
            maps = names.code_maps(names.code(key.name, known.sources.digest), len(parts))
            is_copied = all(("ConfigMap", name) in children for name in maps)
            is_new = known.generation == generation and not _is_old(known.at, now)
            if is_copied and (is_new or await self._versions(key, named) == known.versions):
                at = known.at if is_new else now
                self._code[key] = replace(known, at=at, generation=generation)
                return known.sources
        found = [await listed(self._api, "ConfigMap", key.namespace, name) for name in named]
        sources = whole_source(found) if single else sources_in_parts(found)
        if sources.digest:
            versions = [_version(thing) for thing in found if thing is not None]
            small = replace(sources, contents=())
            self._code[key] = _Read(named, now, generation, versions, small)
        return sources

    async def _versions(self, key: Key, named: Sequence[str]) -> Sequence[tuple[str, str]]:
        """The versions of those ConfigMaps that exist."""
        found = [
            await listed(self._api, "ConfigMap", key.namespace, name, Form.METADATA)
            for name in named
        ]
        return [_version(thing) for thing in found if thing is not None]


def _is_old(seen: datetime, now: datetime) -> bool:
    return (now - seen).total_seconds() >= OTHERS_SECONDS


def _version(thing: Object) -> tuple[str, str]:
    return uid_of(thing), str(thing["metadata"]["resourceVersion"])
