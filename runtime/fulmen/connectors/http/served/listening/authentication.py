"""Who may send a request: tokens, and signatures of webhooks. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping

from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.http.served.options import Scheme, SignatureOptions

Headers = Mapping[str, str]


def has_token(headers: Headers, token: str) -> bool:
    """Whether a request has the token."""
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    is_right = hmac.compare_digest(_bytes(given.strip()), token.encode())
    return scheme.lower() == "bearer" and is_right


def why_unsigned(
    headers: Headers, content: bytes, options: SignatureOptions, now: float
) -> str | None:
    """Why a request is not signed as it must be; None: it is.

    Args:
        headers: Of the request.
        content: Its bytes, unpacked.
        options: How it must be signed.
        now: The time of day.
    """
    read, name = _SCHEMES[options.scheme]
    if name not in headers:
        return f"it has no header {name}"
    try:
        signed, given, at = read(headers, content)
    except ValueError:
        return f"its header {name} can't be understood"
    if at is not None and abs(now - at) > milliseconds(options.tolerance) / 1000:
        return f"its signature is not of the last {options.tolerance}"
    digest = hmac.digest(options.key, signed, hashlib.sha256)
    if not any(hmac.compare_digest(digest, one) for one in given):
        return "its signature is wrong"
    return None


Read = Callable[[Headers, bytes], tuple[bytes, list[bytes], float | None]]
"""Gives what was signed, the signatures, and when it was signed; or raises ValueError."""


def _github(headers: Headers, content: bytes) -> tuple[bytes, list[bytes], float | None]:
    given = headers["X-Hub-Signature-256"]
    if not given.startswith("sha256="):
        raise ValueError
    return content, [bytes.fromhex(given.removeprefix("sha256="))], None


def _shopify(headers: Headers, content: bytes) -> tuple[bytes, list[bytes], float | None]:
    return content, [base64.b64decode(headers["X-Shopify-Hmac-Sha256"])], None


def _slack(headers: Headers, content: bytes) -> tuple[bytes, list[bytes], float | None]:
    at, given = headers.get("X-Slack-Request-Timestamp", ""), headers["X-Slack-Signature"]
    if not given.startswith("v0="):
        raise ValueError
    signed = b"v0:" + _bytes(at) + b":" + content
    return signed, [bytes.fromhex(given.removeprefix("v0="))], _seconds(at)


def _stripe(headers: Headers, content: bytes) -> tuple[bytes, list[bytes], float | None]:
    pairs = [part.strip().partition("=") for part in headers["Stripe-Signature"].split(",")]
    at = next((value for name, _, value in pairs if name == "t"), "")
    given = [bytes.fromhex(value) for name, _, value in pairs if name == "v1"]
    return _bytes(at) + b"." + content, given, _seconds(at)


def _standard(headers: Headers, content: bytes) -> tuple[bytes, list[bytes], float | None]:
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    parts = [part.partition(",") for part in headers["webhook-signature"].split(" ")]
    given = [base64.b64decode(value) for version, _, value in parts if version == "v1"]
    return b".".join([_bytes(name), _bytes(at), content]), given, _seconds(at)


def _bytes(text: str) -> bytes:
    """The text of a header as it was sent."""
    return text.encode("utf-8", "surrogateescape")


def _seconds(text: str) -> float:
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise ValueError
    return float(text)


_SCHEMES: Mapping[Scheme, tuple[Read, str]] = {
    "github": (_github, "X-Hub-Signature-256"),
    "shopify": (_shopify, "X-Shopify-Hmac-Sha256"),
    "slack": (_slack, "X-Slack-Signature"),
    "standard": (_standard, "webhook-signature"),
    "stripe": (_stripe, "Stripe-Signature"),
}
