"""Keys that can be found again: NaN is not equal to itself, so what is kept under it is lost.

A dict finds a NaN only by the very object, which no restart keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from itertools import chain
from operator import ne
from typing import Any
from uuid import UUID  # noqa: TID251 (the type alone)

from fulmen.errors import PASSED_ON

NEVER_NAN = frozenset({str, int, bytes, bool, type(None), UUID, date, datetime, time, timedelta})
NOT_EQUAL_TO_ITSELF = (
    "is not equal to itself, since NaN is in it: what is kept under it could never be found again"
)
NAN_CURE = "Use None or a text in place of NaN"
_FLAT = NEVER_NAN | {float}


def has_nan(key: Any) -> bool:
    """Whether a key is NaN, or NaN is in it: a float, a Decimal, NumPy's, NaT."""
    if type(key) in NEVER_NAN:
        return False
    if isinstance(key, tuple | frozenset):
        return any(type(part) not in NEVER_NAN and has_nan(part) for part in key)
    if is_dataclass(key) and not isinstance(key, type):
        return any(has_nan(getattr(key, field.name)) for field in fields(key) if field.compare)
    try:
        return bool(key != key)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's ==; whoever compares tells)
        return False


def unusual(keys: Collection[Any]) -> Collection[Any]:
    """Give none of many keys if they are plain and NaN is in none of them; else all."""
    parts: Callable[[Any], Iterator[Any]] = iter
    kinds = set(map(type, keys))  # in C, as there may be many
    if kinds == {tuple}:
        parts = chain.from_iterable
        kinds = set(map(type, parts(keys)))
    if kinds <= NEVER_NAN or (kinds <= _FLAT and not any(map(ne, parts(keys), parts(keys)))):
        return ()
    return keys


def first_with_nan(keys: Collection[Any]) -> Any:
    """The first of many keys that has NaN in it; None: none has."""
    return next((key for key in unusual(keys) if has_nan(key)), None)
