"""Where a checkpoint is kept: a flat set of objects, each written once and whole, and five verbs.

Guarantees, on every kind of store:
    - `put` is exclusive: of any number of puts of one key, in any processes, at most one succeeds,
      and an object never changes afterwards. All fencing of drivers rests on this.
    - An object is there whole or not at all, and once `put` returned it is durable.
    - `get` and `list` see every put that returned before they were called.
    - A `put` that raises `AlreadyExists` wrote nothing. One that raises `Unreachable` may have
      written the object, or a request still under way may yet do so; calling it again is safe.

Assumes: a file system with hard links and an honest fsync (ext4, xfs, NFS), or an object store with
conditional puts and consistent lists (S3, GCS and Azure have both).

Rejected: fsspec and Hadoop's FileSystem (neither has put-if-absent); overwriting (every race would
need a lock); appending to files (object stores can't).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Protocol
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from fulmen.checkpoint.files import FileBackend
from fulmen.checkpoint.remote import RemoteBackend, cloud_backend, memory_backend
from fulmen.errors import CheckpointError

# What a file system and every object store take as it is, without escaping of their own.
_KEY = re.compile(r"(?!.*(?:^|/)\.)[A-Za-z0-9._=+-]+(?:/[A-Za-z0-9._=+-]+)*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CLOUDS = ("s3", "gs", "az")


class Backend(Protocol):
    """What a kind of store has to do. `Store` has checked the keys."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object if there is none of that key, else raise `AlreadyExists`."""

    def get(self, key: str) -> bytes:
        """Read an object, or raise `NotFound`."""

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Read several objects, in that order."""

    def list(self, prefix: str) -> Iterable[str]:
        """All keys that start with `prefix`, in any order."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what exists of these."""


class Store:
    """Objects of bytes by key. May be used by several threads; each process opens its own.

    Attributes:
        uri: What it was opened with: the name of the store in messages, and what other processes
            need to open it.
    """

    def __init__(self, uri: str, backend: Backend) -> None:
        self.uri = uri
        self._backend = backend

    @classmethod
    def open(cls, uri: str) -> Store:
        """The store of that URI. Nothing is read or written yet.

        Args:
            uri: `file:///folder`, with `?fsync=false` if a crash of the machine may lose the newest
                commits; a plain path; `s3://bucket/prefix`, `gs://bucket/prefix`,
                `az://container/prefix`; or `memory://name`, which lives and dies with this process.
                Credentials and endpoints come from the environment variables that the cloud's own
                tools read (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...), never from the URI.

        Raises:
            CheckpointError: It is not such a URI, or it has a password in it.
        """
        scheme = _SCHEME.match(uri)
        if scheme is None:
            if not uri:
                raise CheckpointError("checkpoint: the URI is empty. Write file:///a/folder, say.")
            return cls(uri, FileBackend(uri, os.path.abspath(uri)))
        parts = urlsplit(uri)
        _refuse_credentials(parts)
        return cls(uri, _backend(uri, parts))

    def put(self, key: str, data: bytes) -> None:
        """Write an object that does not exist yet; durable when this returns.

        Raises:
            AlreadyExists: There is an object of that key which this call did not write.
            Unreachable: It may or may not have been written. Call again with the same bytes.
            CheckpointError: The store refuses it, and will again.
        """
        self._backend.put(_checked(key), data)

    def get(self, key: str) -> bytes:
        """Read one object.

        Raises:
            NotFound: There is none of that key.
            Unreachable: The store does not answer.
        """
        return self._backend.get(_checked(key))

    def get_many(self, keys: Iterable[str]) -> list[bytes]:
        """Read several objects, concurrently where that is faster. Raises what `get` does."""
        return self._backend.get_many([_checked(key) for key in keys])

    def list(self, prefix: str) -> list[str]:
        """All keys below a folder, sorted.

        Args:
            prefix: Ends in `/`; or nothing, for everything.
        """
        if prefix and not (prefix.endswith("/") and _KEY.fullmatch(prefix[:-1])):
            raise ValueError(f"prefix {prefix!r} must be empty or a key followed by '/'")
        return sorted(self._backend.list(prefix))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. One that does not exist is as good as deleted."""
        checked = [_checked(key) for key in keys]
        if checked:
            self._backend.delete(checked)


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"key {key!r} must be names of [A-Za-z0-9._=+-], none starting with a dot, joined by /"
        )
    return key


def _refuse_credentials(parts: SplitResult) -> None:
    if "@" in parts.netloc:
        shown = f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise CheckpointError(
            f"checkpoint {shown}: a URI is shown in logs and in the topology's status, so it must"
            " hold no user and no password. Leave them out and set the environment variables"
            " that the store's own tools read, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3."
        )


def _backend(uri: str, parts: SplitResult) -> FileBackend | RemoteBackend:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "file":
        return _file_backend(uri, parts, options)
    if options or parts.fragment:
        raise CheckpointError(
            f"checkpoint {uri}: {parts.scheme}:// takes no options. Remove what follows the path."
        )
    if not parts.netloc:
        raise CheckpointError(
            f"checkpoint {uri}: the name after {parts.scheme}:// is missing;"
            f" write {parts.scheme}://name/prefix."
        )
    if parts.scheme == "memory":
        return memory_backend(uri, parts.netloc + parts.path)
    if parts.scheme in _CLOUDS:
        return cloud_backend(uri, parts.scheme, parts.netloc, unquote(parts.path).strip("/"))
    raise CheckpointError(
        f"checkpoint {uri}: there is no store of kind {parts.scheme!r}."
        " There are file, s3, gs, az and memory."
    )


def _file_backend(uri: str, parts: SplitResult, options: dict[str, str]) -> FileBackend:
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise CheckpointError(
            f"checkpoint {uri}: three slashes and an absolute path are needed: file:///a/folder."
        )
    fsync = options.pop("fsync", "true")
    if options or fsync not in ("true", "false") or parts.fragment:
        raise CheckpointError(f"checkpoint {uri}: the only option is ?fsync=false.")
    return FileBackend(uri, unquote(parts.path), fsync=fsync == "true")
