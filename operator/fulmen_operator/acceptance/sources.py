"""The author's code in ConfigMaps, and the digest that identifies it. Pure.

Code is up to 3 MB, and an operator looks after a thousand topologies. So contents are held only
while they are copied; afterwards their digest is enough.
"""

import base64
import hashlib
from collections.abc import Sequence

from fulmen.topology.resource.changes import digest
from fulmen.topology.resource.spec.pods import archive_part
from fulmen_operator.model import CodeConfigMap, Manifest, Object, Sources


def sources_in_parts(config_maps: Sequence[Object | None]) -> Sources:
    """The code in ConfigMaps with one part of an archive each, in the order of `spec.code`."""
    found = _found(config_maps)
    keys = [archive_part(number) for number in range(1, len(config_maps) + 1)]
    parts: list[str] = []
    for thing, key in zip(config_maps, keys, strict=True):
        part = ((thing or {}).get("binaryData") or {}).get(key)
        if part is None:
            return Sources(found)
        parts.append(part)
    archive = hashlib.sha256()
    for part in parts:
        archive.update(base64.b64decode(part))
    return Sources(
        found,
        digest=digest([archive.hexdigest(), [len(part) for part in parts]]),
        sha256=archive.hexdigest(),
        contents=tuple({"binaryData": {key: part}} for key, part in zip(keys, parts, strict=True)),
    )


def whole_source(config_maps: Sequence[Object | None]) -> Sources:
    """The code in one ConfigMap, if it exists."""
    found = _found(config_maps)
    thing = next(iter(config_maps), None) or {}
    texts, binary = dict(thing.get("data") or {}), dict(thing.get("binaryData") or {})
    if not texts and not binary:
        return Sources(found)
    known = digest([texts, binary]) if binary else digest(texts)
    content: Manifest = {"data": texts, "binaryData": binary}
    return Sources(found, digest=known, contents=(content,))


def _found(config_maps: Sequence[Object | None]) -> tuple[CodeConfigMap | None, ...]:
    return tuple(None if thing is None else _sizes(thing) for thing in config_maps)


def _sizes(thing: Object) -> CodeConfigMap:
    texts, binary = thing.get("data") or {}, thing.get("binaryData") or {}
    return CodeConfigMap(
        {name: len(text.encode()) for name, text in texts.items()},
        {name: len(base64.b64decode(text)) for name, text in binary.items()},
    )
