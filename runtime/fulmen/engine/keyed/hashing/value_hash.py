"""A hash of one value: 32 bits, the same in each process, on each machine and in each version.

Equal values have equal hashes, see also `equal_values`. Which task a key goes to, and so which
task has its state, hangs on them: what is here may never change.

| Python | hash |
|---|---|
| None | 0 |
| bool, int, float, complex, Decimal, Fraction | Python's own; every NaN has the same |
| str | of its UTF-16 code units, as in Java |
| bytes, bytearray | of its signed bytes, as in Java |
| list, tuple | of its elements, in order |
| TransactionAttempt | of its txid: all attempts go the same way |

A subclass counts as what it is derived from, a numpy scalar as the Python value it stands for. (So
does a member of an Enum that is mixed with such a type: it is the same key as its value.)
Everything else (datetime, UUID, dataclasses, plain Enums) has the hash of the string
`repr(value)`, which must be the same in every process. What is equal and looks different is made
alike before, see `equal_values`.
Refused is what has no such text: objects with Python's own repr (an address), dict, set and
frozenset (their order is no part of their value), numpy arrays (theirs is abridged).

Never `hash()` of anything but a number: it differs between processes.
"""

from __future__ import annotations

import re
import sys
from collections import ChainMap, UserDict
from collections.abc import Callable, ItemsView, Iterable, KeysView, Sequence
from decimal import Decimal
from fractions import Fraction
from operator import mul
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np

from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.keyed.hashing.polynomials import Units, polynomial
from fulmen.errors import PASSED_ON, GroupingError, error_text

_MASK = 0xFFFF_FFFF
HIGH_FACTOR = 0x9E37_79B1
"""What the upper half of 64 bits is multiplied with: 2**32 by the golden ratio."""
NAN = 0x7FF8
"""The hash of what is no number."""
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_ADDRESS_REPR: Any = object.__repr__
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]{6,16}\b")
"""An address in memory, as Python writes it."""


def value_hash(value: Any) -> int:
    """The hash of one value, as in the table above.

    Raises:
        GroupingError: The value has no hash that is the same in every process.
    """
    exact = _EXACT.get(type(value))
    try:
        return exact(value) if exact is not None else _other_hash(value)
    except RecursionError:
        reason = "it is nested too deeply"
        raise _no_hash(value, reason, "Group by a field of it") from None


def list_hash(values: Iterable[Any]) -> int:
    """The hash of a list of values: see `positions`, which does the same for columns."""
    total = 1
    for value in values:
        total = mixed(31 * total + mixed(value_hash(value) & _MASK) & _MASK)
    return _int32(total)


def mixed(word: int) -> int:
    """Spread a word of 32 bits: each of its bits changes half of the result's.

    The finalizer of MurmurHash3 (Austin Appleby, public domain). Different words stay different.
    """
    word = (word ^ word >> 16) * 0x85EB_CA6B & _MASK
    word = (word ^ word >> 13) * 0xC2B2_AE35 & _MASK
    return word ^ word >> 16


def bytes_hash(value: bytes | bytearray) -> int:
    """The hash of a byte array."""
    return _int32(polynomial(np.frombuffer(value, np.int8)) + pow(31, len(value), 1 << 32))


def _int32(value: int) -> int:
    return ((value & _MASK) ^ 0x8000_0000) - 0x8000_0000


def _number_hash(value: float | complex | Fraction) -> int:
    """By Python's rules for hashes of numeric types; that of NaN would be its address."""
    return NAN if value != value else words_hash(hash(value))


def _decimal_hash(value: Decimal) -> int:
    return NAN if value.is_nan() else words_hash(hash(value))


def words_hash(value: int) -> int:
    """The hash of 64 bits: numbers of 32 bits stay apart, and two numbers packed into one, too."""
    return _int32(value ^ (value >> 32 & _MASK) * HIGH_FACTOR)


