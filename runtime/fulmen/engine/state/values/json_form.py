"""Keys and values of state as JSON, and back, with their types. Pure.

What JSON knows is as it is: None, True, False, texts, whole numbers of any size, numbers with a
fraction or an exponent (1.0 is not 1), lists, and dicts with texts as keys. Everything else is an
object with one key that begins with "$":

    {"$tuple": [1, "a"]}                 {"$set": [1, 2]}         {"$frozenset": [1]}
    {"$dict": [[1, "a"], [2, "b"]]}      with keys that are no texts, or with one that begins with $
    {"$bytes": "AAE="}                   in base 64
    {"$float": "nan"}                    also "inf", "-inf"
    {"$decimal": "1.50"}                 {"$uuid": "..."}
    {"$datetime": "2026-01-31T12:00:00+01:00"}      {"$date": "2026-01-31"}   {"$time": "12:00:00"}
    {"$timedelta": [days, seconds, microseconds]}

An object of any other class is `{"$shown": "its repr"}`, which can be looked at, and not be read.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID  # noqa: TID251 (the type alone)

from fulmen.errors import repr_of

SHOWN = "$shown"
_PLAIN = (str, int, bool, type(None))


def to_json(value: Any) -> Any:
    """A value as what `json.dumps` writes."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [to_json(one) for one in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: to_json(one) for key, one in value.items()}
        return {"$dict": [[to_json(key), to_json(one)] for key, one in value.items()]}
    written = _WRITTEN.get(kind)
    text = None if written is None else written(value)
    return {SHOWN: repr_of(value)} if text is None else {f"${kind.__name__.lower()}": text}


def has_shown(value: Any) -> bool:
    """Whether something in what `to_json` gave can't be read again."""
    if isinstance(value, dict):
        return SHOWN in value or any(map(has_shown, value.values()))
    return isinstance(value, list) and any(map(has_shown, value))


def from_json(value: Any) -> Any:
    """What `to_json` was given.

    Raises:
        ValueError: It is not in this form; the text says what is wrong.
    """
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if not isinstance(value, dict):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f'{value} is no JSON: write {{"$float": "{value}"}}')
        return value
    tags = [key for key in value if key.startswith("$")]
    if not tags:
        return {key: from_json(one) for key, one in value.items()}
    if len(value) > 1 or tags[0] not in _READ:
        raise ValueError(_why_not(value, tags[0]))
    try:
        return _READ[tags[0]](value[tags[0]])
    except (TypeError, AttributeError, InvalidOperation, OverflowError, binascii.Error) as error:
        raise ValueError(f"{tags[0]}: {value[tags[0]]!r} can't be read ({error})") from error


def _why_not(value: Mapping[str, Any], tag: str) -> str:
    if tag == SHOWN:
        return (
            f"{value[tag]} is an object of a class: it was exported as text, and can't be read."
            " Leave this row out, or set the value by code of the topology"
        )
    if tag in _READ:
        return f"an object with {tag!r} has no other keys"
    return f"{tag!r} is not known. There are: {', '.join(sorted(_READ))}"


def _datetime(value: datetime) -> str | None:
    """ISO 8601; None: of a zone with a name, or the second of two equal times, which it loses."""
    if value.fold or type(value.tzinfo) not in (timezone, type(None)):
        return None
    return value.isoformat()


def _time(value: time) -> str | None:
    return None if value.fold or value.tzinfo is not None else value.isoformat()


def _items(value: Any) -> list[Any]:
    return [to_json(one) for one in value]


_WRITTEN: Mapping[type, Callable[[Any], Any]] = {
    tuple: _items,
    set: _items,
    frozenset: _items,
    bytes: lambda value: base64.b64encode(value).decode(),
    Decimal: str,
    UUID: str,
    datetime: _datetime,
    date: date.isoformat,
    time: _time,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
}


def _pairs(value: Any) -> dict[Any, Any]:
    return {from_json(key): from_json(one) for key, one in value}


def _of(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError("it is no list")
        return kind(from_json(one) for one in value)

    return read


_READ: Mapping[str, Callable[[Any], Any]] = {
    "$tuple": _of(tuple),
    "$set": _of(set),
    "$frozenset": _of(frozenset),
    "$dict": _pairs,
    "$bytes": lambda value: base64.b64decode(value, validate=True),
    "$float": float,
    "$decimal": Decimal,
    "$uuid": UUID,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda value: timedelta(*value),
}
