"""Values as PostgreSQL reads them from text, and whole columns of them.

Rows are written as text, which the server turns into the types of the columns. That is as fast as
the binary format, needs no table of types here, and is the same for INSERT and COPY.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import psycopg
from psycopg.adapt import PyFormat, Transformer

from fulmen.connectors.formats import DEFAULT, Malformed, natural
from fulmen.errors import PASSED_ON, error_text, repr_of
from fulmen.transactional.columns import DoesNotFit

Kind = Literal["text", "number", "bytes", "json", "array", "other"]
LIMITS = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}
WRITABLE = 10**4000
"""Python writes integers of 4,300 digits, and no longer ones."""
TAKE_TEXT: tuple[Kind, ...] = ("text", "number", "other")
"""Kinds of columns to which text goes as it is."""
Text = str | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its type, as a cast has it.
        kind: What kind of type.
        exact: Its type with what is in brackets, such as `numeric(6,2)`.
        element: What an array has, as a column.
    """

    name: str
    type: str
    kind: Kind
    exact: str = ""
    element: Column | None = None


def texts(
    column: Column, values: Sequence[Any], refuse: Callable[[int, str], None]
) -> Sequence[Text]:
    """The values of a column as text; None is NULL.

    Args:
        column: The column.
        values: One for each row.
        refuse: Is told of a row whose value does not fit, and why. There is a None for it.
    """
    kinds = set(map(type, values))
    if kinds == {int} and column.kind in ("number", "text"):
        limit = LIMITS.get(column.type, WRITABLE)
        if min(values) >= -limit and max(values) < limit:
            return list(map(str, values))
    elif kinds == {str} and column.kind in TAKE_TEXT and _is_text("".join(values)):
        return values
    found: list[Text] = []
    for i, value in enumerate(values):
        try:
            found.append(text_of(column, value))
        except DoesNotFit as error:
            refuse(i, f"column {column.name!r}: {error}")
            found.append(None)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (of an author's class)
            refuse(i, f"column {column.name!r}: {error_text(error)}")
            found.append(None)
    return found


def text_of(column: Column, value: Any) -> Text:
    """One value as text.

    Raises:
        DoesNotFit: It can't be a value of that column.
    """
    if value is None:
        return None
    try:
        if column.kind == "json":
            return DEFAULT.dumps(value).decode()
        value = natural(value)
        return None if value is None and column.kind != "text" else _text_of(column, value)
    except Malformed as error:
        raise DoesNotFit(str(error)) from None


def _text_of(column: Column, value: Any) -> Text:
    if isinstance(value, bytes) and column.kind == "bytes":
        return "\\x" + value.hex()
    if column.kind == "bytes" or (isinstance(value, bytes) and column.kind != "text"):
        raise _wrong(column, value)
    if isinstance(value, bool) and column.kind == "number":
        raise _wrong(column, value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        limit = LIMITS.get(column.type)
        if limit is not None and value == value:
            if not -limit <= value < limit:
                raise DoesNotFit(f"{repr_of(value)} is out of the range of {column.type}")
            value = int(value) if int(value) == value else value
        return DEFAULT.text(value)
    if isinstance(value, list | tuple) and column.kind != "text":
        if column.element is None:
            raise _wrong(column, value)
        return _array(column.element, value)
    is_as_everywhere = column.kind == "text" or isinstance(value, str)
    text = DEFAULT.text(value) if is_as_everywhere else _dumped(column, value)
    if not _is_text(text):
        raise DoesNotFit(f"{repr_of(value)} contains the character NUL or a lone surrogate")
    return text


def _array(element: Column, values: Sequence[Any]) -> str:
    """An array. One of JSON has no dimensions, since its values may be lists."""
    found: list[str] = []
    for value in values:
        inner = None if element.kind == "json" else natural(value)
        if isinstance(inner, list | tuple):
            found.append(_array(element, inner))
        else:
            text = text_of(element, value)
            found.append("NULL" if text is None else f'"{_in_quotes(text)}"')
    return "{" + (";" if element.type == "box" else ",").join(found) + "}"


def _is_text(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _dumped(column: Column, value: Any) -> str:
    try:
        data = Transformer().get_dumper(value, PyFormat.TEXT).dump(value)
    except (psycopg.Error, ValueError, TypeError):
        raise _wrong(column, value) from None
    return "" if data is None else bytes(data).decode()


def _wrong(column: Column, value: Any) -> DoesNotFit:
    return DoesNotFit(
        f"{repr_of(value)} is of type {type(value).__name__}, and the column is of type"
        f" {column.type}"
    )


# ---- many of them at once ------------------------------------------------------------------------


def array(values: Sequence[Text]) -> str:
    """A column as one value of type text[]."""
    if not values:
        return "{}"
    if None in values:
        items = ("NULL" if value is None else f'"{_in_quotes(value)}"' for value in values)
        return "{" + ",".join(items) + "}"
    joined = '","'.join(values)  # type: ignore[arg-type]
    if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
        return f'{{"{joined}"}}'
    quoted = '","'.join(_in_quotes(value) for value in values if value is not None)
    return f'{{"{quoted}"}}'


def _in_quotes(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def lines(columns: Sequence[Sequence[Text]]) -> bytes:
    """Rows as COPY reads them."""
    escaped = [_escaped(column) for column in columns]
    rows = map("\t".join, zip(*escaped, strict=True))
    return ("\n".join(rows) + "\n").encode()


def _escaped(column: Sequence[Text]) -> Sequence[str]:
    if None not in column:
        joined = "".join(column)  # type: ignore[arg-type]
        if not any(special in joined for special in _SPECIAL):
            return column  # type: ignore[return-value]
    return ["\\N" if value is None else value.translate(_SPECIAL_TABLE) for value in column]


_SPECIAL = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_SPECIAL_TABLE = str.maketrans(_SPECIAL)
