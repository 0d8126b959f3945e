"""What compiled expressions call for numbers, as DuckDB counts: 64-bit integers, IEEE floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)
from typing import Any, NoReturn

LEAST, GREATEST = -(2**63), 2**63 - 1
DECIMALS = Context(
    prec=38, rounding=ROUND_HALF_UP, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact]
)
"""Decimals have 38 digits; a result that needs more fails."""


class Failed(Exception):
    """A row for which an expression has no value. Its text says why."""


def overflow(value: int) -> NoReturn:
    """Fail a row whose result does not fit."""
    raise Failed(f"{value} is no integer of 64 bits")


def fits(value: int) -> int:
    """An integer of 64 bits."""
    if LEAST <= value <= GREATEST:
        return value
    overflow(value)


def int_mod(a: int, b: int) -> int:
    """The rest of a division, with the sign of the dividend."""
    if not b:
        raise Failed("division by zero")
    rest = abs(a) % abs(b)
    return fits(-rest if a < 0 else rest)


def int_divide(a: int, b: int) -> int:
    """A division without its rest, towards zero."""
    if not b:
        raise Failed("division by zero")
    whole = abs(a) // abs(b)
    return fits(whole if (a < 0) == (b < 0) else -whole)


def divide(a: float, b: float) -> float:
    """A division of floats: by zero it is infinite, or not a number."""
    if b:
        return a / b
    if not a or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def float_divide(a: float, b: float) -> float:
    """`//` of floats: as DuckDB has it, a division that fails by zero."""
    if not b:
        raise Failed("division by zero")
    return a / b


def float_mod(a: float, b: float) -> float:
    """The rest of a division of floats."""
    if not b or math.isinf(a):
        return math.nan
    return math.fmod(a, b)


def decimal_mod(a: Decimal, b: Decimal) -> Decimal:
    """The rest of a division of decimals."""
    if not b:
        raise Failed("division by zero")
    return DECIMALS.remainder(a, b)


def float_equal(a: float, b: float) -> bool:
    """Whether floats are equal: NaN equals itself."""
    return a == b or (a != a and b != b)


def float_less(a: float, b: float) -> bool:
    """Whether a float is before another: NaN is above all."""
    return a < b or (b != b and a == a)


def rounded(value: float, digits: int = 0) -> float:
    """A float with so many digits, halves away from zero."""
    if not math.isfinite(value) or digits > 308:
        return value
    if digits < -308:
        return 0.0
    scale = 10.0 ** abs(digits)
    scaled = value * scale if digits >= 0 else value / scale
    if math.isinf(scaled):
        return value
    whole = _half_away(scaled)
    return whole / scale if digits >= 0 else whole * scale


def _half_away(value: float) -> float:
    whole = math.floor(abs(value))
    if abs(value) - whole >= 0.5:
        whole += 1
    return math.copysign(float(whole), value)


def int_rounded(value: int, digits: int) -> int:
    """An integer with zeros in its last places, halves away from zero."""
    if digits >= 0:
        return value
    if digits < -19:
        return 0
    scale = 10**-digits
    whole = (abs(value) + scale // 2) // scale * scale
    return fits(whole if value >= 0 else -whole)


def decimal_rounded(value: Decimal, digits: int = 0) -> Decimal:
    """A decimal with so many digits, halves away from zero."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= digits:
        return value
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def whole(how: Callable[[float], int]) -> Callable[[float], float]:
    """`floor` and the like for floats that may be infinite."""

    def of(value: float) -> float:
        return math.copysign(float(how(value)), value) if math.isfinite(value) else value

    return of


floor, ceil, trunc = whole(math.floor), whole(math.ceil), whole(math.trunc)


def sign(value: Any) -> int:
    """-1, 0 or 1."""
    return int(value > 0) - int(value < 0)


def root(value: float) -> float:
    """The square root; not a number: there is none."""
    return math.nan if value < 0 else math.sqrt(value)


def power(a: float, b: float) -> float:
    """A power of floats."""
    try:
        return math.pow(a, b)
    except OverflowError:
        is_negative = a < 0 and b % 2 == 1
        return -math.inf if is_negative else math.inf
    except ValueError:
        return math.inf if not a else math.nan


def logarithm(of: Callable[[float], float]) -> Callable[[float], float]:
    """A logarithm that is -inf of zero, and not a number below."""

    def value_of(value: float) -> float:
        if value > 0:
            return of(value)
        return -math.inf if value == 0 else math.nan

    return value_of


ln, log10, log2 = logarithm(math.log), logarithm(math.log10), logarithm(math.log2)


def exponential(value: float) -> float:
    """Raise e to the power of a float."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
