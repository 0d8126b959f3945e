"""Rows as a table of text, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from fulmen.visible import visible

WIDEST = 40
"""Characters of a value; of a longer one the beginning is shown."""


def table(fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of a table with a head. Numbers are at the right of their columns."""
    columns = [[name, *(_cell(row[name]) for row in rows)] for name in fields]
    widths = [max(map(len, column)) for column in columns]
    at_right = [rows and all(_is_number(row[name]) for row in rows) for name in fields]
    for line in zip(*columns, strict=True):
        cells = zip(line, widths, at_right, strict=True)
        padded = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells]
        yield "  ".join(padded).rstrip()
    if not rows:
        yield "no rows"


def _cell(value: Any) -> str:
    text = visible(value if isinstance(value, str) else _text(value))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, date | datetime | time) else repr(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
