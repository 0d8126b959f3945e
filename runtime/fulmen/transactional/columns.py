"""The types of keys and values, and how a store keeps them.

All stores have the same five. A value that does not fit its column is refused when it is written,
with the same text everywhere, instead of being turned into something else.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from typing import Any, Literal

from fulmen.errors import repr_of

Kind = Literal["text", "integer", "float", "bytes", "json"]
"""`json` holds None, bool, int, float, str, and lists, tuples and dicts of these."""

LARGEST = 2**63 - 1


class DoesNotFit(Exception):
    """A value is not of its column's type. The text says what is wrong and what would be right."""


def encoder(kind: Kind, is_key: bool = False) -> Callable[[Any], Any]:
    """The function that turns a value of a kind into its stored form: str, int, float or bytes.

    Args:
        kind: The column's type.
        is_key: Whether keys that are equal in Python must become the same.
    """
    if kind == "json" and is_key:
        return _json_key
    return _ENCODERS[kind]


def decoder(kind: Kind) -> Callable[[Any], Any]:
    """The function that turns a stored value back."""
    return json.loads if kind == "json" else _same


def _same(raw: Any) -> Any:
    return raw


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "text", 'a str; other types need "integer", "float", "bytes" or "json"')
    text = str(value)
    if text.isascii() and "\0" not in text:
        return text
    if "\0" in text:
        raise DoesNotFit(f"{repr_of(value)} contains the character NUL, which no text column takes")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DoesNotFit(f"{repr_of(value)} is no Unicode text: it has a lone surrogate") from None
    return text


def _integer(value: Any) -> int:
    if type(value) is not int and (isinstance(value, bool) or not hasattr(value, "__index__")):
        raise _wrong(value, "integer", "an int")
    number = operator.index(value)
    if not -LARGEST - 1 <= number <= LARGEST:
        raise DoesNotFit(
            f"{repr_of(value)} has more than 64 bits: a column of type 'json' takes it"
        )
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise _wrong(value, "float", "a float or an int")
    number = float(value)
    if math.isnan(number):
        raise DoesNotFit("nan is no number, and equals nothing")
    return number + 0.0  # -0.0 and 0.0 are one key


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong(value, "bytes", "bytes")
    return bytes(value)


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it has a lone surrogate" if isinstance(error, UnicodeError) else str(error)
        raise DoesNotFit(f"{repr_of(value)} can't be written as JSON ({reason})") from None
    if "\\u0000" in text and "\0" in _strings(value):
        raise DoesNotFit(f"{repr_of(value)} contains the character NUL, which no text column takes")
    return text


def _json_key(value: Any) -> str:
    return _json(_canonical(value))


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # (1, 2.0) and (1.0, 2) are one key in a dict as well
    if isinstance(value, list | tuple):
        return [_canonical(part) for part in value]
    return value


def _strings(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(str(key) + _strings(part) for key, part in value.items())
    return "".join(map(_strings, value)) if isinstance(value, list | tuple) else ""


def _wrong(value: Any, kind: str, right: str) -> DoesNotFit:
    return DoesNotFit(
        f"{repr_of(value)} is of type {type(value).__name__}, but the column of type {kind!r}"
        f" takes {right}"
    )


_ENCODERS: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "integer": _integer,
    "float": _float,
    "bytes": _bytes,
    "json": _json,
}
KINDS = tuple(_ENCODERS)
