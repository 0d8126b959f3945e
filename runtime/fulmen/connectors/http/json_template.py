"""JSON values with fields in braces: a text that is only `{name}` becomes the value itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue

from fulmen.connectors.formats import DEFAULT
from fulmen.connectors.formats.base import named, positions
from fulmen.connectors.templates import filler, parts_of

Make = Callable[[Sequence[Any]], Any]


def _checked(value: Any) -> Any:
    for text in _texts(value):
        parts_of(text)
    return value


JsonTemplate = Annotated[JsonValue, AfterValidator(_checked)]
"""Any JSON value, in whose texts `{name}` is replaced by that field of a row."""


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in _texts(one)]


def json_filler(template: Any, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """A function that makes the JSON for a row. It raises Malformed for values that have no form.

    Raises:
        Malformed: There is no field of a name in braces.
    """
    make = _filler(template, fields)
    return lambda values: DEFAULT.dumps(make(values))


def _filler(template: Any, fields: Sequence[str]) -> Make:
    if isinstance(template, dict):
        members = {key: _filler(one, fields) for key, one in template.items()}
        return lambda values: {key: make(values) for key, make in members.items()}
    if isinstance(template, list):
        made = [_filler(one, fields) for one in template]
        return lambda values: [make(values) for make in made]
    if not isinstance(template, str):
        return lambda _values: template
    match parts_of(template):
        case [("", str() as name)]:
            [at] = positions([name], fields)
            plain = named(f"field {name!r}", DEFAULT.plain)
            return lambda values: plain(values[at])
        case _:
            return filler(template, fields)
