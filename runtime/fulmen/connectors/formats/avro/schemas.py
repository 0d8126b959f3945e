"""Avro's schemas: read from JSON, and told to people."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, validate

from fulmen.connectors.formats.base import Malformed

Schema = Any
"""What `parsed` returns: fastavro reads it once for all messages."""
UNFIT = (EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What fastavro raises for bytes or values that are not those of a schema."""


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
    except (SchemaParseException, *UNFIT) as error:
        raise ValueError(f"it is no schema of Avro: {said(error)}") from None


def is_record(schema: Schema) -> bool:
    """Whether its values have fields."""
    return isinstance(schema, dict) and schema.get("type") == "record"


def field_names(schema: Schema) -> tuple[str, ...]:
    """The fields of a record; none: it is no record."""
    return tuple(field["name"] for field in schema["fields"]) if is_record(schema) else ()


def fields_without_default(schema: Schema) -> list[str]:
    """The fields of a record that a value must have."""
    return [field["name"] for field in schema["fields"] if "default" not in field]


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


def _told(error: ValidationError) -> str:
    """What does not fit where. Each type of a union has an error of its own."""
    first = error.errors[0]
    wanted = [name_of(one.schema) for one in error.errors if one.field == first.field]
    found = "null" if first.datum is None else f"{type(first.datum).__name__} {first.datum!r:.50}"
    where = f"field {first.field!r}: " if first.field else ""
    return f"{where}{found} is not {' or '.join(dict.fromkeys(wanted))}"


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
    """What an exception says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
