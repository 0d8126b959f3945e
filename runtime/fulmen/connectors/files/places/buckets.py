"""Objects in buckets of S3, Google Cloud Storage and Azure, over obstore.

Credentials and endpoints come from the environment variables that the clouds' own tools read. An
object is known by its URI and version: one that is written again is another one.
"""

from __future__ import annotations

import glob
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from fulmen.api.sinks import ServiceUnavailable
from fulmen.connectors.files.places.listing import objects_below
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
from fulmen.services.buckets import (
    NO_BUCKET,
    NO_CREDENTIALS,
    STORES,
    VARIABLES,
    gist,
    opened,
)

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_READ_BYTES = 4 << 20
_TIMEOUTS = {"connect_timeout": "5s", "timeout": "60s"}
_NO_USE = re.compile(r"builder error|InvalidAccessKeyId|SignatureDoesNotMatch")
_IS_REFUSED = re.compile(r"status 4(?!08|29)\d\d")
_NO_KEY = (
    "the object can't be read, nor others whose keys begin alike: a part of the key is empty, '.'"
    " or '..'. Copy it to another key, and remove it"
)
_GIST = 300


def is_uri(path: str) -> bool:
    """Whether a path names an object rather than a file of this machine."""
    return _URI.match(path) is not None


class Bucket:
    """One bucket.

    Attributes:
        uri: Of the bucket.
        path: What the URI has behind the bucket's name.
    """

    def __init__(self, uri: str) -> None:
        """Keep the URI. Nothing is requested yet.

        Raises:
            BadPlace: It is no URI of a bucket, or what every request needs is not in the
                environment.
        """
        try:
            parts = urlsplit(uri.replace("?", "%3F").replace("#", "%23"))
        except ValueError:  # it may have the password in it
            raise BadPlace(
                "config.path: it can't be understood as a URI. A bucket's name has no brackets"
            ) from None
        if "@" in parts.netloc or ":" in parts.netloc:  # a password may have a / before the @
            raise BadPlace(
                f"config.path: {parts.scheme}://… has a user or a password, and is shown in logs."
                " Leave them out, and set environment variables:"
                f" {VARIABLES.get(parts.scheme, VARIABLES['s3'])}"
            )
        self._scheme = parts.scheme
        if self._scheme not in STORES or not parts.netloc:
            raise BadPlace(
                f"config.path: '{uri}' names no bucket. Write a path, or s3://, gs:// or az://,"
                " the bucket's name, / and more"
            )
        self.uri = f"{parts.scheme}://{parts.netloc}"
        self.path = uri[len(self.uri) :].strip("/")
        try:
            self._store = opened(self._scheme, parts.netloc, "", _TIMEOUTS, 2, 10)
        except BaseError as error:
            self._refuse("the settings in the environment are not complete", error)

    def check(self) -> None:
        """See whether the bucket is there.

        Raises:
            BadPlace: It is not there, or there are no credentials.
            ServiceUnavailable: The server does not answer.
        """
        try:
            next(iter(obstore.list(self._store, "fulmen-probe/", chunk_size=1)), None)
        except (BaseError, FileNotFoundError) as error:
            if not _is_denied(error):  # who may only write need not be allowed to list
                self.raise_for(error)

    def list(self, folder: str, told: Callable[[str], None]) -> Iterator[Any]:
        """List all objects below a folder: mappings with `path`, `size`, `last_modified`, `e_tag`.

        Args:
            folder: Its path; "" is the whole bucket.
            told: Is told of keys that can't be read.
        """
        try:
            yield from objects_below(self._store, folder, told)
        except (BaseError, FileNotFoundError) as error:
            self.raise_for(error)

    def head(self, path: str) -> Any | None:
        """Look up one object, as `list` has it; None: there is none."""
        try:
            return obstore.head(self._store, path)
        except FileNotFoundError as error:
            if NO_BUCKET.search(str(error)):
                self.raise_for(error)
            return None
        except BaseError as error:
            self._raise_for_object(error)

    def read(self, path: str, version: str, start: int, end: int) -> bytes:
        """A part of an object.

        Raises:
            Gone: It was removed or written again.
        """
        options: Any = {"range": (start, end)}
        if version:
            options["if_match"] = version
        try:
            return bytes(obstore.get(self._store, path, options=options).bytes())
        except PreconditionError:
            raise Changed(f"object {self.uri}/{path} was written again") from None
        except FileNotFoundError as error:
            if NO_BUCKET.search(str(error)):
                self.raise_for(error)
            raise GoneFile(f"object {self.uri}/{path} was removed") from None
        except BaseError as error:
            self._raise_for_object(error)

    def put(self, name: str, data: bytes) -> None:
        """Write an object below `path`, unless there is one of that name."""
        key = f"{self.path}/{name}".strip("/")
        try:
            obstore.put(self._store, key, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            # S3 also says so while another put of the key is under way, which may yet fail.
            if self.head(key) is None:
                self.raise_for(error)
        except (BaseError, FileNotFoundError) as error:
            self.raise_for(error)

    def inner(self, name: str) -> Bucket:
        """A folder below `path`."""
        return Bucket(f"{self.uri}/{self.path}".rstrip("/") + f"/{name}")

    def names(self, prefix: str) -> Sequence[str] | None:
        """The names below `path` that begin so, in their order; None: to list is not allowed."""
        folder = self.path.strip("/")
        found: list[str] = []
        offset = f"{folder}/{prefix}".strip("/")
        try:
            for page in obstore.list(self._store, folder, offset=offset, chunk_size=1000):
                names = [entry["path"].rpartition("/")[2] for entry in page]
                found += [name for name in names if name.startswith(prefix)]
                if len(found) < len(names):
                    break
        except (BaseError, FileNotFoundError) as error:
            if _is_denied(error):
                return None
            self.raise_for(error)
        return sorted(found)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, as far as that is allowed."""
        keys = [f"{self.path}/{name}".strip("/") for name in names]
        try:
            if keys:
                obstore.delete(self._store, keys)
        except (BaseError, FileNotFoundError) as error:
            if not (_is_denied(error) or isinstance(error, FileNotFoundError)):
                self.raise_for(error)

    def _raise_for_object(self, error: Exception) -> NoReturn:
        """Raise what an answer about one object means.

        Raises:
            Unreadable: It is refused, while the bucket answers.
        """
        if _is_denied(error) or _IS_REFUSED.search(str(error)):
            self.check()
            raise UnreadableFile(f"the object can't be read: {gist(error, _GIST)}") from error
        self.raise_for(error)

    def raise_for(self, error: Exception) -> NoReturn:
        """Raise what an answer means.

        Raises:
            BadPlace: Trying again is no use.
            ServiceUnavailable: It may do better later.
        """
        text = str(error)
        if NO_BUCKET.search(text) or isinstance(error, FileNotFoundError):
            self._refuse("the bucket does not exist. Create it, or check its name", error)
        if NO_CREDENTIALS.search(text):
            self._refuse("there are no credentials", error)
        if _NO_USE.search(text):
            self._refuse("the endpoint or the credentials are wrong", error)
        raise ServiceUnavailable(f"bucket {self.uri}", gist(error, _GIST)) from error

    def _refuse(self, what: str, error: Exception) -> NoReturn:
        raise BadPlace(
            f"bucket {self.uri}: {what}. The environment variables that count are"
            f" {VARIABLES[self._scheme]}. The client said: {gist(error, _GIST)}"
        ) from error


def _is_denied(error: Exception) -> bool:
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) and not _NO_USE.search(
        str(error)
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
