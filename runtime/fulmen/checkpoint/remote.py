"""A checkpoint in an object store (S3, GCS, Azure), or in this process's memory, over obstore.

obstore's own retries are off: it would repeat a conditional put whose answer was lost, and then
report our own object as somebody else's. Here each attempt is one request, and a put that finds its
key taken after an attempt of unknown outcome compares the bytes. Retries are bounded by time.

Assumes that bytes put under one key by different writers differ (a commit holds a random tag).

Rejected: asyncio for many gets (twice as slow as 16 threads, since each get is short, and it can't
be used where a loop runs already); multipart uploads (they can't be conditional).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import MemoryStore, ObjectStore

from fulmen.errors import AlreadyExists, CheckpointError, Denied, NotFound, Unreachable
from fulmen.services.buckets import NO_BUCKET, NO_CREDENTIALS, VARIABLES, gist, opened

RETRY_SECONDS = 60.0
"""No further attempt starts this long after the first one."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
BIG_BYTES = 8 * 1024 * 1024
"""A put above this may take minutes; one below that takes 15 s is given up and tried again."""
_THREADS = 16

_SMALL_TIMEOUTS = {"connect_timeout": "5s", "read_timeout": "15s", "timeout": "600s"}
_BIG_TIMEOUTS = {"connect_timeout": "5s", "timeout": "600s"}  # uploading counts as waiting to read

_STATUS = re.compile(r"status code: (\d{3})")
_GIST_CHARACTERS = 500
CREDENTIALS_SECONDS = 10.0
"""If they were never found there: that place may not answer a pod that has just started."""
# Answers of S3's that are refusals by their status, but pass.
_PASSING = re.compile(r"RequestTimeout|RequestTimeTooSkewed|SlowDown")
_EXPIRED = "ExpiredToken"
_memories: dict[str, ObjectStore] = {}
_memories_lock = threading.Lock()

T = TypeVar("T")


