"""The hashes of whole columns; value_hash.py says what they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import countOf
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.engine.keyed.hashing.equal_values import equal_hash
from fulmen.engine.keyed.hashing.polynomials import MAX_UNITS, polynomials, power
from fulmen.engine.keyed.hashing.value_hash import HIGH_FACTOR, NAN, code_units, string_hashes
from fulmen.engine.tuples.columns import Column, encoded
from fulmen.engine.tuples.python_values import python_values
from fulmen.engine.tuples.string_column import StringColumn
from fulmen.errors import GroupingError

Hashes = npt.NDArray[np.int32]

_FEW = 64
"""So many strings are looked up; more are computed together: faster even if all are known."""
_ROWS = 4096
"""Strings that are computed together: what they need stays in the CPU's cache."""


def column_hash(column: Column) -> Hashes:
    """The hash of each value: in Arrow, the same as of the Python value that it stands for.

    Fast for strings, bytes, numbers and booleans, and for dictionaries of anything.

    Args:
        column: The values.

    Raises:
        GroupingError: A value has none; `emission` says which.
    """
    if isinstance(column, list):
        if column and type(column[0]) is str:
            hashes = _strings(column)
            return _one_by_one(column) if hashes is None else hashes
        column = encoded(column)
    if isinstance(column, list):
        return _one_by_one(column)
    return _texts(column) if isinstance(column, StringColumn) else _arrow(column)


def _one_by_one(values: list[Any]) -> Hashes:
    try:
        return np.fromiter(map(equal_hash, values), np.int32, len(values))
    except GroupingError:
        for k, value in enumerate(values):
            try:
                equal_hash(value)
            except GroupingError as error:
                raise GroupingError(error.reason, emission=k) from error.__cause__
        raise


def _strings(values: list[Any]) -> Hashes | None:
    """The hashes of values that are probably strings; None if they are not, or have a NUL.

    That they are is seen in passing: they can be joined. (So can a subclass of `str`, which has
    the hash of its characters anyway.)
    """
    if len(values) <= _FEW:
        if countOf(map(type, values), str) != len(values):
            return None
        return np.fromiter(map(string_hashes.__getitem__, values), np.int32, len(values))
    pieces = []
    for start in range(0, len(values), _ROWS):
        try:
            joined = StringColumn.joined(values[start : start + _ROWS])
        except TypeError:
            return None
        if joined is None:
            return None
        pieces.append(_texts(joined))
    return np.concatenate(pieces)


def _texts(column: StringColumn) -> Hashes:
    """The zero after each string is at the beginning of the next one, where it adds nothing."""
    text, ends = column.text, column.ends
    pieces = [np.empty(0, np.uint32)]
    begin = 0
    for start in range(0, len(ends), _ROWS):
        some = ends[start : start + _ROWS]
        stop = int(some[-1]) + 1
        if stop - begin > MAX_UNITS:
            return _one_by_one(column.to_pylist())
        piece = text[begin:stop]
        units: npt.NDArray[np.unsignedinteger[Any]]
        if piece.isascii():
            units, until = np.frombuffer(piece, np.uint8), some - begin
        else:
            units = code_units(str(piece, "utf-8"))
            until = (units == 0).nonzero()[0]
        pieces.append(polynomials(units, until))
        begin = stop
    return np.concatenate(pieces).view(np.int32)


_MODULUS = sys.hash_info.modulus  # 2**61 - 1, as in all of Python's builds of 64 bits
_BITS = _MODULUS.bit_length()
_Words = npt.NDArray[np.uint64]


def _words_hash(magnitudes: _Words, is_negative: npt.NDArray[np.bool_]) -> Hashes:
    """The `words_hash` of Python's hashes, of which these are the magnitudes."""
    signed = magnitudes.view(np.int64)
    signed = np.where(is_negative, np.where(signed == 1, -2, -signed), signed)
    words = signed.view(np.uint64)
    high = (words >> np.uint64(32)).astype(np.uint32) * np.uint32(HIGH_FACTOR)
    return (words.astype(np.uint32) ^ high).view(np.int32)


def _long_hash(values: npt.NDArray[np.int64]) -> Hashes:
    magnitudes = np.abs(values).view(np.uint64)  # that of -2**63, too
    return _words_hash(magnitudes % np.uint64(_MODULUS), values < 0)


