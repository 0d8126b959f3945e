"""The rows of a table by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from sys import getsizeof
from typing import Any

from fulmen.api.keys import NEVER_NAN, has_nan
from fulmen.connectors.base.lookup.disk_rows import DiskRows
from fulmen.connectors.base.lookup.kinds import kind_of
from fulmen.connectors.base.lookup.table import Matches, Rows, TableError

_WEIGHED = 50
_OF_EACH = 250
"""Bytes that each row takes beside its values: its place in the dict, and two lists."""
_MOVED_AT_ONCE = 10_000


def _memory_of(keys: Sequence[Any], rows: Sequence[list[Any]]) -> float:
    """About how much memory rows take, by some of them."""
    step = max(1, len(keys) // _WEIGHED)
    some = [*zip(keys[::step], rows[::step], strict=True)]
    total = sum(_OF_EACH + getsizeof(key) + sum(map(getsizeof, row)) for key, row in some)
    return total * len(keys) / max(1, len(some))


def _can_equal(key: Sequence[Any]) -> bool:
    """Whether a key may equal another one, which null and NaN never do."""
    return None not in key and not any(map(has_nan, key))


class TableIndex:
    """The rows of a table: what is added of each, by its key. It never changes.

    Attributes:
        size: How many rows it has.
        kinds: Of each part of the key, the kinds of its values, each with one of them.
    """

    def __init__(
        self,
        chunks: Iterable[Rows],
        columns: Sequence[str],
        key: Sequence[str],
        added: Sequence[str],
        matches: Matches,
        memory_bytes: int,
    ) -> None:
        """Read the rows.

        Args:
            chunks: Rows of values, one for each of `columns`.
            columns: The columns of the table.
            key: Those of the key.
            added: Those that are added to tuples.
            matches: Which rows of a key count.
            memory_bytes: If the rows need more, they are on disk.

        Raises:
            TableError: It has keys that have no hash.
            OSError: The disk is full, or broken.
        """
        key_at = [columns.index(name) for name in key]
        added_at = [columns.index(name) for name in added]
        self.size = 0
        self.kinds: list[dict[str, Any]] = [{} for _ in key]
        self._rows: dict[Any, list[list[Any]]] = {}
        self._on_disk: DiskRows | None = None
        self._matches = matches
        self._is_single = len(key) == 1
        try:
            needed = 0.0
            for chunk in chunks:
                self.size += len(chunk)
                keys, rows = self._parted(chunk, key_at, added_at)
                if self._on_disk is not None:
                    self._on_disk.add(keys, rows)
                    continue
                self._add(keys, rows)
                needed += _memory_of(keys, rows)
                if needed > memory_bytes:
                    self._move()
            if self._on_disk is not None:
                self._on_disk.finish()
        except BaseException as error:
            if self._on_disk is not None:
                self._on_disk.close()
            if isinstance(error, TypeError):
                raise TableError(
                    "a key is a list or a mapping, which has no hash: it can't be looked up"
                ) from None
            raise

    @property
    def is_on_disk(self) -> bool:
        """Whether it was too large for memory."""
        return self._on_disk is not None

    def _parted(
        self, chunk: Rows, key_at: Sequence[int], added_at: Sequence[int]
    ) -> tuple[Sequence[Any], Sequence[list[Any]]]:
        """The keys of rows, and what is added of them; without keys that nothing equals."""
        key = [[row[i] for row in chunk] for i in key_at]
        made = [[row[i] for i in added_at] for row in chunk]
        types = [set(map(type, column)) for column in key]
        if not all(of_column <= NEVER_NAN - {type(None)} for of_column in types):
            there = [i for i, one in enumerate(zip(*key, strict=True)) if _can_equal(one)]
            key, made = [[column[i] for i in there] for column in key], [made[i] for i in there]
        for column, kinds in zip(key, self.kinds, strict=True):
            has_times = any(issubclass(one, datetime) for one in set(map(type, column)))
            some = column if has_times else {type(value): value for value in column}.values()
            kinds.update({kind_of(value): value for value in some})
        return key[0] if self._is_single else list(zip(*key, strict=True)), made

    def _add(self, keys: Sequence[Any], made: Sequence[list[Any]]) -> None:
        rows = self._rows
        if self._matches == "all":
            for one, row in zip(keys, made, strict=True):
                if one in rows:
                    rows[one].append(row)
                else:
                    rows[one] = [row]
        elif self._matches == "last":
            rows.update(zip(keys, ([row] for row in made), strict=True))
        else:
            for one, row in zip(keys, made, strict=True):
                rows.setdefault(one, [row])

    def _move(self) -> None:
        """Bring the rows from memory to disk."""
        self._on_disk, rows = DiskRows(), self._rows
        while rows:
            some = [rows.popitem() for _ in range(min(len(rows), _MOVED_AT_ONCE))]
            keys = [key for key, of_key in some for _ in of_key]
            self._on_disk.add(keys, [row for _, of_key in some for row in of_key])

    def find(self, key: Sequence[Sequence[Any]]) -> list[Sequence[list[Any]]]:
        """The rows of each key; none of one that is not there, or has null or NaN.

        Args:
            key: The values of each part of it, by columns.

        Raises:
            TypeError: One has no hash.
        """
        keys = key[0] if self._is_single else list(zip(*key, strict=True))
        if self._on_disk is not None:
            return [*self._on_disk.find(keys, self._matches)]
        get = self._rows.get
        return [get(one, ()) for one in keys]
