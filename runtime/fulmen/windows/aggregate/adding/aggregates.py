"""The aggregates of a bolt: what they keep of the tuples of a window, and their results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from fulmen.api.components import FailedException
from fulmen.api.times.arrow_times import ColumnTimes, Numbers
from fulmen.errors import repr_of
from fulmen.windows.aggregate.adding.adder import Adder
from fulmen.windows.aggregate.adding.at_once import AT_ONCE, adder_for
from fulmen.windows.aggregate.adding.by_lists import HASHABLE
from fulmen.windows.aggregate.adding.chunk_rows import ChunkRows, FieldValues, Groups, Places
from fulmen.windows.columns import Keys
from fulmen.windows.functions.aggregations import Aggregation, Count
from fulmen.windows.functions.wanted import WantedAggregate

if TYPE_CHECKING:
    import pyarrow as pa


Additions = Sequence[tuple[int, Sequence[Any]]]
"""The number of an aggregate, and what to keep of each key."""


class Aggregates:
    """The aggregates of a bolt, all of which get each tuple."""

    def __init__(self, wanted: Sequence[WantedAggregate]) -> None:
        self._all = [one.aggregation for one in wanted]
        self._fields = [one.field for one in wanted]
        self._bys = [(i, one.by) for i, one in enumerate(wanted) if one.by is not None]
        self._marks = [(i, one.mark) for i, one in enumerate(wanted) if one.mark is not None]
        self._checks = [one.check for one in self._all]
        order = sorted(range(len(wanted)), key=lambda i: self._all[i].in_place)
        self._order = [(i, self._all[i].add) for i in order]  # what may raise comes first
        ways = [AT_ONCE.get(type(one)) for one in self._all]
        self.takes_groups = None not in ways
        """Whether rows can be added by `added`: not if an aggregation is an author's own."""
        self._usual = [way and way.usual for way in ways]
        self._adds = [
            (i, self._all[i], way.lists) for i in order if self.takes_groups and (way := ways[i])
        ]
        self._absorbs = [(i, self._all[i].absorb) for i in order]
        self.only_counts = all(field is None for field in self._fields)
        """Whether each of them only counts tuples, and keeps a number."""
        self.only_count = all(type(one) is Count for one in self._all)
        """Whether each of them counts tuples or values: in whichever order, and parts of them."""
        self._inits = [one.init for one in self._all]
        self._results = [one.result for one in self._all]
        self.results: Callable[[Sequence[Any]], Sequence[Any]] = self._each_result
        """The result of each aggregate, of what is kept."""
        if all(type(one).result is Aggregation.result for one in self._all):
            self.results = itemgetter(slice(len(self._all)))

    def adders(
        self, columns: Mapping[int, pa.Array], places: Places, times: Numbers
    ) -> list[Adder] | None:
        """The adders of rows, one for each aggregate; None: rows must be added one by one."""
        found: list[Adder] = []
        bys = dict(places.bys)
        for i, (one, place) in enumerate(zip(self._all, places.fields, strict=True)):
            column = None if place < 0 else columns[place]
            adder = adder_for(one, column, times, *([columns[bys[i]]] if i in bys else []))
            if adder is None:
                return None
            found.append(adder)
        return found

    def new(self) -> list[Any]:
        """The values to keep before the first tuple."""
        return [init() for init in self._inits]

    def places(self, fields: Sequence[str]) -> Places:
        """The places of the values in a stream's tuples."""
        places = [-1 if field is None else fields.index(field) for field in self._fields]
        bys = [(i, fields.index(by)) for i, by in self._bys]
        return Places(places, bys, [(i, fields.index(mark)) for i, mark in self._marks])

    def values(self, row: Sequence[Any] | Mapping[int, Any], places: Places) -> list[Any]:
        """The value of a tuple for each aggregate; all of them can be added.

        Args:
            row: The tuple's values, by place.
            places: The result of `places` for its stream.

        Raises:
            FailedException: A value can't be added.
        """
        found: list[Any] = []
        for i, (check, place) in enumerate(zip(self._checks, places.fields, strict=True)):
            value = 1 if place < 0 else row[place]
            if place >= 0 and value is not None and (wrong := check(value)) is not None:
                raise FailedException(f"its field {self._fields[i]!r}: {wrong}")
            found.append(value)
        for i, at in places.bys:
            found[i] = None if row[at] is None else (found[i], row[at])
        for i, at in places.marks:
            try:
                hash(found[i])
            except TypeError:
                fields = " or ".join(
                    repr(x) for x in (self._fields[i], dict(self._bys).get(i)) if x
                )
                wrong = f"its field {fields}: {repr_of(found[i])[:80]} is not hashable"
                raise FailedException(wrong) from None
            found[i] = None if found[i] is None or row[at] is None else (found[i], row[at])
        return found

    def chunk_rows(
        self,
        keys: Sequence[Any],
        times: Sequence[int | None],
        columns: Mapping[int, Sequence[Any]],
        places: Places,
    ) -> ChunkRows:
        """The rows of a chunk, with what can be said of their values before they are added.

        Args:
            keys: Their keys, which can be compared and hashed.
            times: Their event times; None: one has none.
            columns: The values for aggregates, by place.
            places: The result of `places` for its stream.
        """
        found = {place: FieldValues(values) for place, values in columns.items()}
        refused: set[int] = set()
        unusual: set[int] = set()
        for place, one, usual in zip(places.fields, self._all, self._usual, strict=True):
            if place >= 0 and usual is not None and not usual.is_column(found[place]):
                for i in _others(columns[place], usual.kinds):
                    (unusual if one.check(columns[place][i]) is None else refused).add(i)
        for _, at in places.bys:
            if not HASHABLE.is_column(found[at]):
                unusual.update(_others(columns[at], HASHABLE.kinds))
        return ChunkRows(keys, times, found, places, refused, unusual - refused)

    def added(self, kept: Sequence[list[Any]], groups: Groups) -> Additions:
        """Add the rows of some keys to what is kept of each in one window.

        Only what is changed in place, which can't fail, is left to `put`. If this raises, nothing
        has changed.
        """
        places, bys = groups.rows.values_at.fields, dict(groups.rows.values_at.bys)
        return [
            (i, add(one, [values[i] for values in kept], groups, places[i], bys.get(i, -1)))
            for i, one, add in self._adds
            if not one.in_place
        ]

    def put(self, kept: Sequence[list[Any]], groups: Groups, additions: Additions) -> None:
        """Finish what `added` has begun."""
        for i, column in additions:
            for values, value in zip(kept, column, strict=True):
                values[i] = value
        places = groups.rows.values_at.fields
        for i, one, add in self._adds:
            if one.in_place:
                add(one, [values[i] for values in kept], groups, places[i], -1)

    def add(self, windows: Sequence[list[Any]], values: Sequence[Any], time: int) -> None:
        """Add the values of a tuple to what is kept. If this raises, nothing has changed.

        Args:
            windows: What is kept of each window; only its aggregates change.
            values: One for each aggregate.
            time: The event time.
        """
        added = [list(kept) for kept in windows]
        for i, add in self._order:
            value = values[i]
            if value is not None:
                for kept in added:
                    kept[i] = add(kept[i], value, time)
        for kept, new in zip(windows, added, strict=True):
            kept[:] = new

    def absorb(self, windows: Sequence[list[Any]], other: Sequence[Any]) -> None:
        """Add what is kept of some tuples to each of some windows. As `add` does."""
        added = [list(kept) for kept in windows]
        for i, absorb in self._absorbs:
            for kept in added:
                more = other[i] if len(added) == 1 else copy.deepcopy(other[i])
                kept[i] = absorb(kept[i], more)
        for kept, new in zip(windows, added, strict=True):
            kept[:] = new

    def merged(self, one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        """Merge what is kept of two windows into one."""
        return [
            aggregation.merge(before, after)
            for aggregation, before, after in zip(self._all, one, other, strict=False)
        ]

    def _each_result(self, kept: Sequence[Any]) -> Sequence[Any]:
        return [result(value) for result, value in zip(self._results, kept, strict=False)]


class ColumnRows(NamedTuple):
    """Rows by their columns.

    Attributes:
        columns: The values for aggregates, by place.
        keys: Their keys.
        times: Their event times.
        values_at: The places of the values for each aggregate.
    """

    columns: Mapping[int, pa.Array]
    keys: Keys
    times: ColumnTimes
    values_at: Places


def _others(values: Sequence[Any], kinds: Set[type]) -> Iterator[int]:
    """The positions of values of other types."""
    return (i for i, value in enumerate(values) if type(value) not in kinds)
