"""Lines of logs: patterns, the layouts of web servers and syslog, and logfmt."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fulmen.api.declarer import Stream
from fulmen.connectors.formats import FormatOptions, Malformed

OPTIONS = TypeAdapter(FormatOptions)


def read(line, **options):
    made = OPTIONS.validate_python(options).make()
    [found] = made.decode_each([line])
    if isinstance(found, Malformed):
        return str(found)
    return dict(zip(made.fields, found, strict=True))


COMBINED = (
    b'203.0.113.7 - ann [10/Oct/2025:13:55:36 -0700] "GET /shop?q=%22 HTTP/1.1" 200 2326'
    b' "https://example.org/" "a \\"browser\\" (X11)"'
)


def test_combined():
    assert read(COMBINED, type="log", layout="combined") == {
        "host": "203.0.113.7",
        "user": "ann",
        "time": datetime(2025, 10, 10, 13, 55, 36, tzinfo=timezone(timedelta(hours=-7))),
        "request": "GET /shop?q=%22 HTTP/1.1",
        "method": "GET",
        "path": "/shop?q=%22",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 2326,
        "referer": "https://example.org/",
        "agent": 'a \\"browser\\" (X11)',
    }


def test_a_request_that_is_none_stays_whole():
    line = b'::1 - - [10/Oct/2025:13:55:36 +0000] "\\x16\\x03 \\"" 400 -'
    found = read(line, type="log", layout="common", fields=["user", "request", "path", "bytes"])
    assert found == {"user": None, "request": '\\x16\\x03 \\"', "path": None, "bytes": None}


def test_syslog():
    line = (
        '<34>1 2026-01-31T22:14:15.003Z host su - ID47 [a b="[x\\]"][c d="e"] \ufeffsu failed'
    ).encode()
    assert read(line, type="log", layout="syslog") == {
        "priority": 34,
        "time": datetime(2026, 1, 31, 22, 14, 15, 3000, tzinfo=UTC),
        "host": "host",
        "program": "su",
        "pid": None,
        "id": "ID47",
        "data": '[a b="[x\\]"][c d="e"]',
        "message": "su failed",
    }
    line = b"2026-01-31T12:00:00.5+01:00 host sshd[711]: Accepted key: ok"
    found = read(line, type="log", layout="syslog-file", fields=["program", "pid", "message"])
    assert found == {"program": "sshd", "pid": 711, "message": "Accepted key: ok"}


def test_a_pattern_with_types():
    options = {
        "type": "regex",
        "pattern": r"(?P<user>\S+) (?P<amount>\S+)(?: (?P<note>.*))?",
        "fields": {"amount": "int64", "note": "string"},
        "nulls": ["-"],
    }
    assert read(b"ann 12 a b", **options) == {"amount": 12, "note": "a b"}
    assert read(b"ann -", **options) == {"amount": None, "note": None}
    assert read(b"ann x", **options) == "field 'amount': 'x' is no int64"
    assert read(b"ann", **options) == "the pattern does not match it"
    assert "it is not text in utf-8" in read(b"ann \xff", **options)


def test_a_pattern_that_hangs_other_engines_ends():
    slow = r"(?P<x>(a+)+)b"
    assert read(b"a" * 5000, type="regex", pattern=slow) == "the pattern does not match it"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "(x"}, "the pattern '(x' can't be read: missing ): (x"),
        ({"pattern": "x"}, "the pattern names no field. Write (?P<name>…) around what is one"),
        ({"pattern": "(?P<a>x)", "fields": ["b"]}, "the pattern names no field 'b', only ['a']"),
    ],
)
def test_mistakes_are_told_when_the_file_is_read(options, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        OPTIONS.validate_python({"type": "regex", **options})


def test_a_sink_can_not_write_them():
    made = OPTIONS.validate_python({"type": "log", "layout": "common"})
    assert list(made.mistakes(Stream(("host",)))) == [
        "this format is for reading. Write text, json or csv"
    ]


def test_logfmt():
    line = b'level=info msg="it \\"runs\\"\\n" ms=12 cached empty= err="" '
    fields = {"level": "string", "msg": "string", "ms": "int64", "cached": "bool",
              "empty": "string", "err": "string", "other": "string"}  # fmt: skip
    assert read(line, type="logfmt", fields=fields) == {
        "level": "info", "msg": 'it "runs"\n', "ms": 12, "cached": True, "empty": "", "err": "",
        "other": None,
    }  # fmt: skip
    assert read(b'a=1 b="x', type="logfmt") == "it is not logfmt at 'b=\"x'"
    assert read(b"", type="logfmt") == {"value": {}}


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)


@given(st.dictionaries(st.from_regex(r"[a-z.]{1,5}", fullmatch=True), TEXTS, max_size=5))
def test_any_pairs_in_quotes_come_back(pairs):
    written = " ".join(
        f'{name}="{text}"'
        for name, value in pairs.items()
        for text in [value.replace("\\", "\\\\").replace('"', '\\"')]
    )
    assert read(written.encode(), type="logfmt") == {"value": pairs}
