"""Message ids of one stream in the order of their emits, some of them as ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from typing_extensions import override

LEAST_RANGE = 32
"""Shorter ranges are written out: each one that is kept apart costs as much as so many ids."""
_NUMBER, _NONE = frozenset({int}), type(None)


class IdRuns(Sequence[Any]):
    """Message ids as lists and ranges: a range of any length costs no more than one id.

    Attributes:
        parts: The lists and ranges, none of them empty.
    """

    __slots__ = ("_length", "parts")

    def __init__(self, ids: Sequence[Any] = ()) -> None:
        self.parts: list[list[Any] | range] = []
        self._length = 0
        self.extend(ids)

    def append(self, msg_id: Any) -> None:
        """Add one."""
        self.extend((msg_id,))

    def extend(self, ids: Sequence[Any]) -> None:
        """Add some."""
        if not len(ids):
            return
        self._length += len(ids)
        last = self.parts[-1] if self.parts else None
        if type(ids) is range and ids.step == 1:
            if type(last) is range and last.stop == ids.start:
                self.parts[-1] = range(last.start, ids.stop)
                return
            if len(ids) >= LEAST_RANGE:
                self.parts.append(ids)
                return
        if type(last) is list:
            last.extend(ids)
        else:
            self.parts.append(list(ids))

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.parts)

    @override
    def __getitem__(self, i: Any) -> Any:
        """One id; or a list of those of a slice."""
        if isinstance(i, slice):
            first, end, step = i.indices(self._length)
            return self._some(first, end) if step == 1 else list(self)[i]
        left = range(self._length)[i]
        for part in self.parts:
            if left < len(part):
                return part[left]
            left -= len(part)
        raise IndexError(i)

    def _some(self, first: int, end: int) -> list[Any]:
        some: list[Any] = []
        for part in self.parts:
            if end <= 0:
                break
            if first < len(part):
                some += part[max(first, 0) : end]
            first -= len(part)
            end -= len(part)
        return some


def joined_ids(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """The ids of all parts: as a list, if there is no range among them."""
    if all(type(part) is not range for part in parts):
        return list(chain.from_iterable(parts))
    runs = IdRuns()
    for part in parts:
        runs.extend(part)
    return runs


def runs_of(ids: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """The lists and ranges that ids consist of."""
    return ids.parts if isinstance(ids, IdRuns) else (ids,)


def kinds_of(ids: Sequence[Any]) -> set[type]:
    """The types of ids."""
    kinds: set[type] = set()
    for part in runs_of(ids):
        kinds |= _NUMBER if type(part) is range else set(map(type, part))
    return kinds


def tracked_of(ids: Sequence[Any]) -> Sequence[Any]:
    """The ids without each None, which stands for a tuple that is not tracked."""
    kinds = kinds_of(ids)
    if _NONE not in kinds:
        return ids
    if len(kinds) == 1:
        return []
    return [msg_id for msg_id in ids if msg_id is not None]  # an author's == may raise
