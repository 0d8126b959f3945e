"""JSON whose numbers keep all their digits.

orjson makes floats of whole numbers beyond 64 bits, without a word, and has no other way. So what
may be such a number is looked for in the bytes, which costs a tenth of reading them, and only what
has one is read by Python's own module, exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import orjson

from fulmen.api.json_null import JSON_NULL

_DIGITS = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_SHORTEST = 19
"""The least number beyond 64 bits, -9223372036854775809, has so many digits."""
_STEP = 3
_SAMPLED = b"0" * (_SHORTEST // _STEP)
_RUN = b"0" * _SHORTEST
_FLOATS_FROM = float(1 << 63)
TOO_DEEP = "it is nested too deeply"
DEEPEST = 250
"""Neither orjson nor pickle writes what is nested much more deeply."""
_MAY_BE_INEXACT = re.compile(rb"[\d.]{16,}|\d[eE][+-]?\d")
"""A number that a float may not equal: floats keep 15 digits, and have limits."""


def loads(data: bytes | str) -> Any:
    """A value of JSON; whole numbers of any size are integers.

    Raises:
        ValueError: It is not JSON, or nested too deeply to look for such numbers.
    """
    value = orjson.loads(data)
    raw = data.encode() if isinstance(data, str) else data
    if not _may_be_large(raw):
        return value
    try:
        is_large = has_large(value)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    return _read(raw, None) if is_large else value


def document(data: bytes) -> Any:
    """A value of JSON as it is: numbers that Python's int and float can't hold are Decimals.

    Returns:
        JSON_NULL for null.

    Raises:
        ValueError: It is not JSON, or is nested too deeply.
    """
    value = _read(data, _real, _whole) if may_be_inexact(data) else orjson.loads(data)
    may_be_deep = len(data) > DEEPEST and data.count(b"[") + data.count(b"{") > DEEPEST
    if may_be_deep and _depth(value) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return JSON_NULL if value is None else value


def _depth(value: Any) -> int:
    """The depth of nested lists and dicts."""
    depth, level = 0, [value]
    while level := [one for one in level if type(one) is dict or type(one) is list]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if type(one) is dict else one)]
    return depth


def may_be_inexact(data: bytes) -> bool:
    """Whether a number may be there that no float equals."""
    return _MAY_BE_INEXACT.search(data) is not None


def _real(digits: str) -> float | Decimal:
    exact, rounded = Decimal(digits), float(digits)
    return rounded if math.isfinite(rounded) and Decimal(repr(rounded)) == exact else exact


def _whole(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:  # Python reads no longer ones
        return Decimal(digits)


def may_have_large(messages: Sequence[bytes]) -> bool:
    """Whether there may be a whole number beyond 64 bits in one of them."""
    joined = b" ".join(messages)
    return _SAMPLED in joined[::_STEP].translate(_DIGITS) and _RUN in joined.translate(_DIGITS)


def _may_be_large(data: bytes) -> bool:
    return len(data) >= _SHORTEST and _RUN in data.translate(_DIGITS)


def has_large(value: Any) -> bool:
    """Whether a number in what orjson has read may have been a whole one beyond 64 bits."""
    kind = type(value)
    if kind is float:
        return not -_FLOATS_FROM < value < _FLOATS_FROM
    if kind is dict:
        return any(map(has_large, value.values()))
    return kind is list and any(map(has_large, value))


def with_decimals(data: bytes) -> Any:
    """A value of JSON whose numbers with a point or an exponent are Decimals, not floats.

    Raises:
        ValueError: A number has more digits than Python reads, or it is nested too deeply.
    """
    return _read(data, Decimal)


def _read(
    data: bytes, real: Callable[[str], Any] | None, whole: Callable[[str], Any] | None = None
) -> Any:
    try:
        return json.loads(data, parse_float=real, parse_int=whole, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except ArithmeticError:
        raise ValueError("a number has an exponent that is too large") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
