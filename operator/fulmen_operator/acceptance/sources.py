"""What ConfigMaps have of an author's code, and what tells it from other code. Pure.

Code is up to 3 MB, and an operator looks after a thousand topologies. So their contents are held
while they are copied, and afterwards only what they are known by.
"""

import base64
import hashlib
from collections.abc import Sequence

from fulmen.topology.resource.changes import digest
from fulmen.topology.resource.pods import archive_part
from fulmen_operator.model import CodeConfigMap, Manifest, Object, Sources


def sources_of(config_maps: Sequence[Object | None], *, in_parts: bool) -> Sources:
    """What these ConfigMaps have together, with their contents.

    Args:
        config_maps: In the order of `spec.code`; None where there is none.
        in_parts: Whether each has a part of one archive; if not, there is one that has it all.
    """
    found = tuple(None if thing is None else _sizes(thing) for thing in config_maps)
    return _parts(config_maps, found) if in_parts else _whole(config_maps, found)


def _parts(
    config_maps: Sequence[Object | None], found: tuple[CodeConfigMap | None, ...]
) -> Sources:
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


def _whole(
    config_maps: Sequence[Object | None], found: tuple[CodeConfigMap | None, ...]
) -> Sources:
    thing = next(iter(config_maps), None) or {}
    texts, binary = dict(thing.get("data") or {}), dict(thing.get("binaryData") or {})
    if not texts and not binary:
        return Sources(found)
    known = digest([texts, binary]) if binary else digest(texts)
    content: Manifest = {"data": texts, "binaryData": binary}
    return Sources(found, digest=known, contents=(content,))


def _sizes(thing: Object) -> CodeConfigMap:
    texts, binary = thing.get("data") or {}, thing.get("binaryData") or {}
    return CodeConfigMap(
        {name: len(text.encode()) for name, text in texts.items()},
        {name: len(base64.b64decode(text)) for name, text in binary.items()},
    )
