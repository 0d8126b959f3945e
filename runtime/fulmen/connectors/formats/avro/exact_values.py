"""Decimals and times in Avro: each exactly as its schema has it, or refused.

fastavro refuses zeros beyond the scale, and writes `1E+3` into a decimal of four digits, three of
them behind the point, which can't have it. It cuts microseconds off for milliseconds, and time
zones for local times, and takes a datetime without one to be of the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from fulmen.connectors.formats.avro.schemas import Schema, fits, is_decimal, is_record
from fulmen.connectors.formats.base import Malformed

Exactly = Callable[[Any], Any]


def exactly(schema: Schema) -> Exactly | None:
    """A function that makes of each Decimal and time in a value what its schema has.

    A Decimal gets the scale, and a datetime without a time zone is one of UTC. It raises Malformed
    for what would lose digits or a time zone, or has too many digits. What does not fit in another
    way stays as it is.

    Returns:
        None: the schema has neither.
    """
    if isinstance(schema, list):
        return _of_union(schema)
    if is_decimal(schema):
        precision = schema.get("precision")
        return _of_decimal(precision, schema.get("scale") or 0) if precision else None
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    if logical.endswith(("-micros", "-millis")):
        return _of_time(logical)
    if is_record(schema):
        return _of_record(schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "array":
        return _of_array(exactly(schema["items"]))
    if kind == "map":
        return _of_map(exactly(schema["values"]))
    return None


def _of_decimal(precision: int, scale: int) -> Exactly:
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    last = Decimal(1).scaleb(-scale)

    def refused(value: Decimal, why: str) -> Malformed:
        return Malformed(f"Decimal {value!s:.50} is no decimal({precision},{scale}): {why}")

    def made_exactly(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        if not value.is_finite():
            raise refused(value, "Avro has numbers alone there")
        try:
            return value.quantize(last, context=context)
        except Inexact:
            raise refused(value, "round it, or give the schema a larger scale") from None
        except InvalidOperation:
            raise refused(value, "it has too many digits for it") from None

    return made_exactly


def _of_time(logical: str) -> Exactly:
    has_zone, in_millis = logical.startswith("timestamp"), logical.endswith("millis")

    def refused(value: datetime | time, why: str) -> Malformed:
        return Malformed(f"{type(value).__name__} {value!s:.50} is no {logical}: {why}")

    def made_exactly(value: Any) -> Any:
        if not isinstance(value, datetime | time):
            return value
        if (in_millis and value.microsecond % 1000) or getattr(value, "nanosecond", 0):
            raise refused(value, "round it, or give the schema micros")
        if value.tzinfo is None and has_zone:
            return value.replace(tzinfo=UTC)
        if value.tzinfo is not None and not has_zone:
            raise refused(value, "its time zone would be lost")
        return value

    return made_exactly


def _of_array(one: Exactly | None) -> Exactly | None:
    if one is None:
        return None

    def made_exactly(value: Any) -> Any:
        return [one(item) for item in value] if isinstance(value, list | tuple) else value

    return made_exactly


def _of_map(one: Exactly | None) -> Exactly | None:
    if one is None:
        return None

    def made_exactly(value: Any) -> Any:
        return {key: one(item) for key, item in value.items()} if isinstance(value, dict) else value

    return made_exactly


def _of_record(schema: Schema) -> Exactly | None:
    by_field = {one["name"]: exactly(one["type"]) for one in schema["fields"]}
    inner = {name: one for name, one in by_field.items() if one}

    def made_exactly(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = dict(value)
        for name, one in inner.items():
            if name in made:
                try:
                    made[name] = one(made[name])
                except Malformed as error:
                    raise Malformed(f"field {name!r}: {error}") from None
        return made

    return made_exactly if inner else None


def _of_union(schema: list[Schema]) -> Exactly | None:
    kinds = [(kind, exactly(kind)) for kind in schema]

    def made_exactly(value: Any) -> Any:
        refusal = None
        for kind, one in kinds:
            try:
                made = one(value) if one else value
            except Malformed as error:
                refusal = refusal or error
                continue
            if fits(made, kind):
                return made
        if refusal:
            raise refusal
        return value

    return made_exactly if any(one for _, one in kinds) else None
