"""The rows of a table by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Number
from typing import Any, Literal

from fulmen.api.keys import NEVER_NAN, has_nan
from fulmen.connectors.base.lookup.table import Rows, TableError

Matches = Literal["all", "first", "last"]
_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    str: "text",
    bytes: "bytes",
    date: "a date",
}
OF_TYPES: Mapping[str, str] = {
    "string": "text",
    "binary": "bytes",
    "base64": "bytes",
    "bool": "a boolean",
    "int32": "a number",
    "int64": "a number",
    "integer": "a number",
    "float32": "a number",
    "float64": "a number",
    "decimal": "a number",
    "date32": "a date",
}
"""What values of a declared type are, as far as that is sure."""


def kind_of(value: Any) -> str:
    """What a value may equal: values of different kinds never do."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, datetime):
        return f"a time with{'out' if value.tzinfo is None else ''} an offset"
    if isinstance(value, Number):
        return "a number"
    of = next((kind for base, kind in _KINDS.items() if isinstance(value, base)), None)
    return of or f"a {type(value).__name__}"


def _can_equal(key: Sequence[Any]) -> bool:
    """Whether a key may equal another one, which null and NaN never do."""
    return None not in key and not any(map(has_nan, key))


class TableIndex:
    """The rows of a table: what is added of each, by its key. It never changes.

    Attributes:
        size: How many rows it has.
        kinds: Of each part of the key, the kinds of its values.
    """

    def __init__(
        self,
        chunks: Iterable[Rows],
        columns: Sequence[str],
        key: Sequence[str],
        added: Sequence[str],
        matches: Matches,
        most: int,
    ) -> None:
        """Read the rows.

        Args:
            chunks: Rows of values, one for each of `columns`.
            columns: The columns of the table.
            key: Those of the key.
            added: Those that are added to tuples.
            matches: Which rows of a key count.
            most: So many rows it may have.

        Raises:
            TableError: It has more, or keys that have no hash.
        """
        key_at = [columns.index(name) for name in key]
        added_at = [columns.index(name) for name in added]
        self.size = 0
        self.kinds: list[dict[str, None]] = [{} for _ in key]
        self._rows: dict[Any, list[list[Any]]] = {}
        self._is_single = len(key) == 1
        for chunk in chunks:
            self.size += len(chunk)
            if self.size > most:
                raise TableError(
                    f"it has more than {most:,} rows, which each worker would have in memory. Raise"
                    " mostRows if there is room, or make the table smaller"
                )
            self._add(chunk, key_at, added_at, matches)

    def _add(
        self, chunk: Rows, key_at: Sequence[int], added_at: Sequence[int], matches: Matches
    ) -> None:
        key = [[row[i] for row in chunk] for i in key_at]
        made = [[row[i] for i in added_at] for row in chunk]
        types = [set(map(type, column)) for column in key]
        if not all(of_column <= NEVER_NAN - {type(None)} for of_column in types):
            there = [i for i, one in enumerate(zip(*key, strict=True)) if _can_equal(one)]
            key, made = [[column[i] for i in there] for column in key], [made[i] for i in there]
        for column, kinds in zip(key, self.kinds, strict=True):
            has_times = any(issubclass(one, datetime) for one in set(map(type, column)))
            some = column if has_times else {type(value): value for value in column}.values()
            kinds.update(dict.fromkeys(map(kind_of, some)))
        keys = key[0] if self._is_single else list(zip(*key, strict=True))
        rows = self._rows
        try:
            if matches == "all":
                for one, row in zip(keys, made, strict=True):
                    if one in rows:
                        rows[one].append(row)
                    else:
                        rows[one] = [row]
            elif matches == "last":
                rows.update(zip(keys, ([row] for row in made), strict=True))
            else:
                for one, row in zip(keys, made, strict=True):
                    rows.setdefault(one, [row])
        except TypeError:
            raise TableError(
                "a key is a list or a mapping, which has no hash: it can't be looked up"
            ) from None

    def find(self, key: Sequence[Sequence[Any]]) -> list[Sequence[list[Any]]]:
        """The rows of each key; none of one that is not there, or has null or NaN.

        Args:
            key: The values of each part of it, by columns.

        Raises:
            TypeError: One has no hash.
        """
        get = self._rows.get
        keys = key[0] if self._is_single else zip(*key, strict=True)
        return [get(one, ()) for one in keys]

    def misfit(self, key: Sequence[Any]) -> tuple[int, str] | None:
        """Why a key can never be found in a table like this one.

        Returns:
            Which part of the key it is, and what its values are in the table. None: it can be.
        """
        for i, (value, kinds) in enumerate(zip(key, self.kinds, strict=True)):
            if value is not None and kinds and kind_of(value) not in kinds:
                return i, " or ".join(kinds)
        return None
