"""Keys as bytes: equal keys are equal bytes, and bytes are in the order of keys of one kind. Pure.

It is FoundationDB's layer of tuples with Python's equality: `1`, `1.0` and `True` are one key, as
they are in a dict. So a key that is read again is equal to the one that was written, but a whole
float has become an int. The bytes of a tuple begin with those of its first parts.

Keys of authors' own classes have no bytes that are equal for equal keys, and are refused.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import reduce
from typing import Any
from uuid import UUID  # noqa: TID251 (the type alone)

from fulmen.errors import StateError, repr_of

_END, _NONE, _BYTES, _TEXT, _TUPLE, _ZERO, _FLOAT = 0, 1, 2, 3, 4, 0x20, 0x30
_DECIMAL, _DATE, _NAIVE, _INSTANT, _DURATION, _UUID, _MEMBER = range(0x31, 0x38)
_LONG = 9
"""What an int of more than 8 bytes adds to `_ZERO`, or takes off it; then comes its length."""
_DOUBLE, _LENGTH = struct.Struct(">Q"), struct.Struct(">I")
_RAW_DOUBLE = struct.Struct(">d")
_ALL, _SIGN = (1 << 64) - 1, 1 << 63
_HEADS = [bytes([_ZERO + size]) for size in range(_LONG)]
_ESCAPED = b"\x00\xff"
"""A zero byte within text: the end of the text is one that no 255 follows."""
_EPOCH, _NAIVE_EPOCH = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)  # noqa: DTZ001
_MICROSECOND = timedelta(microseconds=1)


def bytes_of(key: Any) -> bytes:
    """The bytes of a key.

    Raises:
        StateError: It is of a type that has none.
    """
    if type(key) is str and "\x00" not in key:  # as most keys
        return b"\x03%b\x00" % key.encode("utf-8", "surrogatepass")
    if type(key) is int and 0 <= key <= _ALL:
        size = (key.bit_length() + 7) // 8
        return _HEADS[size] + key.to_bytes(size, "big")
    out = bytearray()
    _add(out, key, key)
    return bytes(out)


def all_bytes_of(keys: Sequence[Any]) -> list[bytes]:
    """The bytes of each of these keys: of texts in a third of the time. Raises as `bytes_of`."""
    if set(map(type, keys)) == {str}:
        texts = "\x00".join(keys)
        if texts.count("\x00") == len(keys) - 1:  # no byte of UTF-8 is 255
            data = texts.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff\x03")
            return (b"\x03%b\x00" % data).split(b"\xff")
    return list(map(bytes_of, keys))


def key_of(data: bytes) -> Any:
    """The key with these bytes."""
    if data[0] == _TEXT and data.find(b"\x00") == len(data) - 1:
        return data[1:-1].decode("utf-8", "surrogatepass")
    return _read(data, 0)[0]


def prefix_of(key: tuple[Any, ...]) -> bytes:
    """How the bytes of all tuples begin that begin with these parts."""
    return bytes_of(key)[:-1]


def _add(out: bytearray, key: Any, whole: Any) -> None:
    if isinstance(key, str) and type(key).__hash__ is str.__hash__:
        _add_bytes(out, _TEXT, str.encode(key, "utf-8", "surrogatepass"))
    elif isinstance(key, int) and type(key).__hash__ in (int.__hash__, bool.__hash__):
        _add_int(out, int(key))
    elif isinstance(key, float) and type(key).__hash__ in (float.__hash__,):
        _add_float(out, float(key), whole)
    elif isinstance(key, bytes) and type(key).__hash__ is bytes.__hash__:
        _add_bytes(out, _BYTES, bytes(key))
    elif key is None:
        out.append(_NONE)
    elif isinstance(key, tuple) and type(key).__hash__ is tuple.__hash__:
        out.append(_TUPLE)
        for part in key:
            _add(out, part, whole)
        out.append(_END)
    elif isinstance(key, Enum):
        _add_bytes(out, _MEMBER, _name_of(key).encode())
    else:
        _add_rare(out, key, whole)


def _add_rare(out: bytearray, key: Any, whole: Any) -> None:
    kind = type(key)
    if kind is datetime:
        is_naive = key.utcoffset() is None
        out.append(_NAIVE if is_naive else _INSTANT)
        _add_int(out, (key - (_NAIVE_EPOCH if is_naive else _EPOCH)) // _MICROSECOND)
    elif kind is date:
        out.append(_DATE)
        _add_int(out, key.toordinal())
    elif kind is timedelta:
        out.append(_DURATION)
        _add_int(out, key // _MICROSECOND)
    elif kind is UUID:
        out.append(_UUID)
        out += key.bytes
    elif kind is Decimal and key.is_finite():
        _add_decimal(out, key, whole)
    else:
        raise StateError(
            f"the key {repr_of(whole)} of self.state can't be kept on disk: it is not known which"
            f" keys of type {kind.__name__} are equal. Use texts, numbers, bytes, None, dates,"
            " UUIDs, members of an Enum, or tuples of these, or keyedState: {backend: memory}"
        )


def _add_bytes(out: bytearray, tag: int, data: bytes) -> None:
    out.append(tag)
    out += data.replace(b"\x00", _ESCAPED) if 0 in data else data
    out.append(_END)


def _add_int(out: bytearray, number: int) -> None:
    size = (abs(number).bit_length() + 7) // 8
    data = (number if number >= 0 else number + (1 << 8 * size) - 1).to_bytes(size, "big")
    if size < _LONG:
        out.append(_ZERO + size if number >= 0 else _ZERO - size)
    else:
        out.append(_ZERO + _LONG if number >= 0 else _ZERO - _LONG)
        out += _LENGTH.pack(size if number >= 0 else size ^ 0xFFFFFFFF)
    out += data


def _add_float(out: bytearray, number: float, whole: Any) -> None:
    if number != number:
        raise StateError(f"the key {repr_of(whole)} of self.state is never equal to itself")
    if number.is_integer():
        _add_int(out, int(number))
        return
    [bits] = _DOUBLE.unpack(_RAW_DOUBLE.pack(number))
    out.append(_FLOAT)
    out += _DOUBLE.pack(bits ^ _ALL if bits & _SIGN else bits | _SIGN)


def _add_decimal(out: bytearray, number: Decimal, whole: Any) -> None:
    if number == number.to_integral_value():
        _add_int(out, int(number))
    elif Decimal(float(number)) == number:
        _add_float(out, float(number), whole)
    else:
        _add_bytes(out, _DECIMAL, str(_shortest(number)).encode())


def _shortest(number: Decimal) -> Decimal:
    """Equal, without zeros at the end; a context would round it."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    return Decimal((sign, digits, exponent))


