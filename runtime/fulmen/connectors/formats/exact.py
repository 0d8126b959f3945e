"""JSON whose numbers keep all their digits.

orjson makes floats of whole numbers beyond 64 bits, without a word, and has no other way. So what
may be such a number is looked for in the bytes, which costs a tenth of reading them, and only what
has one is read by Python's own module, exactly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson

_DIGITS = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_SHORTEST = 19
"""The least number beyond 64 bits, -9223372036854775809, has so many digits."""
_STEP = 3
_SAMPLED = b"0" * (_SHORTEST // _STEP)
_RUN = b"0" * _SHORTEST
_FLOATS_FROM = float(1 << 63)
TOO_DEEP = "it is nested too deeply"


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
    return again(raw) if is_large else value


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


def again(data: bytes, *, decimals: bool = False) -> Any:
    """What orjson has read already, with all digits of its whole numbers.

    Args:
        data: The message.
        decimals: Numbers with a point or an exponent are Decimals instead of floats.

    Raises:
        ValueError: A number has more digits than Python reads, or it is nested too deeply.
    """
    try:
        return json.loads(
            data, parse_float=Decimal if decimals else None, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