class _Strings(dict[str, int]):
    """The hashes of short strings seen lately; a miss computes and remembers.

    Its keys are exactly of type `str`: to a dict 1, 1.0 and True are one key, but they have three
    hashes. When full it is emptied: what is frequent is soon back, what is rare does not pile up.
    """

    ENTRIES = 1 << 16
    LENGTH = 64

    def __missing__(self, value: str) -> int:
        if len(value) > self.LENGTH:
            return _long_string_hash(value)
        units: Sequence[int]
        if value.isascii():
            units = value.encode("ascii")
        else:
            units = memoryview(value.encode(_UTF16, "surrogatepass")).cast("H")
        total = _int32(sum(map(mul, units, _DESCENDING_POWERS[-len(units) :])))
        if len(self) >= self.ENTRIES:
            self.clear()
        self[value] = total
        return total


# For the longest string that is remembered: a character beyond U+FFFF is two code units.
_DESCENDING_POWERS = tuple(pow(31, k, 1 << 32) for k in reversed(range(2 * _Strings.LENGTH)))
string_hashes = _Strings()
"""The process's one cache. Look up by `string_hashes[value]`, and only what is exactly a `str`."""


def _long_string_hash(value: str) -> int:
    return _int32(polynomial(code_units(value)))


def code_units(text: str) -> Units:
    """The UTF-16 code units of a text, as narrow as they can be."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode(_UTF16, "surrogatepass"), np.uint16)


_EXACT: dict[type, Callable[[Any], int]] = {
    NoneType: lambda _: 0,
    bool: _number_hash,
    int: _number_hash,
    float: _number_hash,
    complex: _number_hash,
    Decimal: _decimal_hash,
    Fraction: _number_hash,
    str: string_hashes.__getitem__,
    bytes: bytes_hash,
    bytearray: bytes_hash,
    list: list_hash,
    tuple: list_hash,
}

_ALL = slice(None)
# How a subclass becomes what it is derived from; its own methods may do anything.
_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__index__),
    (float, float.__float__),
    (complex, complex.__complex__),
    (Decimal, Decimal),
    (Fraction, lambda value: Fraction(value.numerator, value.denominator)),
    (bytes, lambda value: bytes.__getitem__(value, _ALL)),
    (bytearray, lambda value: bytearray.__getitem__(value, _ALL)),
    (list, lambda value: list.__getitem__(value, _ALL)),
    (tuple, lambda value: tuple.__getitem__(value, _ALL)),
    (TransactionAttempt, lambda value: value.txid),
)

_REFUSED: tuple[tuple[type | tuple[type, ...], str, str], ...] = (
    (
        (dict, ChainMap, UserDict, MappingProxyType),
        "the order of its items is no part of its value",
        "tuple(sorted(value.items()))",
    ),
    (
        (set, frozenset, KeysView, ItemsView),
        "the order of its elements is no part of its value",
        "tuple(sorted(value))",
    ),
    (np.ndarray, "its text is abridged", "value.tolist()"),
)


def _other_hash(value: Any) -> int:
    """The hash of a value whose type is not one of the table's, but perhaps derived from one."""
    if isinstance(value, np.generic):
        plain = value.item()
        if not isinstance(plain, np.generic):  # a longdouble stays one
            return value_hash(plain)
    for base, to_plain in _PLAIN:
        if isinstance(value, base):
            return value_hash(to_plain(value))
    return string_hashes[_stable_text(value)]


def _stable_text(value: Any) -> str:
    """`repr(value)`, if it is the same in every process."""
    for refused, reason, cure in _REFUSED:
        if isinstance(value, refused):
            raise _no_hash(value, reason, f"Emit {cure} instead")
    cure = "Emit a field of it instead, or give it a __repr__ of its contents, as a dataclass has"
    if type(value).__repr__ is _ADDRESS_REPR:
        raise _no_hash(value, "its repr() is an address in memory", cure)
    try:
        text = repr(value)
    except PASSED_ON:
        raise
    except BaseException as error:
        reason = f"its repr() raised {error_text(error)}"
        raise _no_hash(value, reason, cure) from error
    if _ADDRESS.search(text):  # functions, locks, what is made of one of them
        raise _no_hash(value, "its repr() has an address in memory", cure)
    return text


def _no_hash(value: Any, reason: str, cure: str) -> GroupingError:
    return GroupingError(
        f"no task can be chosen by a value of type '{type(value).__qualname__}': it has no hash "
        f"that is the same in every process, because {reason}. {cure}."
    )
