"""Which rows of a key a join keeps, if a key may have several."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from fulmen.windows.disk import is_on_disk, on_disk
from fulmen.windows.joins.side_rows import Key

Id = tuple[Any, ...]
"""What tells the rows of a key apart."""


class KnownRows:
    """The ids of the rows of each side and key in a state with the keys (side, key, id).

    Those of a state on disk are known of keys that a batch has asked for.
    """

    def __init__(self, state: MutableMapping[Any, Any], sides: Iterable[int]) -> None:
        """`sides`: the sides whose keys may have several rows."""
        self._known: dict[tuple[int, Key], dict[Id, None]] = {}
        self._disk = on_disk(state) if is_on_disk(state) else None
        several = frozenset(sides)
        if several and self._disk is None:
            for side, key, one in state:
                if side in several:
                    self.of(side, key)[one] = None

    def of(self, side: int, key: Key) -> dict[Id, None]:
        """The ids of a side and key; whoever adds or forgets a row changes them."""
        known = self._known.get((side, key))
        if known is None:
            known = self._known[side, key] = {}
            if self._disk is not None:
                there = list(self._disk.keys_of(side, key))
                self._disk.fetch(there)  # their rows: at once it takes a third of the time
                known.update((one, None) for _, _, one in there)
        return known

    def forget(self, side: int, key: Key, one: Id) -> None:
        """A row is not kept any more."""
        known = self.of(side, key)
        known.pop(one, None)
        if not known and self._disk is None:
            del self._known[side, key]

    def end_batch(self) -> None:
        """What is on disk need not be known until it is asked for again."""
        if self._disk is not None:
            self._known = {}
