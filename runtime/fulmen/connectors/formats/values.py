"""The forms of values in JSON and as text: one rule for each kind, for all formats and sinks.

The rules are in docs/connectors/values.md. A value either becomes something that it can be told
from, or is refused: nothing becomes null or loses digits without a word.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, Literal
from uuid import UUID  # noqa: TID251 (a type of values; none is made)

import numpy as np
import orjson
from pydantic import BaseModel

from fulmen.connectors.formats.base import Malformed, Rowlike
from fulmen.errors import repr_of

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1
"""The bounds of whole numbers that orjson writes and reads."""
# orjson cuts the seconds off time zones, and leaves out fields of dataclasses that begin with `_`.
OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_AS_STR = (IPv4Address, IPv4Network, IPv6Address, IPv6Network, PurePath, UUID)
_PLAIN = frozenset({str, int, bool, type(None)})
_NATURAL = _PLAIN | {
    *(float, bytes, list, tuple, dict, Decimal, datetime, date, time, timedelta, UUID),
}
_WITHOUT_FLOATS = _NATURAL - {float, list, tuple, dict}
_FLOAT = {float}
_SECONDS = 86_400
_CURE = "Convert it in a bolt before"


@dataclass(frozen=True)
class ValueWriter:
    """Writes values as JSON, and single ones as text.

    Attributes:
        decimals: What a Decimal is in JSON: a `number` with all its digits, or `text`.
        binary: What bytes are: `text` where they are UTF-8, and else base64; or always `base64`.
    """

    decimals: Literal["number", "text"] = "number"
    binary: Literal["text", "base64"] = "text"

    def dumps(self, value: Any) -> bytes:
        """A value as JSON.

        Raises:
            Malformed: It has no form in JSON. The text says what it is.
        """
        try:
            data = orjson.dumps(value, self.plain, OPTIONS)
        except TypeError:  # orjson's own, too
            return self._dumped(value)
        if b"null" in data and _has_unfinite(value):  # orjson writes NaN as null
            return self._dumped(value)
        return data

    def _dumped(self, value: Any) -> bytes:
        try:
            return orjson.dumps(self.plain(value), None, OPTIONS)
        except RecursionError:
            raise Malformed("it is nested too deeply, or contains itself") from None
        except TypeError as error:
            raise Malformed(f"it can't be written as JSON: {error}") from None

    def text(self, value: Any) -> str:
        """A value other than None as text: the same as in JSON, but texts have no quotes.

        Raises:
            Malformed: It has no form as text.
        """
        if isinstance(value, str):
            return value
        if type(value) is float and math.isfinite(value):
            return repr(value)
        try:
            plain = self.plain(value)
        except RecursionError:
            raise Malformed("it is nested too deeply, or contains itself") from None
        if isinstance(plain, str):
            return plain
        return self._dumped(plain).decode()

    def plain(self, value: Any) -> Any:
        """Turn a value into types that orjson writes as they are.

        Raises:
            Malformed: It has no form in JSON.
            RecursionError: It is nested too deeply.
        """
        if value is None:
            return None
        if (made := _EXACT.get(type(value))) is not None:
            return made(self, value)
        for kinds, convert in _OTHERS:
            if isinstance(value, kinds):
                return convert(self, value)
        if is_dataclass(value) and not isinstance(value, type):
            return _object(self, ((one.name, getattr(value, one.name)) for one in fields(value)))
        kind = type(value).__qualname__
        raise Malformed(f"{kind} {repr_of(value, 50)} has no form in JSON. {_CURE}")


DEFAULT = ValueWriter()


def _object(writer: ValueWriter, items: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in items:
        name = _key(writer, key)
        if name in members:
            raise Malformed(f"two keys of an object are {name!r} as text. {_CURE}")
        members[name] = writer.plain(value)
    return members


def _key(writer: ValueWriter, key: Any) -> str:
    made = writer.plain(key)
    if isinstance(made, dict | list):
        raise Malformed(f"a key of an object can't be {repr_of(key, 50)}. {_CURE}")
    return made if isinstance(made, str) else orjson.dumps(made).decode()


def _list(writer: ValueWriter, value: Iterable[Any]) -> list[Any]:
    return [writer.plain(one) for one in value]


def _set(writer: ValueWriter, value: Set[Any]) -> list[Any]:
    # in an order that is the same in every process
    return sorted(map(writer.plain, value), key=orjson.dumps)


def _bytes(writer: ValueWriter, value: Any) -> str:
    data = bytes(value)
    if writer.binary == "text":
        with suppress(UnicodeDecodeError):
            return data.decode()
    return b64encode(data).decode()


def _decimal(writer: ValueWriter, value: Decimal) -> Any:
    if not value.is_finite():
        return unfinite(value)
    return str(value) if writer.decimals == "text" else orjson.Fragment(str(value))


def _integer(_writer: ValueWriter, value: int) -> Any:
    if SMALLEST <= value <= LARGEST:
        return value
    try:
        return orjson.Fragment(str(value))
    except ValueError:  # Python writes no longer ones
        raise Malformed(f"an integer of {value.bit_length()} bits is too large") from None


def _float(_writer: ValueWriter, value: float) -> Any:
    return value if math.isfinite(value) else unfinite(value)


def unfinite(value: float | Decimal) -> str:
    """The name of NaN or of an infinity."""
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def duration(value: timedelta) -> str:
    """A time span as ISO 8601 writes it: `P1DT2H3M4.5S`, with a minus before all of it."""
    microseconds = abs(value) // timedelta(microseconds=1)
    seconds, microseconds = divmod(microseconds, 1_000_000)
    days, seconds = divmod(seconds, _SECONDS)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f"{seconds}.{microseconds:06}".rstrip("0") if microseconds else f"{seconds}"
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{fraction}S" if fraction != "0" else "")
    clock = "T" + "".join(parts) if any(parts) else ""
    text = f"P{days}D{clock}" if days or not clock else f"P{clock}"
    return f"-{text}" if value < timedelta(0) else text


def scalar(value: Any) -> Any:
    """A scalar of NumPy's as Python's own.

    Raises:
        Malformed: There is none that is equal.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return "NaT"
        kind = "M8[us]" if isinstance(value, np.datetime64) else "m8[us]"
        try:
            rounded = value.astype(kind)
        except TypeError:  # months and years
            raise Malformed(f"{value!r} is of no certain length. {_CURE}") from None
        if rounded != value:
            raise Malformed(f"{value!r} has parts of microseconds. {_CURE}")
        return rounded.item()
    if isinstance(value, np.longdouble | np.clongdouble):
        raise Malformed(f"{type(value).__qualname__} has no form in JSON. {_CURE}")
    return value.item()


