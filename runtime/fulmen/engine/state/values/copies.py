"""Whether what a restart makes of a value is equal to it. An object without `__eq__` is not."""

from __future__ import annotations

import pickle
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID  # noqa: TID251 (the type alone)

from fulmen.errors import PASSED_ON

BY_VALUE = frozenset(
    {int, str, bytes, bool, float, type(None), UUID, Decimal, date, datetime, time, timedelta}
)
"""Copies of these are equal to them."""
_Shape = tuple[Any, ...] | type


class EqualCopies:
    """Finds it out by making a copy of the first value of each shape."""

    def __init__(self) -> None:
        self._equal: set[_Shape] = set()

    def has(self, value: Any) -> bool:
        """Whether copies of what is like a value are equal to it."""
        shape = _shape(value)
        if shape is None or shape in self._equal:
            return True
        try:
            is_equal = bool(pickle.loads(pickle.dumps(value, 5)) == value)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (it is told when it is written, or where it is compared)
            return True
        if is_equal:
            self._equal.add(shape)
        return is_equal


def _shape(value: Any) -> _Shape | None:
    """The types that decide whether a copy is equal; None: plain values alone."""
    if not isinstance(value, tuple):
        return None if type(value) in BY_VALUE else type(value)
    shapes = tuple(map(_shape, value))
    if type(value) is tuple and not any(shapes):
        return None
    return type(value), shapes
