"""Decoders that raise, for some of the messages, every exception there is."""

import builtins
from functools import partial

import orjson
import pyarrow as pa

from fulmen.connectors.formats.plain import TextFormat
from fulmen.errors import PASSED_ON

_ARGUMENTS = {
    "UnicodeDecodeError": ("utf-8", b"\xff", 0, 1, "no text"),
    "UnicodeEncodeError": ("utf-8", "\ud800", 0, 1, "no text"),
    "UnicodeTranslateError": ("\ud800", 0, 1, "no text"),
    "ExceptionGroup": ("two", [ValueError("one"), KeyError("other")]),
    "BaseExceptionGroup": ("two", [ValueError("one"), SystemExit()]),
}


class PanicException(BaseException):
    """Is, as that of extensions in Rust, no Exception."""


class Unsayable(Exception):
    """Has no text."""

    def __str__(self):
        raise MemoryError


RAISED = [
    partial(kind, *_ARGUMENTS.get(name, ()))
    for name, kind in sorted(vars(builtins).items())
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind not in PASSED_ON
]
RAISED += [
    *(PanicException, Unsayable, partial(pa.ArrowInvalid, "of C++")),
    partial(orjson.JSONDecodeError, "of C", "", 0),
]
"""Makes each of them."""


def marked(number):
    """A text for which a decoder raises the exception of this number."""
    return f"raise {number % len(RAISED)} in {number}"


def is_marked(text):
    return "raise " in text


def raising(decode, text_of=lambda data: data.decode()):
    """The decoder, which raises for texts that are marked.

    Args:
        decode: The decoder, of an object and what it decodes.
        text_of: The text of that.
    """

    def decoded(form, data, *more):
        _, mark, rest = text_of(data).partition("raise ")
        if mark:
            raise RAISED[int(rest.split()[0])]()
        return decode(form, data, *more)

    return decoded


def put_in(monkeypatch, decode):
    """Have texts decoded by another function, one by one and many at once."""
    monkeypatch.setattr(TextFormat, "decode", decode)
    monkeypatch.setattr(TextFormat, "_at_once", lambda form, some: [decode(form, x) for x in some])
