"""Lists of objects, though some have keys that the client has no name for.

It can't read a page of a list that has one: a part of such a key is empty, "." or "..". The folders
in the page are listed one by one then, and the folder that has the key is listed behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import obstore
from obstore.exceptions import InvalidPathError
from obstore.store import ObjectStore

_KEY = re.compile(r'Path "(.*?)"(?: contained|: Encountered)', re.DOTALL)
_NO_NAMES = ("", ".", "..")


def objects_below(
    store: ObjectStore, folder: str, told: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """List all objects below a folder; some may come twice.

    Args:
        store: Of the bucket.
        folder: Its path; "" is the whole bucket.
        told: Is told of keys that the client has no name for.

    Raises:
        BaseError, FileNotFoundError: What the client says.
    """
    try:
        yield from _pages(store, folder)
        return
    except InvalidPathError as error:
        met = error
    try:
        direct = obstore.list_with_delimiter(store, folder or None)
    except InvalidPathError:
        yield from _behind(store, folder, told, met)
        return
    yield from direct["objects"]  # type: ignore[misc]
    for below in direct["common_prefixes"]:
        if len(below) > len(folder):
            yield from objects_below(store, below, told)


def _pages(store: ObjectStore, folder: str, offset: str | None = None) -> Iterator[Any]:
    for page in obstore.list(store, folder or None, offset=offset, chunk_size=1000):
        yield from page


def _behind(
    store: ObjectStore, folder: str, told: Callable[[str], None], error: InvalidPathError
) -> Iterator[Any]:
    """List a folder behind each such key, and behind all that begin alike."""
    offset = ""
    while True:
        key, behind = _bad_key(error)
        if behind <= offset:
            raise error
        told(key)
        offset = behind
        try:
            yield from _pages(store, folder, offset)
            return
        except InvalidPathError as other:
            error = other


def _bad_key(error: InvalidPathError) -> tuple[str, str]:
    """The key in an error, and a place in the order of keys behind all that begin alike."""
    found = _KEY.search(str(error))
    parts = found[1].split("/") if found else []
    for i, part in enumerate(parts):
        if part in _NO_NAMES:
            return "/".join(parts), "/".join(parts[: i + 1]) + "0"  # the character after "/"
    raise error
