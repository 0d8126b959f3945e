"""Stand-ins for values in hashes of keys, so that values that `==` finds equal go one way.

A value that `value_hash` has no rule for is hashed by its text. Equal values may
have different texts, as one instant in two time zones. So such
a value is replaced by one of which there is only one among equal ones, or by the parts that its
`==` compares; parts that have no hash, such as a set, are refused with the cure.
"""

from __future__ import annotations

from array import array
from collections import UserList, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID  # noqa: TID251 (the type alone)

import numpy as np
from pydantic import BaseModel

from fulmen.engine.keyed.hashing.value_hash import value_hash
from fulmen.errors import PASSED_ON, GroupingError

_MIDNIGHT = datetime(1, 1, 1)  # noqa: DTZ001 (what offsets are taken from has none)
_MODEL_EQ: Any = BaseModel.__eq__
_PLAIN = frozenset({type(None), bool, int, float, str, bytes, bytearray})


def equal_hash(value: Any) -> int:
    """The hash of a value: the same for all values of its type that are equal to it.

    Raises:
        GroupingError: It has none that is the same in every process.
    """
    try:
        hashed = standing_for(value)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's property; or it is nested too deeply)
        hashed = value  # whose text, if it has one, or why not
    return value_hash(hashed)


def standing_for(value: Any) -> Any:
    """The value to hash in place of this one."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return [standing_for(inner) for inner in value]
    for base, stand_in in _STAND_INS.items():
        if isinstance(value, base):
            return stand_in(value)
    parts = _compared_parts(value)
    if parts is None and isinstance(value, Enum):
        parts = _member_parts(value)
    return value if parts is None else [f"{kind.__module__}.{kind.__qualname__}", *parts]


def _instant(value: datetime) -> Any:
    if value.fold:  # which `==` ignores
        value = value.replace(fold=0)
    offset = value.utcoffset()
    plain = datetime.combine(value.date(), value.time())  # a subclass has its text
    return plain if offset is None else plain - _MIDNIGHT - offset


def _time(value: time) -> Any:
    offset = value.utcoffset()
    plain = time(value.hour, value.minute, value.second, value.microsecond)
    return plain if offset is None else datetime.combine(_MIDNIGHT, plain) - _MIDNIGHT - offset


def _range(value: range) -> Any:
    return ["range", len(value), *value[:2]]


def _namespace(value: SimpleNamespace) -> Any:
    return ["namespace", *standing_for(sorted(vars(value).items()))]


def _numpy_duration(value: np.timedelta64) -> Any:
    if np.datetime_data(value)[0] in "YM":  # how long these are is not known
        return ["months", value.astype("timedelta64[M]").item()]
    return value.astype("timedelta64[us]").item()


_STAND_INS: Mapping[type, Callable[[Any], Any]] = {
    tuple: lambda value: standing_for(list(tuple.__iter__(value))),  # such as a NamedTuple
    list: lambda value: standing_for(list.__getitem__(value, slice(None))),
    datetime: _instant,
    date: lambda value: date(value.year, value.month, value.day),
    time: _time,
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    timezone: lambda value: value.utcoffset(None),
    np.datetime64: lambda value: standing_for(value.astype("datetime64[us]").item()),
    np.timedelta64: _numpy_duration,
    UUID: lambda value: UUID(int=value.int),
    range: _range,
    deque: lambda value: ["deque", *standing_for(list(value))],
    UserList: lambda value: ["UserList", *standing_for(list(value))],
    array: lambda value: ["array", *value.tolist()],
    SimpleNamespace: _namespace,
}


def _member_parts(value: Enum) -> list[Any] | None:
    """The name of a member whose text can't be hashed, as its value has none that could be."""
    try:
        equal_hash(value.value)
    except GroupingError:
        return [value.name]
    return None


def _compared_parts(value: Any) -> list[Any] | None:
    """The parts that the `==` of its class compares, if the class has it from a library."""
    kind = type(value)
    if isinstance(value, BaseModel) and kind.__eq__ is _MODEL_EQ:
        extra = value.__pydantic_extra__ or {}
        names = [*kind.model_fields]
        return standing_for([*(getattr(value, n) for n in names), *sorted(extra.items())])  # type: ignore[no-any-return]
    code = getattr(kind.__eq__, "__code__", None)
    if code is None or code.co_filename[:1] != "<":  # an author's own, of which nobody knows
        return None
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        names = [name for name, field in fields.items() if field.compare]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [attribute.name for attribute in kind.__attrs_attrs__ if attribute.eq]
    else:
        return None
    return standing_for([getattr(value, name) for name in names])  # type: ignore[no-any-return]
