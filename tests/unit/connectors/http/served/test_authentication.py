"""Tokens and signatures. Where a sender's own documentation has an example, it is that."""

import base64
import hashlib
import hmac

import pytest
from pydantic import ValidationError

from fulmen.connectors.http.served.listening.authentication import has_token, why_unsigned
from fulmen.connectors.http.served.options import HttpSpoutOptions, SignatureOptions

SLACK = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibI"
    b"GlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
OWN = hmac.digest(b"key", b"7.{}", hashlib.sha256).hex()
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SIGNED = {
    "github": (
        "It's a Secret to Everybody",
        b"Hello, World!",
        {
            "X-Hub-Signature-256": "sha256="
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        },
        0,
    ),
    "shopify": (
        "key",
        b"{}",
        {
            "X-Shopify-Hmac-Sha256": base64.b64encode(
                hmac.digest(b"key", b"{}", hashlib.sha256)
            ).decode()
        },
        0,
    ),
    "slack": (
        "8f742231b10e8888abcd99yyyzzz85a5",
        SLACK,
        {
            "X-Slack-Request-Timestamp": "1531420618",
            "X-Slack-Signature": "v0="
            "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        1531420618,
    ),
    "standard": (
        WHSEC,
        b'{"test": 2432232314}',
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        1614265330,
    ),
    "stripe": ("key", b"{}", {"Stripe-Signature": f"t=7,v1={'0' * 64},v1={OWN},v0=x"}, 7),
}
schemes = pytest.mark.parametrize("scheme", SIGNED)


def why(scheme, content=None, headers=None, now=None, secret=None):
    known, body, named, at = SIGNED[scheme]
    options = SignatureOptions(scheme=scheme, secret=secret or known)
    given = named if headers is None else headers
    return why_unsigned(given, body if content is None else content, options, now or at)


@schemes
def test_a_signed_request_is_taken(scheme):
    assert why(scheme) is None


@schemes
def test_a_changed_content_is_refused(scheme):
    assert why(scheme, content=b"{ }") == "its signature is wrong"


@schemes
def test_another_key_is_refused(scheme):
    secret = "whsec_AAAA" if scheme == "standard" else "another"
    assert why(scheme, secret=secret) == "its signature is wrong"


@schemes
def test_an_unsigned_request_is_refused(scheme):
    assert why(scheme, headers={}).startswith("it has no header ")


@schemes
@pytest.mark.parametrize("text", ["", "sha256=xyz", "v0=\udcff", "t=-1,v1=00", "v1,=", "é" * 99])
def test_a_broken_signature_is_refused(scheme, text):
    named = dict.fromkeys(SIGNED[scheme][2], text)
    assert why(scheme, headers=named) is not None


@pytest.mark.parametrize("scheme", ["slack", "standard", "stripe"])
@pytest.mark.parametrize("seconds", [-301, 301])
def test_an_old_signature_is_refused(scheme, seconds):
    now = SIGNED[scheme][3] + seconds
    assert why(scheme, now=now) == "its signature is not of the last 5m"


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("Bearer abc", True),
        ("bearer  abc", True),
        ("Bearer abcd", False),
        ("Bearer \udcff", False),
        ("Basic abc", False),
        ("", False),
    ],
)
def test_a_token_is_compared_as_a_whole(text, is_right):
    assert has_token({"Authorization": text}, "abc") is is_right


def test_a_secret_that_is_none_of_its_scheme_is_a_mistake():
    with pytest.raises(ValidationError, match="`whsec_` and base64"):
        HttpSpoutOptions(port=1, signature={"scheme": "standard", "secret": "whsec_x"})


def test_all_mistakes_are_told():
    with pytest.raises(ValidationError) as told:
        HttpSpoutOptions(port=99999, paths=["x"], timeout="0", answer="never", methods=[])
    assert {e["loc"][0] for e in told.value.errors()} == {
        "port",
        "paths",
        "timeout",
        "answer",
        "methods",
    }
