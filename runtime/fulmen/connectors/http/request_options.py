"""What sink and lookup say of their requests in the same way: the endpoint, headers, times, TLS."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from fulmen.connectors.options import Options
from fulmen.connectors.templates import Template, has_fields, parts_of
from fulmen.services.http.endpoint import Endpoint, TlsFiles

HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
OF_CONNECTIONS = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding"}
)
"""Headers that the client writes."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class RequestOptions(Options):
    """How requests are made."""

    url: Annotated[str, Field(min_length=1, max_length=8192)]
    """Where requests go, such as `https://host/orders/{id}?by={user}`; `{name}` is replaced by that
    field of the row, escaped as a URL needs. The host has no fields."""
    headers: Annotated[dict[HeaderName, Template], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """What each request has, such as `Authorization: Bearer ${TOKEN}`; `{name}` is replaced."""
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 16
    """How many requests of a task are under way at a time."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """How long a request may take until the whole answer is there."""
    retries: Annotated[int, Field(ge=0, le=100)] = 3
    """How often a request is made again, at growing intervals, if there is no answer or one that
    asks to come later. Then the service counts as away."""
    max_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """How many requests a task makes in a second at most. Default: any number."""
    ca: str = ""
    """A file with the certificates of authorities that are trusted. Default: the system's."""
    certificate: str = ""
    """A file with the certificate that the client shows, in PEM."""
    certificate_key: str = ""
    """A file with its key, without a password. Default: it is in the same file."""

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        check_url(self.url)
        for name, value in self.headers.items():
            if name.lower() in OF_CONNECTIONS:
                raise ValueError(f"headers: {name!r} is written by the client. Leave it out")
            if _CONTROL.search(value):
                raise ValueError(f"headers: the value of {name!r} has a line feed, or the like")
        if self.certificate_key and not self.certificate:
            raise ValueError("certificateKey is the key of `certificate`, which is missing")
        return self

    def endpoint(self) -> Endpoint:
        """The endpoint, and what its answers mean.

        Raises:
            ServiceUnavailable: The URL can't be understood.
        """
        same = {name: value for name, value in self.headers.items() if not has_fields(value)}
        return Endpoint(self.url, same, is_one=not has_fields(self.url.partition("?")[0]))

    def tls(self) -> TlsFiles:
        """The files for TLS."""
        return TlsFiles(self.ca, self.certificate, self.certificate_key)


def check_url(url: str) -> None:
    """Refuse what can be no template of a URL.

    Raises:
        ValueError: The text says what is wrong, and what to write.
    """
    parts_of(url)
    if "://" not in url and url.partition("/")[0].isidentifier():
        return  # a variable stands for it, or for its beginning
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.fragment
        is_good &= parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError("url: write `https://host/path` or `http://host:port/path`")
    if "{" in parts.netloc:
        raise ValueError("url: the host can't be of a field: a row would choose who gets it")


def checked_header(name: str, value: str) -> str:
    """Refuse what would be more than one header.

    Raises:
        ValueError: It has a control character.
    """
    if _CONTROL.search(value):
        raise ValueError(f"header {name!r}: the value has a line feed, or the like")
    return value
