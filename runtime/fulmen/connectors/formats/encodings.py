"""Encodings of text: which there are, which of them lines can be cut in, and byte order marks."""

from __future__ import annotations

import codecs
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

UTF_8 = "utf-8"
_MARK = "\ufeff"
_CUT_AT = '\n\r"'
"""Lines end at the first, those of CSV at the second, too, unless they are between the last."""
_PLAIN = (_CUT_AT, "a")
"""The second is for encodings of names, whose parts are short."""
_OTHERS = "".join(chr(i) for i in range(0x10000) if chr(i) not in _CUT_AT)


def _known(name: str) -> str:
    try:  # it may be unknown, not of text such as hex, or of nothing such as undefined
        "".encode(name)
    except (LookupError, ValueError):
        raise ValueError(
            f"Python knows no encoding {name!r} of text. Usual ones are utf-8 and latin-1"
        ) from None
    return name


Encoding = Annotated[str, AfterValidator(_known)]


def is_utf_8(encoding: str) -> bool:
    """Whether it is UTF-8, by any of its names."""
    return codecs.lookup(encoding).name == UTF_8


@cache
def cuts_lines(encoding: str) -> bool:
    """Whether an end of a line, or a quote, is one byte that is part of no other character."""
    try:
        if any((line := text * 100).encode(encoding) != line.encode() for text in _PLAIN):
            return False
        of_others = _OTHERS.encode(encoding, "ignore")
    except UnicodeError:
        return False
    return not any(special.encode() in of_others for special in _CUT_AT)


@cache
def _marks(encoding: str) -> tuple[bytes, ...]:
    """The byte order marks of files in an encoding; that of UTF-8 is one in all of them."""
    own = _MARK.encode(encoding, "ignore")
    return tuple({mark for mark in (_MARK.encode(), own) if mark})


def mark_of(data: bytes, encoding: str = UTF_8) -> bytes:
    """The byte order mark that bytes begin with, which is no data. Nothing, if there is none."""
    return next((mark for mark in _marks(encoding) if data.startswith(mark)), b"")


def without_mark(data: bytes, encoding: str = UTF_8) -> bytes:
    """Drop the byte order mark."""
    return data[len(mark_of(data, encoding)) :]


def without_line_feed(line: bytes) -> bytes:
    """A line without its line feed, or carriage return and line feed."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
