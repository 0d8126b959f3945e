"""Where a checkpoint is kept: a flat set of objects, each written once and whole, and six verbs.

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
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from fulmen.checkpoint.files import FileBackend
from fulmen.checkpoint.record import INLINE_BYTES
from fulmen.checkpoint.remote import cloud_backend, memory_backend
from fulmen.errors import CheckpointError
from fulmen.topology.resource.uris import BadUri, read_uri

CHUNK_BYTES = 8 * 1024 * 1024
# What a file system and every object store take as it is, without escaping of their own.
_KEY = re.compile(r"(?!.*(?:^|/)\.)[A-Za-z0-9._=+-]+(?:/[A-Za-z0-9._=+-]+)*")


class Backend(Protocol):
    """The operations of one kind of store. `Store` has checked the keys."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object if there is none of that key, else raise `AlreadyExists`."""

    def get(self, key: str) -> bytes:
        """Read an object, or raise `NotFound`."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object, or raise `NotFound`. Behind its end there is nothing."""

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Read several objects, in that order."""

    def list(self, prefix: str) -> Iterable[str]:
        """List all keys that start with `prefix`, in any order."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what exists of these."""


class Store:
    """Objects of bytes by key. May be used by several threads; each process opens its own.

    Attributes:
        uri: What it was opened with: the name of the store in messages, and what other processes
            need to open it.
        inline_bytes: Payloads that are shorter are in the commits themselves, see `save`.
    """

    def __init__(self, uri: str, backend: Backend, inline_bytes: int = INLINE_BYTES) -> None:
        self.uri = uri
        self.inline_bytes = inline_bytes
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
        try:
            place = read_uri(uri)
        except BadUri as error:
            raise CheckpointError(f"checkpoint {error}") from None
        if place.kind == "file":
            folder = os.path.abspath(place.path)
            return cls(uri, FileBackend(uri, folder, fsync=place.fsync))
        if place.kind == "memory":
            return cls(uri, memory_backend(uri, f"{place.name}/{place.path}"))
        return cls(uri, cloud_backend(uri, place.kind, place.name, place.path))

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

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object: as much of it as there is. Raises what `get` does."""
        return self._backend.get_range(_checked(key), start, length)

    def get_chunks(self, key: str, length: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Read one object piece by piece, for one that memory has no room for.

        The pieces are of one object only if nobody overwrites it meanwhile. Raises what `get` does.
        """
        # A range must not begin at the end of an object: each begins with a byte that is known.
        chunk = self.get_range(key, 0, length)
        end = 0
        while chunk:
            yield chunk
            end += len(chunk)
            chunk = self.get_range(key, end - 1, length + 1)[1:]

    def get_many(self, keys: Iterable[str]) -> list[bytes]:
        """Read several objects, concurrently where that is faster. Raises what `get` does."""
        return self._backend.get_many([_checked(key) for key in keys])

    def list(self, prefix: str) -> list[str]:
        """List all keys below a folder, sorted.

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
