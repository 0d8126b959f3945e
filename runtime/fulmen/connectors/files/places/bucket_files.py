"""Objects of buckets that a spout reads: found by pattern, known by URI and version."""

from __future__ import annotations

import glob
import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from fulmen.connectors.files.places.buckets import Bucket, is_uri
from fulmen.connectors.files.places.local import (
    BadPlace,
    Changed,
    GoneFile,
    LocalFiles,
    OpenedFile,
    UnreadableFile,
)
from fulmen.connectors.files.places.packed import unpacked
from fulmen.connectors.files.positions import FileProgress, FoundFile, Key, Position

_READ_BYTES = 4 << 20
_NO_KEY = (
    "the object can't be read, nor others whose keys begin alike: a part of the key is empty, '.'"
    " or '..'. Copy it to another key, and remove it"
)


class _Content(io.RawIOBase):
    """An object as a file that can be read from any place."""

    def __init__(self, bucket: Bucket, path: str, version: str, size: int) -> None:
        self._bucket, self._path, self._version, self._size = bucket, path, version, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        data = self._bucket.read(self._path, self._version, self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class BucketFiles:
    """The objects that patterns match and that are this task's.

    Attributes:
        present: The number of the folder that all count as in: what a bucket does not list is
            removed.
        passed_over: Objects that can't be read whatever is tried, and why.
    """

    def __init__(self, patterns: Sequence[str], owns: Callable[[str], bool]) -> None:
        """Keep the patterns. Nothing is requested yet.

        Args:
            patterns: URIs, whose paths are as `glob` takes them; `**` is any folders.
            owns: Whether an object of that URI is this task's.

        Raises:
            BadPlace: One is no such URI, or what every request needs is not in the environment.
        """
        self._owns = owns
        self.present = {0}
        self.passed_over: dict[str, str] = {}
        self._patterns = [Bucket(pattern) for pattern in patterns]
        self._buckets = {bucket.uri: bucket for bucket in self._patterns}

    def check(self) -> None:
        """See whether the buckets are there; raises what `Bucket.check` does."""
        for bucket in self._buckets.values():
            bucket.check()

    def folder(self) -> str | None:
        """None: there are no folders in a bucket."""
        return None

    def missing(self) -> str | None:
        """An object that is named without `*` and is not there."""
        for bucket in self._patterns:
            with suppress(UnreadableFile):  # it is there, and told when it is to be read
                if not glob.has_magic(bucket.path) and bucket.head(bucket.path) is None:
                    return f"file '{bucket.uri}/{bucket.path}'"
        return None

    def find(self, is_known: Callable[[Key], bool]) -> dict[Key, FoundFile]:  # noqa: ARG002 (objects keep their names)
        """Find all objects."""
        files: dict[Key, FoundFile] = {}
        self.passed_over = {}
        for bucket in self._patterns:
            for entry in _matched(bucket, self.passed_over):
                uri = f"{bucket.uri}/{entry['path']}"
                if self._owns(uri):
                    version = entry["e_tag"] or ""
                    modified = entry["last_modified"].timestamp()
                    known_by = f"{uri}\0{version or (entry['size'], modified)}"
                    digest = hashlib.blake2b(known_by.encode(), digest_size=8).digest()
                    key = int.from_bytes(digest, "big")
                    size = entry["size"]
                    files[key] = FoundFile(
                        key, uri, size, modified, is_whole=True, version=version, stamp=1
                    )
        return files

    def open(self, position: Position) -> OpenedFile:
        """Open an object.

        Raises:
            Gone: It is not there, or was written again.
        """
        bucket = next(b for uri, b in self._buckets.items() if position.path.startswith(f"{uri}/"))
        path = position.path[len(bucket.uri) + 1 :]
        entry = bucket.head(path)
        if entry is None:
            raise GoneFile(f"object {position.path} was removed")
        if position.version and entry["e_tag"] != position.version:
            raise Changed(f"object {position.path} was written again")
        raw = _Content(bucket, path, position.version, entry["size"])
        return OpenedFile(unpacked(path, io.BufferedReader(raw, _READ_BYTES)))

    def fault_of(self, path: str, error: Exception) -> str | None:  # noqa: ARG002 (it is said)
        """Why an object can't be read; None: it is not its fault."""
        return str(error) if isinstance(error, UnreadableFile) else None

    def folder_of(self, key: Key) -> int:  # noqa: ARG002 (a bucket is not unmounted)
        """0: all objects count as in one folder."""
        return 0


def source_of(
    paths: Sequence[str],
    progress: FileProgress,
    owns: Callable[[str], bool],
    is_whole: Callable[[str], bool],
    now: Callable[[], float],
) -> LocalFiles | BucketFiles:
    """Make the finder of the files that a spout reads.

    Raises:
        BadPlace: Paths are of both kinds, or one can't be used.
    """
    uris = [path for path in paths if is_uri(path) and not path.startswith("file://")]
    if not uris:
        return LocalFiles(
            [path.removeprefix("file://") for path in paths], progress, owns, is_whole, now
        )
    if len(uris) < len(paths):
        raise BadPlace(
            "config.path: files and objects can't be read by the same spout. Make a spout for each"
        )
    return BucketFiles(uris, owns)


def _matched(bucket: Bucket, passed_over: dict[str, str]) -> Iterator[Any]:
    pattern = bucket.path
    if not glob.has_magic(pattern):
        try:
            entry = bucket.head(pattern)
        except UnreadableFile as error:
            passed_over[f"{bucket.uri}/{pattern}"] = str(error)
            return
        if entry is not None:
            yield entry
        return
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    matches = _regex(pattern).fullmatch

    def told(key: str) -> None:
        if "**" in pattern or matches(key):
            passed_over[f"{bucket.uri}/{key}"] = _NO_KEY

    for entry in bucket.list(fixed, told):
        if matches(entry["path"]):
            yield entry


def _regex(pattern: str) -> re.Pattern[str]:
    """A pattern of `glob`, for the paths of objects."""
    text = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|[^*?\[]+|\[", pattern):
        if part.startswith("[") and len(part) > 1:
            inner = part[1:-1].replace("\\", "\\\\")
            text += f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
        else:
            fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
            text += fixed.get(part) or re.escape(part)
    return re.compile(text, re.DOTALL)
