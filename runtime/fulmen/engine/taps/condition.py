"""The values that a tuple has to have to be shown, such as `country=DE` and `user.age=7`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fulmen.connectors.formats.values import DEFAULT
from fulmen.errors import FulmenError

LONGEST: Final = 1000
_WORDS: Final = {None: "null", True: "true", False: "false"}


class ConditionError(FulmenError):
    """A condition can't be read."""


@dataclass(frozen=True)
class TapCondition:
    """A condition on a field, or on a member of its value.

    Attributes:
        path: The field, then members of values.
        value: What it has to be, as `fulmen tap` shows it, a text without quotes.
    """

    path: tuple[str, ...]
    value: str

    def is_met(self, row: Mapping[str, Any]) -> bool:
        """Whether a tuple has the value. One that lacks the field or the member has not."""
        value: Any = row
        for name in self.path:
            try:
                value = value[name]
            except (KeyError, TypeError, IndexError):
                return False
        return _is(value, self.value)


def conditions_of(texts: Iterable[str]) -> tuple[TapCondition, ...]:
    """Read `FIELD=VALUE`, each of which a tuple has to meet.

    Raises:
        ConditionError: One can't be read.
    """
    conditions = []
    for text in texts:
        path, equals, value = text.partition("=")
        if not (path and equals) or len(text) > LONGEST:
            raise ConditionError(
                f"{text[:LONGEST]!r} is no condition: write FIELD=VALUE, such as country=DE or"
                f" user.age=7, with at most {LONGEST:,} characters."
            )
        conditions.append(TapCondition(tuple(path.split(".")), value))
    return tuple(conditions)


def _is(value: Any, text: str) -> bool:
    match value:
        case str():
            return value == text
        case None | bool():
            return _WORDS[value] == text
        case int() | float() | Decimal():
            try:
                return bool(value == (float(text) if isinstance(value, float) else Decimal(text)))
            except (ValueError, InvalidOperation):
                return False
    return DEFAULT.text(value) == text