def natural(value: Any) -> Any:
    """A value of a simple type instead of one that only says the same.

    An Enum is its value, NumPy's scalars are Python's, a set is a list, and dataclasses and models
    are dicts. What is inside is left as it is.
    """
    if type(value) in _NATURAL:
        return value
    if isinstance(value, Enum):
        return natural(value.value)
    if isinstance(value, np.generic):
        return scalar(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Set | deque):
        return list(value)
    return value


def checked_text(value: str) -> str:
    """Refuse a text that is no Unicode.

    Raises:
        Malformed: It has half a pair of UTF-16.
    """
    try:
        if not value.isascii():
            value.encode()
    except UnicodeEncodeError:
        shown = repr_of(value, 50)
        raise Malformed(f"{shown} is no Unicode text: it has a lone surrogate") from None
    return value if type(value) is str else "".join(value)


def rows_have_unfinite(rows: Rowlike) -> bool:
    """Whether there is NaN or an infinity in rows of which orjson writes such values by itself."""
    for column in zip(*rows, strict=True):
        kinds = set(map(type, column)) - _WITHOUT_FLOATS
        if kinds == _FLOAT:
            if not all(map(math.isfinite, filter(None, column))):
                return True
        elif kinds and have_unfinite(column):
            return True
    return False


def have_unfinite(values: Iterable[Any]) -> bool:
    """Whether there is NaN or an infinity in values that orjson writes by itself."""
    for value in values:
        kind = type(value)
        if kind is float:
            if not math.isfinite(value):
                return True
        elif kind not in _WITHOUT_FLOATS and _has_unfinite(value):
            return True
    return False


def _has_unfinite(value: Any) -> bool:
    """Whether there is NaN or an infinity in what orjson writes by itself."""
    kind = type(value)
    if kind in _WITHOUT_FLOATS:
        return False
    if kind is float:
        return not math.isfinite(value)
    if isinstance(value, dict):
        return have_unfinite(value.values())
    if isinstance(value, list | tuple):
        return have_unfinite(value)
    return isinstance(value, Enum) and _has_unfinite(value.value)


_EXACT: dict[type, Callable[[ValueWriter, Any], Any]] = {
    bool: lambda _, value: value,
    int: _integer,
    float: _float,
    str: lambda _, value: checked_text(value),
    dict: lambda writer, value: _object(writer, value.items()),
    list: _list,
    tuple: _list,
    Decimal: _decimal,
    bytes: _bytes,
    datetime: lambda _, value: value.isoformat(),
}
_OTHERS: tuple[tuple[Any, Callable[[ValueWriter, Any], Any]], ...] = (
    (Enum, lambda writer, value: writer.plain(value.value)),
    (str, lambda _, value: checked_text(value)),
    ((bytearray, memoryview, bytes), _bytes),
    (Decimal, _decimal),
    ((datetime, date, time), lambda _, value: value.isoformat()),
    (timedelta, lambda _, value: duration(value)),
    (_AS_STR, lambda _, value: checked_text(str(value))),
    (np.generic, lambda writer, value: writer.plain(scalar(value))),  # np.float64 is a float, too
    (np.ndarray, lambda writer, value: writer.plain(value.tolist())),
    (int, lambda writer, value: _integer(writer, int(value))),
    (float, lambda writer, value: _float(writer, float(value))),
    (BaseModel, lambda writer, value: writer.plain(value.model_dump())),
    (Mapping, lambda writer, value: _object(writer, value.items())),
    (Set, _set),
    ((deque, Sequence), _list),
    (orjson.Fragment, lambda _, value: value),
)


def as_bytes(value: Any) -> bytes:
    """Bytes as they are, and all else as text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return checked_text(DEFAULT.text(value)).encode()
