"""Rows in the state as batches have brought them, and not one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fulmen.windows.disk import is_on_disk, on_disk
from fulmen.windows.joins.row_block import Piece, RowBlock

Of = tuple[Any, ...]
"""Begins the keys of the state that a group has; a number of the batch ends them."""

BEFORE_BATCHES = 1 << 40
"""Taken off the numbers of what was in memory, and is on disk now: no batch has such a number."""


@dataclass(eq=False, slots=True)
class RowGroup:
    """Rows that are forgotten together.

    Attributes:
        of: The owner of the rows.
        brought: The rows of this batch.
        written: Their keys in the state.
    """

    of: Of
    brought: list[Any] = field(default_factory=list)
    written: list[Of] = field(default_factory=list)


class RowLog:
    """Rows that a task keeps: (*of, n) -> all rows that a batch has brought to a group.

    An entry for each row would cost more than all other work with it. So that an entry can be
    divided among other tasks, the second element of each row is its key, or `of` has the key of all
    as its second element: see `StatefulBolt.state_part`, "rows".
    """

    def __init__(self, state: MutableMapping[Any, Any]) -> None:
        self._state = state
        self._disk = on_disk(state) if is_on_disk(state) else None
        self._changed: list[RowGroup] = []
        self._next = 0

    def restored(self, *begin: str) -> Iterator[tuple[Of, Of, list[Any]]]:
        """The groups in the state, in order of arrival: key, owner, and rows.

        Args:
            begin: First parts of the keys of groups; other keys are not the log's.
        """
        if self._disk is not None:
            there = [one for first in begin for one in self._disk.items_of(first)]
        else:
            there = [(place, self._state[place]) for place in self._state if place[0] in begin]
        return self._in_order(there)

    def on_disk(self, *of: Any) -> Iterator[tuple[Of, Of, list[Any]]]:
        """A group that is on disk: as `restored`, with the whole key of the group."""
        return self._in_order([] if self._disk is None else self._disk.items_of(*of))

    def _in_order(
        self, there: Iterable[tuple[Of, list[Any]]]
    ) -> Iterator[tuple[Of, Of, list[Any]]]:
        for place, rows in sorted(there, key=lambda one: one[0][-1]):
            self._next = max(self._next, place[-1] + 1)
            yield place, place[:-1], rows

    def add(self, group: RowGroup, row: Any) -> None:
        """A row has come."""
        if not group.brought:
            self._changed.append(group)
        group.brought.append(row)

    def join(self, group: RowGroup, other: RowGroup) -> None:
        """Have all of another group in this one."""
        if other.brought and not group.brought:
            self._changed.append(group)
        group.brought += other.brought
        other.brought = []
        group.written += other.written

    def write(self, group: RowGroup, of: Of, rows: list[Any], pieces: Sequence[Piece] = ()) -> None:
        """Write something that is forgotten with a group; `pieces`: all of it, if at hand."""
        place = (*of, self._next)
        self._next += 1
        self._state[place] = RowBlock(rows, pieces)
        group.written.append(place)

    def end_batch(self) -> None:
        """Write what the batch has brought."""
        for group, rows in self.taken():
            self.write(group, group.of, rows)

    def taken(self) -> Iterator[tuple[RowGroup, list[Any]]]:
        """Take what the batch has brought to each group."""
        changed, self._changed = self._changed, []
        for group in changed:
            if group.brought:
                rows, group.brought = group.brought, []
                yield group, rows

    def forget(self, group: RowGroup) -> None:
        """Forget a group, to which nothing comes any more."""
        group.brought = []
        if self._disk is not None:
            self._disk.forget(group.written)
            return
        for place in group.written:
            del self._state[place]