def _name_of(member: Enum) -> str:
    kind = type(member)
    return f"{kind.__module__}:{kind.__qualname__}:{member.name}"


def _member(name: str) -> Any:
    module, qualname, member = name.split(":")
    kind: Any = reduce(getattr, qualname.split("."), importlib.import_module(module))
    return kind[member]


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    tag = data[at]
    at += 1
    if abs(tag - _ZERO) <= _LONG:
        return _read_int(data, at, tag - _ZERO)
    if tag in (_TEXT, _BYTES, _MEMBER, _DECIMAL):
        return _read_bytes(data, at, tag)
    if tag == _TUPLE:
        parts = []
        while data[at] != _END:
            part, at = _read(data, at)
            parts.append(part)
        return tuple(parts), at + 1
    if tag == _NONE:
        return None, at
    if tag == _FLOAT:
        [bits] = _DOUBLE.unpack_from(data, at)
        raw = bits ^ _SIGN if bits & _SIGN else bits ^ _ALL
        return _RAW_DOUBLE.unpack(_DOUBLE.pack(raw))[0], at + 8
    if tag == _UUID:
        return UUID(bytes=data[at : at + 16]), at + 16
    number, at = _read(data, at)
    if tag == _DATE:
        return date.fromordinal(number), at
    duration = timedelta(microseconds=number)
    return {_NAIVE: _NAIVE_EPOCH, _INSTANT: _EPOCH}.get(tag, timedelta()) + duration, at


def _read_int(data: bytes, at: int, kind: int) -> tuple[int, int]:
    size = abs(kind)
    if size == _LONG:
        [size] = _LENGTH.unpack_from(data, at)
        size = size if kind > 0 else size ^ 0xFFFFFFFF
        at += _LENGTH.size
    number = int.from_bytes(data[at : at + size], "big")
    return (number if kind >= 0 else number - (1 << 8 * size) + 1), at + size


def _read_bytes(data: bytes, at: int, tag: int) -> tuple[Any, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1 : end + 2] != b"\xff":
            break
        end += 2
    raw = data[at:end].replace(_ESCAPED, b"\x00")
    if tag == _BYTES:
        return raw, end + 1
    text = raw.decode("utf-8", "surrogatepass")
    if tag == _TEXT:
        return text, end + 1
    return (Decimal(text) if tag == _DECIMAL else _member(text)), end + 1
