"""Decimals in Avro: each exactly, at the scale of its schema, or refused.

fastavro refuses zeros beyond the scale, and writes `1E+3` into a decimal of four digits, three of
them behind the point, which can't have it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from fulmen.connectors.formats.avro.schemas import Schema, fits, is_decimal, is_record
from fulmen.connectors.formats.base import Malformed

Scale = Callable[[Any], Any]


def scaler(schema: Schema) -> Scale | None:
    """A function that gives each Decimal in a value the scale of its schema.

    It raises Malformed for one that would lose digits, or has too many. What does not fit in
    another way stays as it is.

    Returns:
        None: the schema has no decimals.
    """
    if isinstance(schema, list):
        return _of_union(schema)
    if is_decimal(schema):
        precision = schema.get("precision")
        return _of_decimal(precision, schema.get("scale") or 0) if precision else None
    if is_record(schema):
        return _of_record(schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "array":
        return _of_array(scaler(schema["items"]))
    if kind == "map":
        return _of_map(scaler(schema["values"]))
    return None


def _of_decimal(precision: int, scale: int) -> Scale:
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    last = Decimal(1).scaleb(-scale)

    def refused(value: Decimal, why: str) -> Malformed:
        return Malformed(f"Decimal {value!s:.50} is no decimal({precision},{scale}): {why}")

    def scaled(value: Any) -> Any:
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

    return scaled


def _of_array(one: Scale | None) -> Scale | None:
    if one is None:
        return None

    def scaled(value: Any) -> Any:
        return [one(item) for item in value] if isinstance(value, list | tuple) else value

    return scaled


def _of_map(one: Scale | None) -> Scale | None:
    if one is None:
        return None

    def scaled(value: Any) -> Any:
        return {key: one(item) for key, item in value.items()} if isinstance(value, dict) else value

    return scaled


def _of_record(schema: Schema) -> Scale | None:
    found = {one["name"]: scaler(one["type"]) for one in schema["fields"]}
    inner = {name: one for name, one in found.items() if one}

    def scaled(value: Any) -> Any:
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

    return scaled if inner else None


def _of_union(schema: list[Schema]) -> Scale | None:
    kinds = [(kind, scaler(kind)) for kind in schema]

    def scaled(value: Any) -> Any:
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

    return scaled if any(one for _, one in kinds) else None
