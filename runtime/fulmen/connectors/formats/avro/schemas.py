"""Avro's schemas: read from JSON, and told to people."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, validate

from fulmen.connectors.formats.base import Malformed
from fulmen.connectors.formats.values import DEFAULT, natural

Schema = Any
"""A schema from `parsed`: fastavro reads it once for all messages."""
UNFIT = (EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""Errors of fastavro for bytes or values that do not fit a schema."""


def parsed(text: str, others: Mapping[str, Schema] | None = None) -> Schema:
    """A schema.

    Args:
        text: In JSON.
        others: Schemas that it may refer to, by their full names.

    Raises:
        ValueError: It is not one.
    """
    try:
        return fastavro.parse_schema(json.loads(text), dict(others or {}))
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except UnknownType as error:
        raise ValueError(f"it is no schema of Avro: there is no type {error.name!r}") from None
    except RecursionError:
        raise ValueError("it is no schema of Avro: it is nested too deeply") from None
    except (SchemaParseException, *UNFIT) as error:
        raise ValueError(f"it is no schema of Avro: {said(error)}") from None


def is_record(schema: Schema) -> bool:
    """Whether its values have fields."""
    return isinstance(schema, dict) and schema.get("type") == "record"


def field_names(schema: Schema) -> tuple[str, ...]:
    """The fields of a record; none: it is no record."""
    return tuple(field["name"] for field in schema["fields"]) if is_record(schema) else ()


def field_types(schema: Schema) -> dict[str, Schema]:
    """The schema of each field of a record; none: it is no record."""
    return {one["name"]: one["type"] for one in schema["fields"]} if is_record(schema) else {}


def fields_without_default(schema: Schema) -> list[str]:
    """The fields of a record that a value must have."""
    return [field["name"] for field in schema["fields"] if "default" not in field]


def match(schema: Schema, names: Sequence[str]) -> None:
    """See that rows with these fields can have a schema at all.

    Raises:
        Malformed: A field is not in the schema, or misses there.
    """
    known = field_names(schema)
    if unknown := [name for name in names if name not in known]:
        raise Malformed(
            f"the schema {name_of(schema)} has no field {unknown[0]!r}, only {list(known)}: name"
            " those that are to be written in `fields` of the format"
        )
    if missing := [name for name in fields_without_default(schema) if name not in names]:
        raise Malformed(
            f"the schema {name_of(schema)} has the field {missing[0]!r} without a default, but the"
            f" fields are {list(names)}"
        )


def name_of(schema: Schema) -> str:
    """How people call a schema: the full name of a record, or the type."""
    if isinstance(schema, list):
        return " or ".join(map(name_of, schema))
    if not isinstance(schema, dict):
        return str(schema)
    name = schema.get("name") or name_of(schema["type"])
    return str(schema.get("logicalType") or name)


def check(value: Any, schema: Schema) -> None:
    """See that a value fits: what writes it takes "no" for true, and True for 1.0.

    Raises:
        Malformed: It does not. Names the field and the reason.
    """
    try:
        if validate(value, schema, raise_errors=False):  # else each union takes ten times as long
            return
        validate(value, schema)
    except ValidationError as error:
        raise Malformed(_told(error)) from None
    except UNFIT as error:  # of a logical type
        raise Malformed(misfit(value, schema, error)) from None


def refuse_misfit(value: Any, schema: Schema) -> None:
    """See that a value can be written, if only as what says the same.

    Raises:
        Malformed: It can't.
    """
    value = fitted(value, schema)
    check(value, schema)
    refuse_cut(value, schema)


def refuse_cut(value: Any, schema: Schema) -> None:
    """Refuse a moment for a date: what writes it cuts off the time, without a word.

    Raises:
        Malformed: There is one in the value.
    """
    if is_date(schema) and isinstance(value, datetime):
        raise Malformed(f"datetime {value!r} is not date: it has a time. Emit its `.date()`")
    for name, one, kind in _inside(value, schema):
        try:
            refuse_cut(one, kind)
        except Malformed as error:
            raise Malformed(f"field {name!r}: {error}" if name else str(error)) from None


def _inside(value: Any, schema: Schema) -> list[tuple[str, Any, Schema]]:
    """The parts of a value, each with the name of its field, if it has one, and its schema."""
    if isinstance(schema, list):
        others = any(fits(value, one) and not is_date(one) for one in schema)
        return [] if others else [("", value, one) for one in schema]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record" and isinstance(value, dict):
        fields = schema["fields"]
        return [(field["name"], value.get(field["name"]), field["type"]) for field in fields]
    if kind == "array" and isinstance(value, list | tuple):
        return [("", one, schema["items"]) for one in value]
    if kind == "map" and isinstance(value, dict):
        return [("", one, schema["values"]) for one in value.values()]
    return []


def is_date(schema: Schema) -> bool:
    """Whether its values are days."""
    return isinstance(schema, dict) and schema.get("logicalType") == "date"


def is_decimal(schema: Schema) -> bool:
    """Whether its values are Decimals."""
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


def fitted(value: Any, schema: Schema) -> Any:
    """A value that does not fit as it is, as the schema may have it.

    What only says the same as a simpler value becomes that one, an int a Decimal, and what a
    `string` can't have, such as bytes and UUIDs, becomes text. It is checked afterwards.
    """
    value = natural(value)
    if isinstance(schema, list):
        made = (fitted(value, one) for one in schema)
        fit = (one for one, kind in zip(made, schema, strict=True) if fits(one, kind))
        return next(fit, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record" and isinstance(value, dict):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {k: fitted(v, types[k]) if k in types else v for k, v in value.items()}
    if kind == "array" and isinstance(value, list | tuple):
        return [fitted(one, schema["items"]) for one in value]
    if kind == "map" and isinstance(value, dict):
        return {k: fitted(one, schema["values"]) for k, one in value.items()}
    if is_decimal(schema) and isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    is_text = kind == "string" and not (isinstance(schema, dict) and "logicalType" in schema)
    if is_text and not isinstance(value, bool | int | float | dict | list | tuple | None):
        return DEFAULT.text(value)
    return value


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value may be written as it is, as far as its class says."""
    try:
        return bool(validate(value, schema, raise_errors=False))
    except UNFIT:
        return False


def _told(error: ValidationError) -> str:
    """Say which value does not fit where. Each type of a union has an error of its own."""
    first = error.errors[0]
    wanted = [name_of(one.schema) for one in error.errors if one.field == first.field]
    value = "null" if first.datum is None else f"{type(first.datum).__name__} {first.datum!r:.50}"
    where = f"field {first.field!r}: " if first.field else ""
    return f"{where}{value} is not {' or '.join(dict.fromkeys(wanted))}"


def misfit(value: Any, schema: Schema, error: BaseException) -> str:
    """Why a value can't be written, with the field of a record that it is about."""
    for field in schema["fields"] if is_record(schema) else ():
        body = io.BytesIO()
        try:
            fastavro.schemaless_writer(body, field["type"], value.get(field["name"]))
            body.seek(0)
            fastavro.schemaless_reader(body, field["type"], None)
        except UNFIT as of_field:
            if said(of_field) == said(error):
                return f"field {field['name']!r}: {said(error)}"
    return said(error)


def said(error: BaseException) -> str:
    """The text of an exception, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
