"""Types for formats that have none: what a text, or a value of JSON, is to be.

The names are those of columns in Parquet, and some that Parquet has no use for.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID  # noqa: TID251 (a type of values; none is made)

from pydantic import TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator

from fulmen.connectors.formats import exact
from fulmen.connectors.formats.base import Malformed
from fulmen.connectors.formats.values import DEFAULT
from fulmen.connectors.formats.written_types import WrittenType, written_type
from fulmen.errors import repr_of
from fulmen.expressions.sql_types import element_name

Kind = Literal[
    "string", "binary", "base64", "bool", "int32", "int64", "integer", "float32", "float64",
    "decimal", "date32", "time", "timestamp", "duration", "uuid", "json",
]  # fmt: skip


def _type(value: Any, plain: ValidatorFunctionWrapHandler) -> Any:
    made = written_type(value)
    return made if isinstance(made, WrittenType) else plain(value)


Type = Annotated[Kind, WrapValidator(_type)]
"""As a topology's file names it: also `timestamp(%d/%m/%Y)`, which becomes a `WrittenType`."""
Convert = Callable[[Any], Any]
Wanted = Sequence[tuple[int, str, Convert]]
"""Positions and names of fields, and what makes values of their types."""
SAMPLES: Mapping[str, Sequence[Any]] = {
    "string": ["text"],
    "binary": [b"bytes"],
    "base64": [b"bytes"],
    "bool": [True],
    "int32": [1],
    "int64": [1],
    "integer": [1],
    "float32": [0.5],
    "float64": [0.5],
    "decimal": [Decimal("0.5")],
    "date32": [date(2000, 1, 1)],
    "time": [time(12), time(12, tzinfo=UTC)],
    "timestamp": [datetime(2000, 1, 1, 12, tzinfo=UTC), datetime(2000, 1, 1, 12)],  # noqa: DTZ001 (has none)
    "duration": [timedelta(1)],
    "uuid": [UUID(int=1)],
    "json": [[{}], {}, [], "text", 1],
}
"""Values of each type. If none of them can be written, that is told before the topology runs."""


def samples_of(kind: str) -> Sequence[Any]:
    """Values of a type, which may be that of a list; of one that is not known: None."""
    if (element := element_name(kind)) is not None:
        return [[one] for one in samples_of(element)]
    return SAMPLES.get(kind, [None])


_BOOLS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
_DURATION = TypeAdapter(timedelta)


def converter(kind: str) -> Convert:
    """A function that makes a value of this type of a text, or of what JSON has. None stays None.

    It raises Malformed for what is none.
    """
    made: Convert = _MADE[kind]
    if isinstance(kind, WrittenType):
        read = kind.read
        made = lambda value: read(_only_text(value))  # noqa: E731

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return made(value)
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
            cure = _cure(value, kind)
            raise Malformed(f"{repr_of(value, 50)} is no {kind}{cure}") from None

    return convert


def _cure(value: Any, kind: str) -> str:
    """Say what such a value of people's files may be meant as."""
    if isinstance(kind, WrittenType):
        return f" in the form {kind.form}"
    if not isinstance(value, str | float):
        return ""
    if kind in ("int32", "int64", "integer") and re.fullmatch(r"\s*[-+]?\d+\.\d*\s*", str(value)):
        return ". Read it as float64, or decimal"
    if kind in ("date32", "time", "timestamp") and re.search(r"\d.*\d", str(value)):
        form = "%H.%M" if kind == "time" else "%d/%m/%Y"
        return f", as ISO 8601 writes it. Say how it is written, such as {kind}({form})"
    return ""


def converters(types: Mapping[str, str], fields: Sequence[str]) -> list[tuple[int, str, Convert]]:
    """The converter of each field that has a type, with its position and its name."""
    return [(i, n, converter(types[n])) for i, n in enumerate(fields) if n in types]


def convert_all(values: list[Any], wanted: Wanted) -> None:
    """Give values the types of their fields.

    Raises:
        Malformed: One is not of its type. Names the field.
    """
    for i, name, convert in wanted:
        try:
            values[i] = convert(values[i])
        except Malformed as error:
            raise Malformed(f"field {name!r}: {error}") from None


def convert_column(values: Sequence[Any], kind: str, convert: Convert) -> Sequence[Any]:
    """The values of a column, each as `convert` makes it; equal texts become one value.

    Args:
        values: One for each row.
        kind: The type.
        convert: What makes a value of it.

    Raises:
        Malformed: One is not of that type.
    """
    found = set(map(type, values)) - {type(None)}
    if found == {_ITSELF.get(kind)} and _are_within(kind, values):
        return values
    if found != {str}:  # equal numbers may be of other types
        return list(map(convert, values))
    texts = dict.fromkeys(values)
    texts.pop(None, None)
    made = _made_at_once(kind, texts)
    if made is None:
        made = list(map(convert, texts))
        if kind == "json" and not {list, dict}.isdisjoint(map(type, made)):  # which can be changed
            return list(map(convert, values))
    if len(made) == len(values):  # no two are equal
        return made
    table: dict[Any, Any] = {None: None}
    table.update(zip(texts, made, strict=True))
    return list(map(table.__getitem__, values))


