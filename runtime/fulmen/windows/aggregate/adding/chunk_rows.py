"""The rows of a chunk as lists of Python's values, and those of one key among them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from operator import ne
from typing import Any, NamedTuple

from fulmen.windows.inputs import WITH_NAN, plain_types
from fulmen.windows.spans import Span

_NONE = {type(None)}


class FieldValues:
    """The values of one field of a chunk.

    Attributes:
        values: All of them.
        has_none: Whether None is among them.
        kinds: The types of the others; None: some have no hash, or may change.
    """

    __slots__ = ("_is_ordered", "has_none", "kinds", "values")

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        kinds = plain_types(values)
        self.has_none = kinds is None or type(None) in kinds
        self.kinds = None if kinds is None else kinds - _NONE
        self._is_ordered: bool | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether each value is equal to itself, which NaN is not: then there is a greatest one."""
        if self._is_ordered is None:
            self._is_ordered = self.kinds is not None and (
                self.kinds.isdisjoint(WITH_NAN) or not any(map(ne, self.values, self.values))
            )
        return self._is_ordered


class Places(NamedTuple):
    """The places of the values for each aggregate in the tuples of a stream.

    Attributes:
        fields: One for each aggregate; -1: it needs none.
        bys: (number of an aggregate, place of its second field), for those that have one.
        marks: (number of an aggregate, place of the field that says whether its value is taken
            back), for those that have one.
    """

    fields: Sequence[int]
    bys: Sequence[tuple[int, int]]
    marks: Sequence[tuple[int, int]]

    @property
    def all(self) -> set[int]:
        """All places that are needed."""
        return {*self.fields, *(at for _, at in (*self.bys, *self.marks))} - {-1}


class ChunkRows(NamedTuple):
    """The rows of a chunk.

    Attributes:
        keys: Their keys, which can be compared and hashed: a value alone if they are of one field.
        times: The event time of each; None: it has none.
        columns: The values for aggregates, by place.
        values_at: The places of the values for each aggregate.
        refused: The positions of rows with a value that an aggregate refuses.
        unusual: The positions of rows whose values only `Aggregates.add` knows how to add.
    """

    keys: Sequence[Any]
    times: Sequence[int | None]
    columns: Mapping[int, FieldValues]
    values_at: Places
    refused: Collection[int] = ()
    unusual: Collection[int] = ()

    def row(self, i: int) -> Mapping[int, Any]:
        """The values of a row for aggregates, by place."""
        return {place: column.values[i] for place, column in self.columns.items()}

    def apart(self, unusual: Iterable[int]) -> ChunkRows:
        """The same rows, but those at some positions are unusual, too; if there are none: all."""
        more = {*unusual} or range(len(self.keys))
        return ChunkRows(*self[:-1], {*self.unusual, *more})

    def by_key(self, at: Sequence[int] | None) -> Mapping[Any, Sequence[int]]:
        """The positions of each key's rows among those at some positions. None: among all."""
        if at is None and self.keys[0] == ():  # there is no key
            return {(): range(len(self.keys))}
        found: dict[Any, list[int]] = defaultdict(list)
        if at is None:
            for i, key in enumerate(self.keys):
                found[key].append(i)
        else:
            for i in at:
                found[self.keys[i]].append(i)
        return found


class Groups:
    """Rows of a chunk by their keys. All of them have times.

    Attributes:
        rows: The rows of the chunk.
        ats: The positions of the rows of each key, ascending.
    """

    __slots__ = ("_best", "_order", "_slices", "_values", "ats", "rows")

    def __init__(self, rows: ChunkRows, ats: Sequence[Sequence[int]]) -> None:
        self.rows, self.ats = rows, ats
        ends = [0, *accumulate(map(len, ats))]
        self._slices = list(map(slice, ends, ends[1:]))
        is_all = len(ats) == 1 and len(ats[0]) == len(rows.times)
        self._order = None if is_all else [*chain.from_iterable(ats)]
        self._values: dict[int, Sequence[Sequence[Any]]] = {}
        self._best: dict[tuple[int, Any], Sequence[int]] = {}

    def all_values(self, place: int) -> Sequence[Sequence[Any]]:
        """The values of a field in each key's rows."""
        values = self.rows.columns[place].values
        if self._order is None:
            return [values]
        ordered = [values[i] for i in self._order]
        return [ordered[rows] for rows in self._slices]

    def values(self, place: int) -> Sequence[Sequence[Any]]:
        """The values of a field in each key's rows, but for None."""
        if place not in self._values:
            found = self.all_values(place)
            if self.rows.columns[place].has_none:
                found = [
                    [value for value in values if value is not None] if None in values else values
                    for values in found
                ]
            self._values[place] = found
        return self._values[place]

    def with_value(self, place: int) -> Sequence[Sequence[int]]:
        """The positions of each key's rows in which a field is not None. -1: all rows."""
        if place < 0 or not (column := self.rows.columns[place]).has_none:
            return self.ats
        return [[i for i in at if column.values[i] is not None] for at in self.ats]

    def best(self, place: int, choose: Any) -> Sequence[int]:
        """The position of each key's row with the greatest or the least value of a field.

        Of several, it is that of the earliest time, and of these the first.

        Args:
            place: The place of the field, which `is_ordered`.
            choose: Python's `max` or `min`.

        Returns:
            A position for each key; -1: none of its rows has a value.
        """
        if (place, choose) not in self._best:
            time_of: Callable[[int], Any] = self.rows.times.__getitem__
            found = []
            for at, values in zip(self.with_value(place), self.values(place), strict=True):
                if not values:
                    found.append(-1)
                    continue
                best = choose(values)
                if len(values) == 1 or values.count(best) == 1:
                    found.append(at[values.index(best)])
                else:
                    ties = [i for i, value in zip(at, values, strict=True) if value == best]
                    found.append(min(ties, key=time_of))
            self._best[place, choose] = found
        return self._best[place, choose]


class SameWindows(NamedTuple):
    """Rows of a chunk that are in the same windows.

    Attributes:
        spans: The windows.
        at: Their positions; None: all.
    """

    spans: Sequence[Span]
    at: Sequence[int] | None


class WindowGroups(NamedTuple):
    """The rows of a chunk that are in one window.

    Attributes:
        span: The window.
        keys: Their keys.
        groups: The rows of each key.
    """

    span: Span
    keys: Sequence[Any]
    groups: Groups


def in_windows(rows: ChunkRows, places: Sequence[SameWindows]) -> Sequence[WindowGroups]:
    """The rows of each window, by key and in order of arrival."""
    if len(places) == 1:
        [(spans, at)] = places
        by_key = rows.by_key(at)
        keys, groups = [*by_key], Groups(rows, [*by_key.values()])
        return [WindowGroups(span, keys, groups) for span in spans]
    found: dict[Span, dict[Any, list[Sequence[int]]]] = defaultdict(lambda: defaultdict(list))
    for spans, at in places:
        by_key = rows.by_key(at)
        for span in spans:
            for key, some in by_key.items():
                found[span][key].append(some)
    return [
        WindowGroups(span, [*by_keys], Groups(rows, [_joined(ats) for ats in by_keys.values()]))
        for span, by_keys in found.items()
    ]


def _joined(ats: Sequence[Sequence[int]]) -> Sequence[int]:
    return ats[0] if len(ats) == 1 else sorted(chain.from_iterable(ats))