class RemoteBackend:
    """Objects behind an obstore client.

    Args:
        uri: Names the store in messages.
        client: Makes each request once.
        big_client: The same with longer timeouts, for big puts.
        sleep: Waits between attempts.
        clock: Seconds, for the time that all attempts may take.
    """

    def __init__(
        self,
        uri: str,
        client: ObjectStore,
        big_client: ObjectStore | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uri = uri
        self._client = client
        self._big_client = big_client or client
        self._sleep = sleep
        self._clock = clock
        self._worked: set[str] = set()  # which kinds of requests: each needs a right of its own

    def put(self, key: str, data: bytes) -> None:
        """Write an object if there is none of that key, else raise `AlreadyExists`."""
        client = self._big_client if len(data) > BIG_BYTES else self._client
        in_doubt = False

        def attempt() -> None:
            nonlocal in_doubt
            try:
                obstore.put(client, key, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                # S3 also says so while another put of the key is under way, which may yet fail:
                # then nothing is found, the error is no verdict, and the put is tried again.
                try:
                    stored = self._get(key)
                except FileNotFoundError:
                    raise GenericError(f"conflict on {key!r}: another put is under way") from None
                if not (in_doubt and stored == data):
                    raise AlreadyExists(self._uri, key) from None
            except BaseError:
                in_doubt = True
                raise

        self._retried("put", key, attempt)

    def get(self, key: str) -> bytes:
        """Read an object, or raise `NotFound`."""
        return self._retried("get", key, lambda: self._get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object, or raise `NotFound`. Behind its end there is nothing."""
        return self._retried("get", key, lambda: self._get_range(key, start, length))

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Read several objects concurrently."""
        if len(keys) < 2:
            return [self.get(key) for key in keys]
        with ThreadPoolExecutor(min(_THREADS, len(keys)), "checkpoint-get") as pool:
            return list(pool.map(self.get, keys))

    def list(self, prefix: str) -> list[str]:
        """List all keys that start with `prefix`, in any order."""

        def attempt() -> list[str]:
            pages = obstore.list(self._client, prefix or None, chunk_size=1000)
            return [entry["path"] for page in pages for entry in page]

        return self._retried("list", prefix, attempt)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what exists of these, in bulk where the store can."""
        try:
            self._retried("delete", keys[0], lambda: obstore.delete(self._client, keys))
        except NotFound:  # some stores mind, and then the rest of the bulk may not be done
            if len(keys) > 1:
                for key in keys:
                    self.delete([key])

    def _get(self, key: str) -> bytes:
        return bytes(obstore.get(self._client, key).bytes())

    def _get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._client, key, start=start, length=length))
        except GenericError:  # which is also how stores refuse a range behind the end
            if obstore.head(self._client, key)["size"] > start:
                raise
            return b""

    def _retried(self, kind: str, key: str, attempt: Callable[[], T]) -> T:
        """Do it, and again after errors that pass, for a bounded time."""
        started = self._clock()
        deadline = started + RETRY_SECONDS
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                result = attempt()
                self._worked.add(kind)
                return result
            except (BaseError, FileNotFoundError) as error:
                self._raise_if_permanent(error, kind, key, self._clock() - started)
                if self._clock() + pause > deadline:
                    cause = gist(error, _GIST_CHARACTERS)
                    raise Unreachable(self._uri, key, cause, unknown=kind == "put") from error
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _raise_if_permanent(self, error: Exception, kind: str, key: str, waited: float) -> None:
        is_missing = isinstance(error, FileNotFoundError) and not NO_BUCKET.search(str(error))
        if is_missing and kind != "put":
            raise NotFound(self._uri, key) from None
        if not self._may_pass(error, kind, waited):
            known = VARIABLES.get(self._uri.partition(":")[0], "nothing")
            cause = (
                f"{_verdict(error)}. The environment variables that count are {known}."
                f" The store said: {gist(error, _GIST_CHARACTERS)}"
            )
            if _is_denied(error) or _EXPIRED in str(error):
                raise Denied(self._uri, key, cause) from error
            raise CheckpointError(f"checkpoint {self._uri}, {key!r}: {cause}") from error

    def _may_pass(self, error: Exception, kind: str, waited: float) -> bool:
        """Whether the same request may do better later."""
        text = str(error)
        if _PASSING.search(text):
            return True
        if NO_CREDENTIALS.search(text):
            return bool(self._worked) or waited < CREDENTIALS_SECONDS
        if _EXPIRED in text:  # others may be on their way to where these came from
            return bool(self._worked)
        if _is_denied(error):  # rights that were taken away may be given back
            return kind in self._worked
        permanent = NO_BUCKET.search(text) or "builder error" in text or _is_refusal(text)
        return isinstance(error, GenericError) and not permanent


def _verdict(error: Exception) -> str:
    """Say which lasting fault the error shows, with the cure."""
    text = str(error)
    if NO_CREDENTIALS.search(text):
        return "there are no credentials"
    if _EXPIRED in text:
        return "the credentials have expired"
    if NO_BUCKET.search(text):
        return "the bucket does not exist. Create it"
    if isinstance(error, FileNotFoundError):
        return "the store has no such place. Check the bucket and the endpoint"
    if _is_denied(error):
        return "access denied. Check the rights of these credentials"
    if "builder error" in text:
        return "the endpoint's URL can't be used. Check it, and whether it may be http"
    return "the store refuses it"


def _is_refusal(text: str) -> bool:
    """Whether the server answered, and will answer the same when asked again."""
    status = _STATUS.search(text)
    return status is not None and status[1].startswith("4") and status[1] not in ("408", "429")


def _is_denied(error: Exception) -> bool:
    status = _STATUS.search(str(error))
    is_told = status is not None and status[1] in ("401", "403")
    return is_told or isinstance(error, PermissionDeniedError | UnauthenticatedError)


def cloud_backend(uri: str, scheme: str, bucket: str, prefix: str) -> RemoteBackend:
    """The backend of a bucket, with credentials and endpoint from the environment.

    Raises:
        CheckpointError: The environment lacks what every request needs.
    """

    def client(timeouts: dict[str, str]) -> ObjectStore:
        return opened(scheme, bucket, prefix, timeouts, retries=0, seconds=1)

    try:
        return RemoteBackend(uri, client(_SMALL_TIMEOUTS), client(_BIG_TIMEOUTS))
    except BaseError as error:
        raise CheckpointError(
            f"checkpoint {uri}: the settings in the environment are not complete"
            f" ({gist(error, _GIST_CHARACTERS)}). The variables that count are {VARIABLES[scheme]}."
        ) from error


def memory_backend(uri: str, name: str) -> RemoteBackend:
    """The memory of that name: one and the same for all who ask for it in this process."""
    with _memories_lock:
        client = _memories.setdefault(name, MemoryStore())
    return RemoteBackend(uri, client)
