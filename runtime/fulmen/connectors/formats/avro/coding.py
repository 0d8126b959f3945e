"""Messages in Confluent's wire format: the byte 0, four bytes of the schema's id, and Avro.

A schema is looked up once. After that a message costs a look into a dict, and fastavro.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import fastavro
from typing_extensions import override

from fulmen.connectors.formats.avro.exact_values import exactly
from fulmen.connectors.formats.avro.registry import Registry
from fulmen.connectors.formats.avro.schemas import (
    UNFIT,
    Schema,
    check,
    field_names,
    fitted,
    is_record,
    match,
    misfit,
    parsed,
    refuse_cut,
    said,
)
from fulmen.connectors.formats.avro.settings import AvroSettings
from fulmen.connectors.formats.base import Format, Malformed, positions

Values = Sequence[Any]
_HEAD = struct.Struct(">BI")
_MAGIC = 0


class AvroFormat(Format):
    """The message is a value of Avro, with the id of its schema before it.

    Both `decode` and `encoder` may ask the registry, and raise ServiceUnavailable if it is away.
    """

    def __init__(self, options: AvroSettings, fields: Sequence[str] | None = None) -> None:
        """Know what is asked for; the registry is not asked yet.

        Args:
            options: Where schemas are.
            fields: Of the record; empty: all. None: the whole value is one field.
        """
        text = options.given_schema
        self._reader = parsed(text) if text else None
        known = field_names(self._reader) if fields is not None else ()
        self._is_whole = fields is None
        self._named = tuple(fields or ())
        self._picked = self._named or known
        self.fields = self._picked or ("value",)
        self._pick = itemgetter(*self._picked) if self._picked else None
        self._registry = Registry(options)
        self._written: tuple[int, Schema] | None = None

    @override
    def connect(self) -> None:
        self._registry.greet()

    # ---- reading

    @override
    def decode(self, data: bytes) -> list[Any]:
        if len(data) < _HEAD.size or data[0] != _MAGIC:
            raise Malformed("it does not begin with 0 and a schema's id, as Confluent's clients do")
        schema_id = int.from_bytes(data[1 : _HEAD.size], "big")
        writer = self._registry.schemas.get(schema_id) or self._registry.schema(schema_id)
        if len(data) >= writer.risky_from:
            writer.check(data, _HEAD.size)
        body = io.BytesIO(data)
        body.seek(_HEAD.size)
        try:
            value: Any = fastavro.schemaless_reader(body, writer.schema, self._reader)
        except (*UNFIT, fastavro.read.SchemaResolutionError, MemoryError) as error:
            raise Malformed(f"it can't be read with schema {schema_id}: {said(error)}") from None
        if more := len(data) - body.tell():
            raise Malformed(f"it can't be read with schema {schema_id}: {more} bytes are left over")
        if self._pick is None:
            return [value]
        try:
            picked = self._pick(value)
        except (KeyError, TypeError, IndexError):
            raise Malformed(self._missing(value, schema_id)) from None
        return list(picked) if len(self._picked) > 1 else [picked]

    def _missing(self, value: Any, schema_id: int) -> str:
        if not isinstance(value, dict):
            return f"it is {type(value).__name__} in schema {schema_id}, not a record"
        name = next(name for name in self._picked if name not in value)
        return (
            f"schema {schema_id} has no field {name!r}, only {list(value)}: give a `schema` that"
            " has a default for it"
        )

    # ---- writing

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Values], bytes]:
        if self._written is None:
            self._written = self._registry.for_writing()
        _, schema = self._written
        write = _writer(*self._written)
        if self._is_whole or not is_record(schema):
            at = 0 if len(fields) == 1 else positions(self._named or ("value",), fields)[0]
            return lambda values: write(values[at])
        names = self._named or tuple(fields)
        places = positions(names, fields)
        match(schema, names)

        def encode(values: Values) -> bytes:
            return write(dict(zip(names, [values[i] for i in places], strict=True)))

        return encode


def _writer(schema_id: int, schema: Schema) -> Callable[[Any], bytes]:
    """A function that writes one value."""
    head = _HEAD.pack(_MAGIC, schema_id)
    has_dates = "'date'" in str(schema)
    exact = exactly(schema) or _as_it_is
    reads_back = "uuid" in str(schema)  # any text is written as one, and can't be read then

    def write(value: Any) -> bytes:
        try:
            made = exact(value)
            check(made, schema)
        except Malformed:
            made = exact(fitted(value, schema))
            check(made, schema)
        if has_dates:
            refuse_cut(made, schema)
        body = io.BytesIO()
        body.write(head)
        try:
            fastavro.schemaless_writer(body, schema, made)
            if reads_back:
                body.seek(_HEAD.size)
                fastavro.schemaless_reader(body, schema, None)
        except UNFIT as error:
            raise Malformed(misfit(made, schema, error)) from None
        return body.getvalue()

    return write


def _as_it_is(value: Any) -> Any:
    return value
