"""A table that is asked for the keys that tuples have, and what was asked for of late.

What holds: a chunk of tuples sees the table as of one moment, or what was remembered of it for at
most as long as its options say. What the table says of itself as it changes ends that at once, with
the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import inf
from threading import RLock
from typing import Any

from fulmen.api.keys import has_nan
from fulmen.connectors.base.lookup.kinds import OF_TYPES
from fulmen.connectors.base.lookup.options import LookupOptions
from fulmen.connectors.base.lookup.recent import RecentAnswers
from fulmen.connectors.base.lookup.table import AskedTable, UnreadRow

MOST_KEYS = 100_000
"""The rows of so many keys are remembered."""
Found = list[list[Any]] | str
"""The rows of a key; or why they can't be read."""


class AskedIndex:
    """The rows of a table by their keys, which it is asked for.

    Attributes:
        kinds: Of each part of the key, the kinds that its values can have, as far as it is known.
        loads: How often the table was asked.
    """

    def __init__(
        self, table: AskedTable, options: LookupOptions, clock: Callable[[], float]
    ) -> None:
        """Nothing is asked for yet.

        Args:
            table: The table.
            options: Those of the lookup.
            clock: In seconds.
        """
        self._table, self._options, self._clock = table, options, clock
        self._lock = RLock()
        self._remembered: RecentAnswers[Found] = RecentAnswers(MOST_KEYS)
        self._version: Hashable = None
        self._attempt: str | None = None
        columns = options.columns
        self._key_at = [columns.index(name) for name in options.pairs.values()]
        self._added_at = [columns.index(name) for name in options.added.values()]
        kinds = [OF_TYPES.get(options.types.get(name, "")) for name in options.pairs.values()]
        self.kinds = [{} if kind is None else {kind: None} for kind in kinds]
        self.loads = 0

    @property
    def size(self) -> int:
        """Of how many keys the rows are remembered."""
        return len(self._remembered)

    def begin(self) -> None:
        """A task begins: see that there is a table that can be asked. Nothing is remembered.

        Raises:
            ServiceUnavailable: There is none.
        """
        with self._lock:
            self._attempt = None
            self._remembered.clear()
            self._table.check()

    def of_batch(self, attempt: str) -> AskedIndex:
        """The table, for a batch.

        Args:
            attempt: Identifies the attempt of the batch.

        Raises:
            ServiceUnavailable: It is not there.
        """
        with self._lock:
            if attempt != self._attempt and (version := self._table.version()) != self._version:
                self._remembered.clear()
                self._version = version
            self._attempt = attempt
            return self

    def trouble(self) -> str | None:
        """Nothing: what can't be asked is waited for."""
        return None

    def find(self, key: Sequence[Sequence[Any]]) -> list[Found]:
        """The rows of each key; none of one that is not there, or has null or NaN.

        Args:
            key: The values of each part of it, by columns.

        Raises:
            TypeError: One has no hash.
            ServiceUnavailable: The table can't be asked.
        """
        keys = list(zip(*key, strict=True))
        with self._lock:
            now, found, unknown = self._clock(), {}, []
            for one in dict.fromkeys(keys):
                if (kept := self._remembered.get(one, now)) is not None:
                    found[one] = kept[0]
                elif None not in one and not any(map(has_nan, one)):
                    unknown.append(one)
            if unknown:
                found |= self._asked(unknown, now)
        return [found.get(one, []) for one in keys]

    def _asked(self, keys: Sequence[tuple[Any, ...]], now: float) -> dict[tuple[Any, ...], Found]:
        found: dict[tuple[Any, ...], Found] = {one: [] for one in keys}
        for row in self._table.rows_of(keys):
            if isinstance(row, UnreadRow):
                found[tuple(row.key)] = row.reason
            elif isinstance(rows := found.get(tuple(row[i] for i in self._key_at)), list):
                rows.append([row[i] for i in self._added_at])
        self.loads += 1
        until = inf if self._table.tells_changes else now + self._options.reload_seconds
        for one in keys:
            self._remembered.keep(one, found[one], until)
        return found
