"""Endpoints of HTTP, by aiohttp: it is in the image anyway, and the server of calls uses it too."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.secrets import is_clear
from fulmen.services.service import ErrorKind, Service, no_client

try:
    import aiohttp
except ImportError as error:
    raise no_client(error, "HTTP", "http") from error

URL_CURE = (
    "its URL can't be understood. Write 'https://host/path', with %40 for @ and %2F for / in a"
    " password"
)
TOLD_CHARACTERS = 200
"""Of an answer's content."""
LONGEST_WAIT = 600.0
"""Seconds that are waited at most since an answer's `Retry-After` says so."""
MEANINGS: Mapping[ErrorKind, Collection[int]] = {
    ErrorKind.BUSY: (408, 425, 429),
    ErrorKind.LACKING: (401, 403, 407),
}
"""The meanings of statuses beside those of `kind_of_status`."""
OF_ADDRESS = (404, 405, 410)
"""Statuses about an address: if all requests go to one, it is the one that is wrong."""
_SHORTEST_SECRET = 6
"""Characters of a header's value that is none: others are words such as `json`."""


class UnexpectedAnswer(Exception):
    """An answer whose status says that what was asked for is not done.

    Attributes:
        kind: What can be done.
        wait: Seconds that the endpoint asks to wait.
    """

    def __init__(self, reason: str, kind: ErrorKind, wait: float = 0.0) -> None:
        super().__init__(reason, kind, wait)
        self.reason, self.kind, self.wait = reason, kind, wait

    def __str__(self) -> str:
        return self.reason


class Endpoint(Service):
    """A server of HTTP, and what its answers mean."""

    errors = (aiohttp.ClientError, UnexpectedAnswer, OSError)  # of which TimeoutError is one

    def __init__(self, url: str, headers: Mapping[str, str], *, is_one: bool) -> None:
        """Understand a URL. Does not connect.

        Args:
            url: Where requests go, or a template of it whose host has no fields.
            headers: What each request has. An answer may repeat it, and is told without it.
            is_one: Whether all requests go to the same address.

        Raises:
            ServiceUnavailable: The URL can't be understood.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            is_good = False
        if not is_good or not is_clear(url):
            raise ServiceUnavailable("HTTP endpoint", URL_CURE)
        at = f"{parts.hostname}:{port}" if port else parts.hostname
        of_headers = [
            secret
            for value in headers.values()
            for secret in (value, value.partition(" ")[2])  # behind `Bearer`
            if len(secret) >= _SHORTEST_SECRET
        ]
        super().__init__(f"HTTP endpoint {parts.scheme}://{at}", parts.password or "", *of_headers)
        self._is_one = is_one

    def kind_of(self, error: Any) -> ErrorKind:
        """Classify an error: without an answer it is away, but for a certificate."""
        if isinstance(error, UnexpectedAnswer):
            return error.kind
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL):
            return ErrorKind.LACKING
        return ErrorKind.AWAY

    def said(self, error: Any) -> str:
        """Describe an error in one line without secrets."""
        if isinstance(error, TimeoutError):
            return "it does not answer in time"
        return super().said(error) or type(error).__name__

    def kind_of_status(self, status: int) -> ErrorKind | None:
        """Classify an answer by its status. None: what was asked for is done."""
        if 200 <= status < 300:
            return None
        for kind, statuses in MEANINGS.items():
            if status in statuses:
                return kind
        if status >= 500:
            return ErrorKind.BUSY
        if status < 400 or (self._is_one and status in OF_ADDRESS):
            return ErrorKind.LACKING  # also a redirect: it may lead to anybody
        return ErrorKind.ROW

    def unexpected(
        self, status: int, content: bytes, headers: Mapping[str, str], kind: ErrorKind
    ) -> UnexpectedAnswer:
        """The error for an answer, with the beginning of its content."""
        try:
            named = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            named = f"{status}"
        text = " ".join(content.decode(errors="replace").split())
        if location := headers.get("Location", "") if 300 <= status < 400 else "":
            text = f"it redirects to {location}, which is not followed"
        text = self.masked(text)  # as a whole: a secret that was cut would be shown in part
        if len(text) > TOLD_CHARACTERS:
            text = f"{text[:TOLD_CHARACTERS]}…"
        wait = wait_of(headers.get("Retry-After"), datetime.now(UTC))
        return UnexpectedAnswer(f"{named}: {text}" if text else named, kind, wait)


def wait_of(header: str | None, now: datetime) -> float:
    """The seconds that `Retry-After` asks to wait, or a date; 0: it asks for nothing."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text) if len(text) < 10 else math.inf
    else:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WAIT)


@dataclass(frozen=True)
class TlsFiles:
    """Files that a connection by TLS needs beside the system's certificates.

    Attributes:
        ca: Certificates of authorities that are trusted instead of the system's.
        certificate: The client's own, with those that signed it.
        key: The client's key; empty: it is in the file of the certificate.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""

    def context(self, name: str) -> ssl.SSLContext:
        """What verifies the server. There is no way not to.

        Args:
            name: Whose connections they are.

        Raises:
            ServiceUnavailable: A file is not there, or not what it should be.
        """
        made = ssl.create_default_context()
        if self.ca:
            _read(name, self.ca, lambda: made.load_verify_locations(self.ca))
        if self.certificate:
            key = self.key or None
            # a password is asked for on the terminal if none is given
            _read(
                name,
                self.certificate,
                lambda: made.load_cert_chain(self.certificate, key, password=""),
            )
        return made


def _read(name: str, file: str, read: Callable[[], None]) -> None:
    try:
        read()
    except (OSError, ValueError) as error:
        reason = f"the file {file!r} can't be used for TLS: {error}. Write the path of a PEM file"
        raise ServiceUnavailable(name, reason, ErrorKind.LACKING.value) from None
