"""Java's polynomial hash, c0*31^(n-1) + ... + c(n-1) modulo 2^32, of many segments at once.

31 is odd, so it has an inverse modulo 2^32. With weights that depend on the position in the whole
array, 31^-(i+1), the sum over a segment [a, b) is a difference of two prefix sums, and times 31^b
it is the segment's hash. So a column costs a multiplication and an addition for each character and
two gathers for each value, however the lengths differ. Rejected: exponents that count within their
segment, which take a `repeat` and a gather for each character.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.unsignedinteger[Any]]
"""The numbers to hash: code units, or bytes."""
Words = npt.NDArray[np.uint32]

MAX_UNITS = 1 << 23
"""The most that `polynomials` takes at once. (Its prefix sums need 4 bytes for each.)"""

_BITS = 16
_BLOCK = 1 << _BITS


def _table(factor: int, length: int) -> Words:
    """factor^0, factor^1, ..."""
    factors = np.full(length, factor, np.uint32)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint32)


_INVERSE = pow(31, -1, 1 << 32)
_POWERS = _table(31, _BLOCK + 1)
_DESCENDING = np.ascontiguousarray(_POWERS[_BLOCK - 1 :: -1])
_WEIGHTS = _table(_INVERSE, _BLOCK + 1)[1:]
# The same for whole blocks. Exponents may be as large as MAX_UNITS itself, hence the one more.
_BLOCK_POWERS = _table(pow(31, _BLOCK, 1 << 32), (MAX_UNITS >> _BITS) + 1)
_BLOCK_WEIGHTS = _table(pow(_INVERSE, _BLOCK, 1 << 32), (MAX_UNITS >> _BITS) + 1)


def power(exponents: npt.NDArray[np.signedinteger[Any]], largest: int) -> Words:
    """31 to the power of each, modulo 2^32. None is above `largest`, which is at most MAX_UNITS."""
    if largest <= _BLOCK:
        small: Words = _POWERS[exponents]
        return small
    large: Words = _POWERS[exponents & (_BLOCK - 1)] * _BLOCK_POWERS[exponents >> _BITS]
    return large


def polynomial(units: npt.NDArray[np.integer[Any]]) -> int:
    """The hash of one array of any length, 0 to 2^32-1. Negative units count modulo 2^32."""
    total = 0
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK].astype(np.uint32)
        part = np.dot(block, _DESCENDING[_BLOCK - len(block) :])
        total = total * int(_POWERS[len(block)]) + int(part) & 0xFFFF_FFFF
    return total


def polynomials(units: Units, ends: npt.NDArray[np.signedinteger[Any]]) -> Words:
    """The hash of each segment of `units`. One begins where the one before it ends, the first at 0.

    Zeros at the beginning of a segment make no difference.
    """
    sums = np.empty(len(units) + 1, np.uint32)
    sums[0] = 0
    sums[1:] = units
    for start in range(0, len(units), _BLOCK):
        weighted = sums[start + 1 : start + 1 + _BLOCK]
        weighted *= _WEIGHTS[: len(weighted)]
        if start:
            weighted *= _BLOCK_WEIGHTS[start >> _BITS]
    np.add.accumulate(sums, dtype=np.uint32, out=sums)
    upto: Words = sums[ends]
    totals = upto.copy()
    totals[1:] -= upto[:-1]
    totals *= power(ends, len(units))
    return totals
