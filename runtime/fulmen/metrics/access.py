"""Access to what the server shows. Pure.

Uses nothing else of Fulmen but its errors; used by `metrics.server`, and by what starts a server.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from fulmen.errors import FulmenError

TOKEN_ENV = "FULMEN_METRICS_TOKEN"
"""The token that clients have to show. Not set: nobody needs one."""
HOSTS_ENV = "FULMEN_METRICS_HOSTS"
"""Names, parted by commas, by which the server may be called from its own machine."""


@dataclass(frozen=True)
class Refusal:
    """Why a client gets nothing."""

    status: HTTPStatus
    reason: str


@dataclass(frozen=True)
class AccessRules:
    """The rules.

    A page on the web may point a name of its own at 127.0.0.1, and then read, in the browser of
    somebody who looks at it, what only that machine can reach. Such a request comes from the
    machine itself, as one through a port-forward does, and has that name as its host. Requests of
    others may have any: the API server passes on the name by which it was called itself.

    Attributes:
        token: What clients have to show; empty: nothing.
        hosts: Names by which the server may be called from its own machine, besides localhost.
    """

    token: str = ""
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> AccessRules:
        """Read the rules from the environment.

        Raises:
            FulmenError: The token is empty. Whoever sets it does not want everybody to read.
        """
        token = environ.get(TOKEN_ENV)
        if token is not None and not token.strip():
            raise FulmenError(
                f"{TOKEN_ENV} is empty, which would let everybody read metrics and the page."
                " Write a token into it, or do not set it."
            )
        names = environ.get(HOSTS_ENV, "").lower().split(",")
        hosts = frozenset(name.strip() for name in names)
        return cls((token or "").strip(), hosts - {""})

    def refusal(self, from_here: bool, host: str | None, authorization: str) -> Refusal | None:
        """Why a request is refused; None if it is not.

        Args:
            from_here: Whether it comes from the machine, or the pod, that the server is in.
            host: Its header `Host`.
            authorization: Its header `Authorization`; empty: it has none.
        """
        if from_here and host is not None and not self._is_known(_name_in(host)):
            reason = (
                "This server is called localhost, or by its address. To call it by another name,"
                f" write that name into {HOSTS_ENV}.\n"
            )
            return Refusal(HTTPStatus.FORBIDDEN, reason)
        if self.token and not hmac.compare_digest(_shown(authorization), self.token.encode()):
            reason = f"This server asks for the token in its {TOKEN_ENV}.\n"
            return Refusal(HTTPStatus.UNAUTHORIZED, reason)
        return None

    def _is_known(self, name: str) -> bool:
        if name in self.hosts or name == "localhost" or name.endswith(".localhost"):
            return True
        return _address(name) is not None  # no name service has led here


EVERYBODY = AccessRules()
"""Without a token, and without further names."""


def _name_in(host: str) -> str:
    """A name without its port, or an address. Empty: it can't be read."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_from_here(peer: str, own: str) -> bool:
    """Whether a connection has both ends on this machine, or in this pod.

    Args:
        peer: The address at its other end.
        own: The address at this end.
    """
    address = _address(peer.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)  # as a socket of both kinds has it
    return peer == own or (address is not None and (mapped or address).is_loopback)


def is_foreign(headers: Mapping[str, str] | Message) -> bool:
    """Whether a browser asks for a page that is not this server's.

    Args:
        headers: Those of the request, by their names in any case.
    """
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin, host = headers.get("Origin"), headers.get("Host", "")
    return origin is not None and origin.partition("://")[2] != host


def _shown(authorization: str) -> bytes:
    """The token in a header: a bearer's, or the password of any user, which browsers ask for."""
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value.encode("latin-1", "replace")  # as http.server has read its bytes
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def credentials(token: str) -> dict[str, str]:
    """The headers of a client that has a token, or may have none."""
    shown = token.strip().encode().decode("latin-1")  # as http.client writes it
    return {"Authorization": f"Bearer {shown}"} if shown else {}
