"""Reads and checks the URI of a checkpoint. Pure: nothing is opened here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

KINDS = ("file", "s3", "gs", "az", "memory")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class BadUri(ValueError):
    """No checkpoint can be at this URI.

    Attributes:
        shown: The URI without what may be a secret.
        message: What is wrong.
        cure: What to write instead.
    """

    def __init__(self, shown: str, message: str, cure: str) -> None:
        super().__init__(f"{shown}: {message}. {cure}")
        self.shown = shown
        self.message = message
        self.cure = cure


@dataclass(frozen=True)
class Place:
    """The place of a checkpoint.

    Attributes:
        kind: One of `KINDS`.
        name: The name of the bucket, container or memory; empty for a folder.
        path: The path of the folder, or the path below that name.
        fsync: Whether a folder's files outlive a crash of the machine.
    """

    kind: str
    name: str
    path: str
    fsync: bool = True


def read_uri(uri: str) -> Place:
    """Read a URI; without a scheme it is a path.

    Raises:
        BadUri: It is not a checkpoint's URI, or has, or may have, a secret in it.
    """
    if "\0" in unquote(uri):
        raise BadUri(repr(uri), "the URI has a null character", "Remove it.")
    if not _SCHEME.match(uri):
        if not uri:
            raise BadUri("''", "the URI is empty", "Write file:///a/folder, say.")
        return Place("file", "", uri)
    try:
        parts = urlsplit(uri)
    except ValueError:  # what is wrong may have a password in it
        shown, message = f"{uri.partition('://')[0]}://…", "the URI can't be understood"
        raise BadUri(shown, message, "A name of a bucket has no brackets.") from None
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if "@" in parts.netloc or ":" in parts.netloc:  # a password may have a / before the @
        raise BadUri(
            f"{parts.scheme}://…",
            "a URI is shown in logs and in the topology's status, so it must hold no user and no"
            " password",
            "Leave them out, and set the environment variables that the store's own tools read"
            " (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3): on Kubernetes from a Secret,"
            " in env of driver and worker.",
        )
    if parts.scheme not in KINDS:
        message = f"there is no store of kind {parts.scheme!r}"
        raise BadUri(shown, message, "There are file, s3, gs, az and memory.")
    if parts.scheme == "file":
        return _folder(shown, parts)
    if parts.query or parts.fragment:
        message = f"{parts.scheme}:// takes no options"
        raise BadUri(shown, message, "Remove what follows the path.")
    if not parts.netloc:
        message = f"the name after {parts.scheme}:// is missing"
        raise BadUri(shown, message, f"Write {parts.scheme}://name/prefix.")
    return Place(parts.scheme, parts.netloc, unquote(parts.path).strip("/"))


def _folder(shown: str, parts: SplitResult) -> Place:
    if parts.netloc not in ("", "localhost") or not parts.path:
        cure = "Write three slashes and an absolute path: file:///a/folder."
        raise BadUri(shown, "it does not name a folder", cure)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    fsync = options.pop("fsync", "true")
    if options or fsync not in ("true", "false") or parts.fragment:
        message = "the only option of a folder is ?fsync=false"
        raise BadUri(shown, message, "Remove what follows the path.")
    return Place("file", "", unquote(parts.path), fsync == "true")