def _made_at_once(kind: str, texts: Collection[str]) -> list[Any] | None:
    """The values of texts, by what Python has for it; None: one may be another case."""
    make = kind.read if isinstance(kind, WrittenType) else _PYTHONS.get(kind)
    if make is None or "_" in "".join(texts):
        return None
    try:
        made = list(map(make, texts))
    except (ValueError, ArithmeticError):
        return None
    if not _are_within(kind, made) or (kind == "float64" and any(map(math.isinf, made))):
        return None
    return made


def _are_within(kind: str, values: Iterable[Any]) -> bool:
    """Whether whole numbers are within the bounds of their type, if it has any."""
    if kind not in _BOUNDS:
        return True
    least, greatest = _BOUNDS[kind]
    numbers = [value for value in values if value is not None]
    return not numbers or (min(numbers) >= least and max(numbers) <= greatest)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else DEFAULT.text(value)


def _only_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if "_" in _only_text(value):
        raise ValueError(value)
    return int(value)


def _within(least: int, greatest: int) -> Callable[[Any], int]:
    def made(value: Any) -> int:
        number = _integer(value)
        if not least <= number <= greatest:
            raise ValueError(value)
        return number

    return made


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        if int(made := float(value)) != value:
            raise ValueError(value)
        return made
    if "_" in _only_text(value):
        raise ValueError(value)
    made = float(value)
    if math.isinf(made) and "inf" not in value.lower():
        raise ValueError(value)
    return made


def _float32(value: Any) -> float:
    made = _float(value)
    if math.isfinite(made) and abs(made) > LARGEST_FLOAT32:
        raise ValueError(value)
    return made


def _decimal(value: Any) -> Decimal:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    if "_" in _only_text(value):
        raise ValueError(value)
    return Decimal(value)


def _bool(value: Any) -> bool:
    return value if isinstance(value, bool) else _BOOLS[_only_text(value).strip().lower()]


def _duration(value: Any) -> timedelta:
    return _DURATION.validate_python(_only_text(value))


def _json(value: Any) -> Any:
    return exact.document(value.encode()) if isinstance(value, str) else value


_BOUNDS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
_PYTHONS: Mapping[str, Convert] = {
    "int32": int,
    "int64": int,
    "integer": int,
    "float64": float,
    "decimal": Decimal,
    "date32": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
}
"""What makes the same value of a text as `_MADE` does, or raises."""
_ITSELF: Mapping[str, type] = {
    "string": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "integer": int,
    "float64": float,
}
"""Of which Python's type a value is that stays as it is."""
_MADE: dict[str, Convert] = {
    "string": _text,
    "binary": lambda value: _text(value).encode(),
    "base64": lambda value: b64decode(_only_text(value), validate=True),
    "bool": _bool,
    "int32": _within(*_BOUNDS["int32"]),
    "int64": _within(*_BOUNDS["int64"]),
    "integer": _integer,
    "float32": _float32,
    "float64": _float,
    "decimal": _decimal,
    "date32": lambda value: date.fromisoformat(_only_text(value).strip()),
    "time": lambda value: time.fromisoformat(_only_text(value).strip()),
    "timestamp": lambda value: datetime.fromisoformat(_only_text(value).strip()),
    "duration": _duration,
    "uuid": lambda value: UUID(_only_text(value)),
    "json": _json,
}


def _refusal(write: Callable[[Any], Any], samples: Iterable[Any]) -> Malformed | None:
    """Why none of these values can be written. None: one can."""
    refused: Malformed | None = None
    for value in samples:
        try:
            write(value)
        except Malformed as error:
            refused = refused or error
        else:
            return None
    return refused


def misfits(
    types: Mapping[str, str], writers: Iterable[tuple[str, Callable[[Any], Any]]]
) -> Iterator[str]:
    """Yield the mistakes of fields that are written and whose types are known.

    Args:
        types: Those that are known.
        writers: The fields that are written, each with what raises Malformed for a value that can't
            be.
    """
    for name, write in writers:
        if (kind := types.get(name)) is None:
            continue
        if (error := _refusal(write, samples_of(kind))) is not None:
            wanted = str(error).partition(" is no ")[2].partition(".")[0]
            if wanted in SAMPLES:
                cure = f"Give it that type where it is read: `fields: {{{name}: {wanted}}}`"
                yield f"field {name!r} is {kind}, which is no {wanted}. {cure} of the format"
            else:
                cure = "Give it another type where it is read, in `fields` of the format"
                yield f"field {name!r} is {kind}, which does not fit: {error}. {cure}"
