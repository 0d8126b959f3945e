"""Texts with fields in braces, such as `user:{user}`, in options of connectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Annotated, Any

from pydantic import AfterValidator

from fulmen.connectors.formats.base import Malformed, positions
from fulmen.connectors.formats.values import DEFAULT


def parts_of(template: str) -> list[tuple[str, str | None]]:
    """The texts of a template, each with the field that follows it.

    Raises:
        ValueError: The braces are not those of a template.
    """
    parts = []
    for text, name, form, conversion in Formatter().parse(template):
        if name is not None and (not name.isidentifier() or form or conversion):
            raise ValueError(
                f"{{{name}}} is not the name of a field in braces. Write {{{{ for a brace itself"
            )
        parts.append((text, name))
    return parts


def _checked(template: str) -> str:
    parts_of(template)
    return template


Template = Annotated[str, AfterValidator(_checked)]
"""A text in which `{name}` is replaced by that field of a row; `{{` is a brace."""


def has_fields(template: str) -> bool:
    """Whether a template differs from row to row."""
    return any(name is not None for _, name in parts_of(template))


def filler(
    template: str, fields: Sequence[str], written: Callable[[str], str] = str
) -> Callable[[Sequence[Any]], str]:
    """A function that makes the text for a row. It raises Malformed if a value is null.

    Args:
        template: The text.
        fields: The names of a row's values, in their order.
        written: How the text of a value is written there. It may raise Malformed.

    Raises:
        Malformed: There is no field of a name in braces.
    """
    parts = [
        (text, None if name is None else positions([name], fields)[0])
        for text, name in parts_of(template)
    ]

    if all(at is None for _, at in parts):
        same = "".join(text for text, _ in parts)
        return lambda _values: same

    def fill(values: Sequence[Any]) -> str:
        made = []
        for text, at in parts:
            made.append(text)
            if at is not None:
                value = values[at]
                if value is None:
                    raise Malformed(f"the field {fields[at]!r} is null")
                try:
                    made.append(written(DEFAULT.text(value)))
                except Malformed as error:
                    raise Malformed(f"field {fields[at]!r}: {error}") from None
        return "".join(made)

    return fill
