"""Windows of many keys by columns: what is kept of a key is a row of arrays, and no object.

Rows that come as Arrow are added to all keys of a window at once, and the state writes what has
changed as columns. That holds for windows of numbers that NumPy adds up; where something else comes
to one, it is turned into rows, and stays so until it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np

from fulmen.windows.aggregate.adding.adder import Adder
from fulmen.windows.aggregate.kinds.panes import Kept
from fulmen.windows.columns import WindowRows
from fulmen.windows.spans import Span

MANY_ROWS = 64
"""A window begins as columns if so many rows come at once for each of the windows: fewer are faster
one by one."""
_LARGEST = np.iinfo(np.int64).max


class Table(Protocol):
    """Rows of the state by columns: see `state_tables.StateTable`."""

    values: list[Any]
    there: list[Any]

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    @property
    def keys(self) -> Sequence[Any]:
        """The keys of its rows."""
        ...

    def places(self, keys: Sequence[Any]) -> Any:
        """The places of the rows of these keys, which are about to change."""
        ...


class _Window(NamedTuple):
    """A window, and of which type its keys are."""

    table: Table
    kind: type


class ColumnWindows:
    """Those windows of a task that are columns."""

    def __init__(self, state: Any, is_wanted: bool) -> None:
        """`is_wanted`: whether windows may be columns, as far as options say."""
        self._state = state
        self._new: Callable[..., Table] | None = getattr(state, "table", None)
        self._is_wanted = is_wanted and self._new is not None
        self._windows: dict[Span, _Window] = {}

    def __contains__(self, span: Span) -> bool:
        return span in self._windows

    def __bool__(self) -> bool:
        return bool(self._windows)

    @property
    def count(self) -> int:
        """How many windows there are, those of each key counted."""
        return sum(len(window.table) for window in self._windows.values())

    def takes(self, part: WindowRows, adders: Sequence[Adder]) -> bool:
        """Whether rows can be added to a window that is columns."""
        table, kind = self._windows[part.span]
        return kind is _kind_of(part.keys.values) and all(
            adder.column is not None
            and adder.column == values.dtype.type
            and adder.has_room(values)
            for adder, values in zip(adders, table.values, strict=True)
        )

    def may_begin(self, parts: Sequence[WindowRows], adders: Sequence[Adder]) -> bool:
        """Whether new windows of these rows may be columns."""
        rows = sum(len(part.keys.codes) for part in parts)
        return (
            self._is_wanted
            and rows >= MANY_ROWS * len(parts)
            and all(adder.column is not None for adder in adders)
            and _kind_of(parts[0].keys.values) is not None
        )

    def begin(self, part: WindowRows, adders: Sequence[Adder]) -> None:
        """Make a window columns."""
        assert self._new is not None
        kind = _kind_of(part.keys.values)
        assert kind is not None
        table = self._new(part.span[0], [adder.column for adder in adders])
        self._windows[part.span] = _Window(table, kind)

    def add(self, part: WindowRows, adders: Sequence[Adder]) -> None:
        """Add rows, which it takes, to a window."""
        table, _ = self._windows[part.span]
        places = table.places(part.keys.values)
        for adder, values, there in zip(adders, table.values, table.there, strict=True):
            adder.add_to(values, there, places, part)

    def results(self, span: Span, when: tuple[Any, Any]) -> Iterator[list[Any]]:
        """The rows to emit of a window."""
        keys, columns = self._read(span)
        return map(list, zip(keys, *map(repeat, when), *columns))  # noqa: B905 (`when` is endless)

    def _read(self, span: Span) -> tuple[Sequence[Any], list[list[Any]]]:
        table, _ = self._windows[span]
        n = len(table)
        columns = []
        for values, there in zip(table.values, table.there, strict=True):
            column = values[:n].tolist()
            for i in np.flatnonzero(~there[:n]).tolist():
                column[i] = None
            columns.append(column)
        return table.keys, columns

    def taken_as_rows(self, span: Span) -> dict[Any, Kept]:
        """Take a window out: what is kept of each key."""
        keys, columns = self._read(span)
        self.drop(span)
        return {
            key: [*row, None] for key, row in zip(keys, zip(*columns, strict=True), strict=True)
        }

    def drop(self, span: Span) -> None:
        """Forget a window."""
        if self._windows.pop(span, None) is not None:
            self._state.drop_table(span[0])


def _kind_of(keys: Sequence[Any]) -> type | None:
    """The type of keys that a table can have; None: it can't."""
    kinds = set(map(type, keys))
    if kinds == {str}:
        return str
    are_small = kinds == {int} and -_LARGEST <= min(keys) <= max(keys) <= _LARGEST
    return int if are_small else None
