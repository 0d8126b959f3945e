"""Objects in buckets of S3, Google Cloud Storage and Azure, over obstore.

Credentials and endpoints come from the environment variables that the clouds' own tools read. An
object is known by its URI and version: one that is written again is another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.files.places.listing import objects_below
from fulmen.connectors.files.places.local import (
    BadPlace,
    Changed,
    GoneFile,
    UnreadableFile,
)
from fulmen.services.buckets import (
    NO_BUCKET,
    NO_CREDENTIALS,
    STORES,
    VARIABLES,
    gist,
    opened,
)

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_TIMEOUTS = {"connect_timeout": "5s", "timeout": "60s"}
_NO_USE = re.compile(r"builder error|InvalidAccessKeyId|SignatureDoesNotMatch")
_IS_REFUSED = re.compile(r"status 4(?!08|29)\d\d")
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
