"""How deep a message is, and how much is in it: looked at before fastavro reads it. Pure.

fastavro reads in C, without looking: a message of 5 kB that is nested 5,000 levels deep ends the
process, eleven bytes are an array of 4e9 nulls, and a decimal of a megabyte takes a minute. No
message of most schemas can be like that, which is known when a schema is. Messages of the others
are gone through first, in Python, without a value being made.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from fulmen.connectors.formats.avro.schemas import Schema, is_decimal
from fulmen.connectors.formats.base import Malformed

MOST_LEVELS = 250
"""Of records, arrays and maps in each other: about as many as can be written as JSON."""
PER_BYTE, AT_LEAST = 16, 10_000
"""Values that there may be for each byte of a message, and in any message."""
LONGEST_DECIMAL = 4_096
"""In bytes, which are some 10,000 digits."""
_NEVER = 1 << 62
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Of values that are always as long."""
_INNER = {"array": "items", "map": "values"}
_RECORDS = ("record", "error")


class _Size(NamedTuple):
    """The least size of the values of a schema, without the items of arrays and maps.

    Attributes:
        bytes: How many they have at least; 0: they never have any.
        excess: How many values they are beyond `PER_BYTE` for each of their bytes, at most.
        levels: How many are in each other.
    """

    bytes: int
    excess: int
    levels: int = 0


def _of_bytes(count: int) -> _Size:
    """The size of a value that has so many bytes, or more."""
    return _Size(count, 1 - PER_BYTE * count)


class BoundedSchema:
    """A schema, and what its messages have to keep to.

    Attributes:
        schema: As fastavro has parsed it.
        names: Its types that have names.
        parts: Of its records, by their ids: the values without bytes, and the types of the others.
        risky_from: Messages of so many bytes, and longer ones, have to be checked.
    """

    def __init__(self, schema: Schema) -> None:
        """Look at a schema that was parsed."""
        given = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
        self.schema, self.names = schema, dict(given)
        self._sizes: dict[int, _Size] = {}
        self.parts: dict[int, tuple[int, list[Schema]]] = {}
        self._begun: set[int] = set()
        self.risky_from = _NEVER
        size = self._size(schema)
        if size.excess > AT_LEAST or size.levels > MOST_LEVELS:
            self.risky_from = 0

    def check(self, data: bytes, at: int) -> None:
        """See that a message keeps to the bounds.

        Raises:
            Malformed: It does not.
        """
        with suppress(IndexError):  # it is too short, which fastavro tells
            _Walk(self, data, at).value(self.schema, 0)

    def _size(self, schema: Schema) -> _Size:
        if isinstance(schema, list):
            kinds = [self._size(one) for one in schema] or [_of_bytes(1)]
            excess, levels = max(k.excess for k in kinds), max(k.levels for k in kinds)
            return _Size(1, excess - PER_BYTE, levels)
        if isinstance(schema, str):
            if schema not in self.names:
                return _of_bytes(_BYTES.get(schema, 1))
            schema = self.names[schema]
        if (found := self._sizes.get(id(schema))) is not None:
            return found
        if id(schema) in self._begun:  # it is within itself
            self.risky_from = 0
            return _of_bytes(1)
        self._begun.add(id(schema))
        if "name" in schema:
            self.names[schema["name"]] = schema
        self._sizes[id(schema)] = made = self._of_type(schema, schema["type"])
        return made

    def _of_type(self, schema: Schema, kind: Any) -> _Size:
        if not isinstance(kind, str):
            return self._size(kind)
        if kind in _RECORDS:
            types = [field["type"] for field in schema["fields"]]
            sizes = [self._size(one) for one in types]
            empty = sum(size.excess for size in sizes if not size.bytes)
            rest = [one for one, size in zip(types, sizes, strict=True) if size.bytes]
            self.parts[id(schema)] = empty, rest
            levels = 1 + max((size.levels for size in sizes), default=0)
            excess = 1 + sum(size.excess for size in sizes)
            return _Size(sum(size.bytes for size in sizes), excess, levels)
        if kind in _INNER:
            one = self._size(schema[_INNER[kind]])
            if one.excess > PER_BYTE * (kind == "map"):
                self.risky_from = 0
            return _Size(1, 1 - PER_BYTE, 1 + one.levels)
        if is_decimal(schema):
            self.risky_from = min(self.risky_from, LONGEST_DECIMAL)
        return _of_bytes(schema["size"] if kind == "fixed" else _BYTES.get(kind, 1))


class _Walk:
    """Goes through a message."""

    def __init__(self, of: BoundedSchema, data: bytes, at: int) -> None:
        self._of, self._data, self._at = of, data, at
        self._left = self._most = AT_LEAST + PER_BYTE * len(data)

    def value(self, schema: Schema, level: int) -> None:
        """Go on behind a value.

        Raises:
            Malformed: It is beyond the bounds.
            IndexError: The message ends before.
        """
        kind, schema = self._kind(schema)
        if level > MOST_LEVELS:
            raise Malformed(f"it is nested more than {MOST_LEVELS} levels deep")
        self._spend(1)
        if kind in _RECORDS:
            empty, rest = self._of.parts[id(schema)]
            self._spend(empty)
            for one in rest:
                self.value(one, level + 1)
        elif kind in _INNER:
            self._items(schema[_INNER[kind]], kind, level)
        elif kind in ("bytes", "string", "fixed"):
            length = schema["size"] if kind == "fixed" else self._long()
            if is_decimal(schema) and length > LONGEST_DECIMAL:
                raise Malformed(f"it has a decimal of {length:,} bytes")
            self._skip(length)
        elif kind in _BYTES:
            self._skip(_BYTES[kind])
        else:
            self._long()

    def _kind(self, schema: Schema) -> tuple[str, Schema]:
        """The type that comes, behind names and unions."""
        while True:
            if isinstance(schema, list):
                chosen = self._long()
                if chosen < 0:  # fastavro would count from the end
                    raise Malformed(f"a union has no type {chosen}")
                schema = schema[chosen]
            elif isinstance(schema, str):
                if schema not in self._of.names:
                    return schema, schema
                schema = self._of.names[schema]
            elif isinstance(schema["type"], str) and schema["type"] not in self._of.names:
                return schema["type"], schema
            else:
                schema = schema["type"]

    def _items(self, schema: Schema, kind: str, level: int) -> None:
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # how many bytes they are
            at, left = self._at, self._left
            for _ in range(count):
                if kind == "map":
                    self._skip(self._long())
                self.value(schema, level + 1)
                if self._at == at:  # without bytes, and so are all others
                    self._spend((count - 1) * (left - self._left))
                    break

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise Malformed(
                f"it says that it has more than {self._most:,} values, in {len(self._data):,} bytes"
            )

    def _long(self) -> int:
        data, at, shift, number = self._data, self._at, 0, 0
        while (byte := data[at]) & 128:
            number |= (byte & 127) << shift
            shift += 7
            at += 1
        number |= byte << shift
        if number >> 64 or shift > 63:  # fastavro would take some of its bits
            raise Malformed("a number in it has more than 64 bits")
        self._at = at + 1
        return (number >> 1) ^ -(number & 1)

    def _skip(self, count: int) -> None:
        if count < 0:
            raise Malformed(f"a value in it has {count} bytes")
        if count > len(self._data) - self._at:
            raise IndexError
        self._at += count
