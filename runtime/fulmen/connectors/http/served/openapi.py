"""Describes calls for programs: OpenAPI 3.1. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fulmen.connectors.http.served.options import EVENTS, LINES, LONGEST_KEY, CallSpoutOptions

_TYPES = {"bool": "boolean", "string": "string", "decimal": "number"}
_NUMBERS = {"int": "integer", "uint": "integer", "float": "number"}
ERRORS = {
    "401": "The token is missing or wrong",
    "422": "The arguments can't be read",
    "429": "Too many calls are open: try again after Retry-After",
    "500": "The call failed; the reason is in `error`",
    "503": "The topology takes no calls now",
    "504": "The call took too long",
}


_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A call that comes again with it is not run again, and gets the same answer",
    "schema": {"type": "string", "maxLength": LONGEST_KEY},
}


def _schema(kind: str) -> Mapping[str, Any]:
    """The JSON schema of a field's type; anything, where JSON has no such type."""
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    number = _NUMBERS.get(kind.rstrip("0123456789"))
    return {"type": number} if number else {}


def description(topology: str, path: str, options: CallSpoutOptions) -> Mapping[str, Any]:
    """The description of one call.

    Args:
        topology: Its topology's name.
        path: Where it is called.
        options: Of its spout.
    """
    fields, arguments = options.format.fields, {}
    if fields:
        types = fields if isinstance(fields, Mapping) else dict.fromkeys(fields, "")
        properties = {name: _schema(kind) for name, kind in types.items()}
        arguments = {"type": "object", "properties": properties}
        arguments |= {"required": [*options.format.required]} if options.format.required else {}
    result: Mapping[str, Any] = {"type": "array"} if options.results == "many" else {}
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    returned = _json(result)
    if options.results == "many":
        part = {"oneOf": [{"required": [name]} for name in ("value", "end", "error")]}
        returned["content"] |= {LINES: {"schema": {"type": "object", **part}}, EVENTS: {}}
    answers = {"200": {"description": "What was returned", **returned}}
    answers |= {status: {"description": text, **_json(error)} for status, text in ERRORS.items()}
    operation: dict[str, Any] = {
        "operationId": path.removeprefix("/"),
        "parameters": [_KEY],
        "requestBody": {"required": True, **_json(arguments)},
        "responses": answers,
    }
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": topology, "version": "1"},
        "paths": {path: {"post": operation}},
    }
    if options.token is not None:
        operation["security"] = [{"token": []}]
        scheme = {"type": "http", "scheme": "bearer"}
        described["components"] = {"securitySchemes": {"token": scheme}}
    return described


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}