def _double_hash(values: npt.NDArray[np.float64]) -> Hashes:
    """Python's is the value modulo a Mersenne prime: a power of 2 only turns the bits round."""
    is_finite = np.isfinite(values)
    fractions, exponents = np.frexp(np.where(is_finite, np.abs(values), 0.0))
    whole = np.ldexp(fractions, 53).astype(np.uint64)
    turn = ((exponents - 53) % _BITS).astype(np.uint64)
    turned = whole << turn & np.uint64(_MODULUS) | whole >> np.uint64(_BITS) - turn
    turned = np.where(is_finite, turned, np.uint64(sys.hash_info.inf))
    hashes = _words_hash(turned, values < 0)
    hashes[np.isnan(values)] = NAN
    return hashes


def _arrow(array: Any) -> Hashes:
    kind = array.type
    if pa.types.is_dictionary(kind) and kind.value_type in _ARROW:
        known = np.append(column_hash(array.dictionary), np.int32(0))
        indices = array.indices.cast(pa.int64()).fill_null(len(known) - 1)
        hashes: Hashes = known[indices.to_numpy()]
        return hashes
    if kind not in _ARROW or not len(array):
        return _hash_of_values(array)
    of_array, absent = _ARROW[kind]
    try:
        hashes = of_array(array.fill_null(absent) if array.null_count else array)
    except UnicodeDecodeError:
        return _hash_of_values(array)  # which names the text that is no UTF-8
    if not array.null_count:
        return hashes
    hashes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _hash_of_values(array: Any) -> Hashes:
    values, wrong = python_values(array)
    for i, reason in wrong.items():
        raise GroupingError(
            f"no task can be chosen by a value: {reason}. Cast the column to another type", i
        )
    return column_hash(values)


def _arrow_longs(array: Any) -> Hashes:
    return _long_hash(array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))


def _arrow_doubles(array: Any) -> Hashes:
    return _double_hash(array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False))


def _arrow_booleans(array: Any) -> Hashes:
    booleans: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return booleans.astype(np.int32)


def _arrow_strings(array: Any) -> Hashes:
    return _in_pieces(array, _utf8_hash)


def _arrow_bytes(array: Any) -> Hashes:
    return _in_pieces(array, _byte_array_hash)


Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.signedinteger[Any]]


def _in_pieces(array: Any, hash_piece: Callable[[Bytes, Ends], Hashes]) -> Hashes:
    """Apply `hash_piece` to the bytes of some rows at a time, and where in them each row ends."""
    _, offset_buffer, data_buffer = array.buffers()
    wide = array.type in (pa.large_string(), pa.large_binary())
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    pieces = []
    for start in range(array.offset, array.offset + len(array), _ROWS):
        ends = offsets[start : min(start + _ROWS, array.offset + len(array)) + 1]
        if ends[-1] - ends[0] <= MAX_UNITS:
            pieces.append(
                hash_piece(data[ends[0] : ends[-1]], np.subtract(ends[1:], ends[0], dtype=np.intp))
            )
        else:
            pieces.append(_one_by_one(array[start - array.offset :][: len(ends) - 1].to_pylist()))
    return np.concatenate(pieces)


def _utf8_hash(data: Bytes, ends: Ends) -> Hashes:
    if not len(data) or data.max() < 0x80:
        return polynomials(data, ends).view(np.int32)
    # How many UTF-16 code units begin at each byte: two at the first of four, none at a later one.
    units = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    units_until = np.append(0, np.cumsum(units))
    return polynomials(code_units(data.tobytes().decode()), units_until[ends]).view(np.int32)


def _byte_array_hash(data: Bytes, ends: Ends) -> Hashes:
    signed = data.view(np.int8).astype(np.int32).view(np.uint32)
    lengths = np.diff(ends, prepend=0)
    return (polynomials(signed, ends) + power(lengths, len(data))).view(np.int32)


# What computes the hashes of an array without nulls, and what stands for its nulls meanwhile.
_ARROW: dict[Any, tuple[Callable[[Any], Hashes], Any]] = {
    pa.bool_(): (_arrow_booleans, False),
    pa.float32(): (_arrow_doubles, 0.0),
    pa.float64(): (_arrow_doubles, 0.0),
    pa.int8(): (_arrow_longs, 0),
    pa.int16(): (_arrow_longs, 0),
    pa.int32(): (_arrow_longs, 0),
    pa.int64(): (_arrow_longs, 0),
    pa.uint8(): (_arrow_longs, 0),
    pa.uint16(): (_arrow_longs, 0),
    pa.uint32(): (_arrow_longs, 0),  # uint64 may have more bits than int64
    pa.string(): (_arrow_strings, ""),
    pa.large_string(): (_arrow_strings, ""),
    pa.binary(): (_arrow_bytes, b""),
    pa.large_binary(): (_arrow_bytes, b""),
}
