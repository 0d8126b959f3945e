"""The format of what is stored: commits, and the manifest that a chain of commits adds up to.

Every object is framed: four bytes of magic, one byte with the version of the format, the crc32 of
that version and the body (big-endian), the body. A commit's body is a msgpack map with the fields
of `Commit`; a state file's body is the caller's bytes. docs/checkpoint.md describes both.

A commit says what changed. Each `MANIFEST_EVERY`-th one, and each claim, also holds the manifest:
the whole state *before* it, without the data that other objects hold. So the state after commit N
is the manifest in the last commit up to N that has one, with that commit and all up to N applied.
Before rather than after: then a commit is written first and applied to the manifest in memory when
that succeeded, so that a failed write needs no rollback.

Rejected: a manifest per commit (thousands of tasks, 100 commits a second); pickle (it runs code,
and changes with our classes); tolerance for unknown fields (an older driver would drop them
silently from the next manifest: any change of the format is a new version).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]

from fulmen.checkpoint.manifest import Commit, Links, Manifest, Ref, Update
from fulmen.checkpoint.names import state_prefix
from fulmen.errors import CheckpointError

VERSION = 1
MANIFEST_EVERY = 64
"""A reader of the newest state reads at most this many commits, or that of a claim more."""
INLINE_BYTES = 64 * 1024
"""Data of this size or more belongs in a state file of its own, not into the commit."""

_COMMIT_MAGIC = b"FLMC"
_STATE_MAGIC = b"FLMS"
_HEADER_BYTES = 9
STATE_HEADER_BYTES = _HEADER_BYTES
"""Of a state file, before its payload."""


def encode(commit: Commit) -> bytes:
    """A commit as the bytes of its object.

    Raises:
        ValueError: An update has both data and a file, or a file of another attempt.
    """
    _check_files(commit)
    body = {name: getattr(commit, name) for name in _COMMIT_FIELDS}
    body |= {"sections": dict(commit.sections), "transient": dict(commit.transient)}
    body["removed_tasks"] = list(commit.removed_tasks)
    if commit.manifest is not None:
        manifest = {name: getattr(commit.manifest, name) for name in _MANIFEST_FIELDS}
        body["manifest"] = manifest | {"tasks": _packed(manifest["tasks"])}
    body["links"] = _packed(commit.links)
    return _framed(_COMMIT_MAGIC, msgpack.packb(body))


def decode(where: str, data: bytes) -> Commit:
    """The commit in an object.

    Raises:
        CheckpointError: It is damaged, or of a newer format.
    """
    body = msgpack.unpackb(_unframed(where, _COMMIT_MAGIC, data))
    body["updates"] = {
        task: {journal: Update(*update) for journal, update in journals.items()}
        for task, journals in body["updates"].items()
    }
    body["removed_tasks"] = tuple(body["removed_tasks"])
    body["links"] = _unpacked(body["links"])
    if (manifest := body["manifest"]) is not None:
        body["manifest"] = Manifest(**manifest | {"tasks": _unpacked(manifest["tasks"])})
    return Commit(**body)


def encode_state(data: bytes) -> bytes:
    """A payload as the bytes of a state file."""
    return _framed(_STATE_MAGIC, data)


def decode_state(where: str, data: bytes) -> bytes:
    """The payload in a state file. Arguments and errors as for `decode`."""
    return bytes(_unframed(where, _STATE_MAGIC, data))


_COMMIT_FIELDS = tuple(Commit.__dataclass_fields__)
_MANIFEST_FIELDS = tuple(
    name for name, about in Manifest.__dataclass_fields__.items() if about.init
)


def _packed(tasks: Links) -> dict[str, dict[str, list[tuple[Any, ...]]]]:
    """References without what they usually are: nearly all are to the own task's payloads."""
    return {
        task: {
            journal: [ref[:1] if ref.place == (task, journal) else ref for ref in refs]
            for journal, refs in journals.items()
        }
        for task, journals in tasks.items()
    }


def _unpacked(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[Ref]]]:
    return {
        task: {
            journal: [_unpacked_ref(*ref, (task, journal)) for ref in refs]
            for journal, refs in journals.items()
        }
        for task, journals in tasks.items()
    }


def _unpacked_ref(number: int, place: Any, *_own: object) -> Ref:
    return Ref(number, place if isinstance(place, str) else (place[0], place[1]))


def _check_files(commit: Commit) -> None:
    """Garbage collection relies on a file being referred to once, by the commit in its name."""
    prefix = state_prefix(commit.number, commit.tag)
    for task, updates in commit.updates.items():
        for journal, (data, file, keep_from) in updates.items():
            if file is not None and (data is not None or not file.startswith(prefix)):
                raise ValueError(
                    f"commit {commit.number}, task {task!r}, journal {journal!r}: file {file!r} "
                    f"must come without data and have a name that starts with {prefix!r}"
                )
            if keep_from > commit.number:
                raise ValueError(
                    f"commit {commit.number}, task {task!r}, journal {journal!r}: keep_from"
                    f" {keep_from} is a later commit"
                )


def _framed(magic: bytes, body: bytes) -> bytes:
    version = bytes([VERSION])
    return b"".join((magic, version, _crc(version, body).to_bytes(4, "big"), body))


def _unframed(where: str, magic: bytes, data: bytes) -> memoryview:
    header, body = data[:_HEADER_BYTES], memoryview(data)[_HEADER_BYTES:]
    version = header[4:5]
    intact = len(header) == _HEADER_BYTES and _crc(version, body).to_bytes(4, "big") == header[5:]
    if not intact or header[:4] != magic:
        raise CheckpointError(
            f"checkpoint {where} is damaged: its {len(data)} bytes are not those that were written"
            f" (magic {header[:4]!r}, should be {magic!r}; checksum"
            f" {'right' if intact else 'wrong'}). Restore the object from a copy of the store, or"
            " start the topology with an empty checkpoint, which loses its state."
        )
    if version[0] > VERSION:
        raise CheckpointError(
            f"checkpoint {where} was written by a newer Fulmen: format {version[0]}, and this one"
            f" reads up to {VERSION}. Run the topology with the newer version."
        )
    return body


def _crc(version: bytes, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(version))
