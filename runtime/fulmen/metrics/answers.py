"""What the server answers to a client."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fulmen.engine.driver.taps.taps import OpenTap


@dataclass(frozen=True)
class Answer:
    """An answer to a client.

    Attributes:
        tap: Its tuples follow the body, for as long as the client reads them.
    """

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    policy: str = "default-src 'none'; frame-ancestors 'none'"
    tap: OpenTap | None = None
