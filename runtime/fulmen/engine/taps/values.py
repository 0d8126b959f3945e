"""Values as people may see them: masked, without secrets, and not too long.

What each kind of value becomes in JSON is said by `connectors.formats.values`. Containers are cut
before they are converted: a value may be larger than all else in a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID  # noqa: TID251 (a type of values; none is made)

import numpy as np
import orjson

from fulmen import secrets
from fulmen.api.declarer import DEAD_LETTERS
from fulmen.api.times.event_time import LATE
from fulmen.connectors.formats.base import Malformed
from fulmen.connectors.formats.values import DEFAULT
from fulmen.errors import PASSED_ON

MASKED = "***"
MOST_BYTES = 16_000
"""Bytes of a tuple's JSON, beyond which long values are left out."""
_LONG_BYTES = 200
_LONGEST_TEXT = 100_000
"""No more of a text is looked through for secrets."""
_PLAIN = (bool, int, float, Decimal, datetime, date, time, timedelta, UUID, type(None))
_FIELDS_OF_ANOTHER_STREAM = (DEAD_LETTERS, LATE)
"""Streams whose tuples have, in `values`, those of a tuple of the stream in `stream`."""

Names = Callable[[str], Sequence[str]]
"""The fields of a stream of the same component; none if there is no such stream."""


@dataclass(frozen=True)
class Most:
    """Limits of how much of a value is shown.

    Attributes:
        text: Characters of a text.
        items: Elements of a container.
        depth: How deep containers nest.
    """

    text: int
    items: int
    depth: int


TO_SHOW = Most(500, 50, 6)
TO_COMPARE = Most(_LONGEST_TEXT, 1000, 20)


class Mask:
    """Knows what is not to be shown."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def field(self, name: str, value: Any, most: Most = TO_SHOW) -> Any:
        """The value of a field."""
        return MASKED if name in self._names else self._shown(value, most, most.depth)

    def tuple(
        self, stream: str, fields: Sequence[str], values: Sequence[Any], names: Names
    ) -> dict[str, Any]:
        """The values by field, before any of them is masked or cut.

        Those of another tuple, in a dead letter or a late one, are told apart by their fields, too.
        """
        by_field = dict(zip(fields, values, strict=False))
        if stream in _FIELDS_OF_ANOTHER_STREAM:
            inner, of = by_field.get("values"), names(str(by_field.get("stream")))
            if isinstance(inner, list | tuple):
                by_field["values"] = self._named(of, inner)
        return by_field

    def _named(self, fields: Sequence[str], values: Sequence[Any]) -> Any:
        """Values by field. Values whose fields are not known may be secret."""
        if len(fields) == len(values):
            return dict(zip(fields, values, strict=True))
        return MASKED if self._names else values

    def dumps(self, found: Mapping[str, Any]) -> bytes:
        """The values of a tuple as JSON."""
        parts = {_text(name, TO_SHOW): self._json(name, value) for name, value in found.items()}
        if sum(map(len, parts.values())) > MOST_BYTES:
            parts = {
                name: data if len(data) <= _LONG_BYTES else _dumps(f"… ({len(data):,} bytes)")
                for name, data in parts.items()
            }
        return orjson.dumps({name: orjson.Fragment(data) for name, data in parts.items()})

    def _json(self, name: str, value: Any) -> bytes:
        try:
            return _dumps(self.field(name, value))
        except Malformed:  # such as a number with too many digits
            return _dumps(_unshown(value))

    def _shown(self, value: Any, most: Most, depth: int) -> Any:
        try:
            return self._plain(value, most, depth)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (whatever an author's class raises)
            return _unshown(value)

    def _plain(self, value: Any, most: Most, depth: int) -> Any:
        if isinstance(value, str):
            return _text(value, most)
        if isinstance(value, bytes | bytearray | memoryview):
            return _bytes(bytes(value[:_LONGEST_TEXT]), most)
        if type(value) in _PLAIN:
            return _without_secrets(value)
        if isinstance(value, np.ndarray):
            value = _of_array(value, most)
        if (names := _names_of(value)) is not None:
            pairs = zip(names, value, strict=True)
            value = [MASKED if name in self._names else inner for name, inner in pairs]
        if isinstance(value, Mapping):
            return self._mapping(value, most, depth)
        if isinstance(value, Sequence | Set | deque):
            return self._items(value, most, depth)
        return self._shown(_simpler(value), most, depth)

    def _mapping(self, value: Mapping[Any, Any], most: Most, depth: int) -> Any:
        if not depth:
            return "{…}"
        shown = {}
        for key, inner in islice(value.items(), most.items):
            name = _text(key if isinstance(key, str) else DEFAULT.text(key), most)
            masked = name in self._names
            shown[name] = MASKED if masked else self._shown(inner, most, depth - 1)
        if len(value) > most.items:
            shown["…"] = f"{len(value) - most.items:,} more"
        return shown

    def _items(self, value: Any, most: Most, depth: int) -> Any:
        if not depth:
            return "[…]"
        shown = [self._shown(inner, most, depth - 1) for inner in islice(value, most.items)]
        if isinstance(value, Set):  # in an order that is the same in every process
            shown.sort(key=_dumps)
        if len(value) > most.items:
            shown.append(f"… {len(value) - most.items:,} more")
        return shown


def _of_array(value: Any, most: Most) -> Any:
    if value.dtype.names is not None:  # records, which would lose their names
        return [*value[: most.items]] if value.ndim else value[()]
    return value[: most.items].tolist() if value.ndim else value.item()


def _names_of(value: Any) -> Sequence[str] | None:
    """The names of the elements of a named tuple, or of a record of NumPy; None: they have none."""
    if isinstance(value, np.void):
        return value.dtype.names
    names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    return names if isinstance(names, tuple) else None


def _unshown(value: Any) -> str:
    return f"a value of type {type(value).__qualname__} that can't be shown"


def _simpler(value: Any) -> Any:
    """A value of another class as one of those above. Raises Malformed if there is none."""
    plain = DEFAULT.plain(value)
    if isinstance(plain, orjson.Fragment):
        return Decimal(DEFAULT.text(value))
    return plain


def _text(value: str, most: Most) -> str:
    if len(value) > _LONGEST_TEXT:
        safe = secrets.masked(value[:_LONGEST_TEXT])
    else:
        safe = secrets.masked(value)
    if not safe.isascii():
        safe = safe.encode(errors="backslashreplace").decode()
    if len(safe) <= most.text:
        return safe
    return f"{safe[: most.text]}… ({len(value):,} characters)"


def _bytes(data: bytes, most: Most) -> str:
    try:
        return _text(data.decode(), most)
    except UnicodeDecodeError:
        return MASKED if secrets.are_in(data) else _text(DEFAULT.text(data), most)


def _without_secrets(value: Any) -> Any:
    if value is None or not secrets.is_anything_secret():
        return value
    text = DEFAULT.text(value)
    safe = secrets.masked(text)
    return value if safe == text else safe


def _dumps(value: Any) -> bytes:
    return DEFAULT.dumps(value)
