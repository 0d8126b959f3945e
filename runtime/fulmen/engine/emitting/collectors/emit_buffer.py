"""Emits of a task on one stream, until they are sent.

Values are those of the moment of the emit: a list that its author can still change is copied. Most
lists are made for their emit, `collector.emit([word])`, and nobody else holds them: these are kept
as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from fulmen.api.collector import Values
from fulmen.engine.emitting.routes import Routes
from fulmen.engine.state.messages.id_runs import IdRuns
from fulmen.engine.tuples.sizes import rows_bytes
from fulmen.engine.tuples.tuple_rows import TupleRows

_PLAIN = frozenset({list, tuple})
"""The types of values that are kept as they come. Others may be no sequences at all."""


def are_plain(rows: Sequence[Any], width: int) -> bool:
    """Whether all rows, of which there is one at least, are lists or tuples of so many values."""
    kind = type(rows[0])
    if kind not in _PLAIN:
        return False
    # one look at each, as the first look at a row is what takes the time
    if not [None for row in rows if type(row) is not kind or len(row) != width]:
        return True
    return set(map(type, rows)) == _PLAIN and set(map(len, rows)) == {width}


class _Probe:
    """Has a method that is called as `emit` of a collector is."""

    def emit(self, values: Values, stream: str = "", need_task_ids: bool = False) -> int:  # noqa: ARG002
        return getrefcount(values)


def _references_of_emit() -> int:
    """The references to a list that only the emit has; -1 if this Python does not tell."""
    probe = _Probe()
    alone = probe.emit([0])
    values = [0]
    return alone if probe.emit(values) > alone else -1


UNSHARED = _references_of_emit()
"""References to emitted values, counted in a collector's `emit`, if the caller has none left."""


class Buffer:
    """Emits on one stream, in their order.

    A collector adds an emit by itself if it is exactly a list and has `width` values: to `rows` and
    to `origins`. Any other one comes by `append`, and many at once by `extend`.

    Attributes:
        rows: The values of each emit, as lists and tuples that nobody changes; its only value, if
            the buffer `is_single`.
        is_single: Whether all emits are lists of one value. The lists themselves are not kept: a
            bolt that cuts texts into words emits many times as many tuples as it receives.
        origins: For each emit the message id (spouts), or what it is anchored to (bolts): one tuple
            of the chunk at hand by its position, anything else as it was given. As a range: emit
            number i is anchored to the tuple at position i.
        is_placed: Whether `place` tells the origins instead of `append`.
        chosen: Emits whose tasks are known already: emit number -> (subscription number, tasks).
    """

    __slots__ = (
        "_has_others",
        "chosen",
        "is_placed",
        "is_single",
        "origins",
        "routes",
        "rows",
        "width",
    )

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        # -1 is never right: then the slow way explains what is wrong
        self.width = -1 if routes.direct else len(routes.fields)
        self.rows: list[Any] = []
        self.origins: Any = []
        self.is_single = self.is_placed = False
        self.chosen: dict[int, list[tuple[int, list[int]]]] = {}
        self._has_others = False

    def __len__(self) -> int:
        return len(self.rows)

    def append(self, values: Values, origin: Any) -> None:
        """Add an emit of any type, which has as many values as the stream has fields."""
        kind = type(values)
        if self.is_single and kind is not list:
            self._unpack()
        if kind is list:
            values = values[0] if self.is_single else [*values]
        elif kind is not tuple:
            self._has_others = True
        self.rows.append(values)
        if not self.is_placed:
            self.origins.append(origin)

    def extend(self, rows: Sequence[Values], origins: Sequence[Any]) -> None:
        """Add emits, each a list or a tuple of as many values as the stream has fields."""
        self.rows += rows
        if not isinstance(self.origins, IdRuns):
            self.origins = IdRuns(self.origins)
        self.origins.extend(origins)

    def place_rows(self, rows: Sequence[Values], places: Sequence[int]) -> None:
        """Add emits as `extend` does, for the tuples at some positions."""
        if not self.rows and type(places) is range and places.start == 0:
            self.origins = places
        else:
            self.origins = [*self.origins, *places]
        self.rows += rows

    def _unpack(self) -> None:
        """Keep the emits as lists, from now on."""
        if self.is_single:
            self.rows[:] = [[value] for value in self.rows]
            self.is_single = False

    def values(self, i: int) -> Values:
        """The values of emit number `i`."""
        return [self.rows[i]] if self.is_single else self.rows[i]

    def place(self, position: int) -> list[int]:
        """Anchor the emits that have no origin yet to the tuple at a position.

        Those before it have one emit each, if `origins` is still a range.
        """
        rows = self.rows
        if type(self.origins) is range:
            self.origins = [*range(min(position, len(rows)))]
        origins: list[int] = self.origins
        origins += [position] * (len(rows) - len(origins))
        return origins

    def place_last(self, position: int) -> None:
        """Anchor the emits of the last tuple, the one at a position."""
        if type(self.origins) is range and len(self.rows) == position + 1:
            self.origins = range(position + 1)
        else:
            self.place(position)

    def tuple_rows(self) -> TupleRows:
        """The values of each emit."""
        if self.is_single:
            return TupleRows.of_columns([self.rows], "l")
        return TupleRows(self.rows)

    def about_bytes(self, start: int) -> int:
        """About how many bytes the emits from number `start` on take."""
        return rows_bytes(self.rows, start)

    def wrong(self) -> list[int]:
        """Emits whose values are no sequence; collectors look at their length only."""
        if not self._has_others:
            return []
        return [
            i
            for i, values in enumerate(self.rows)
            if isinstance(values, str | bytes) or not isinstance(values, Sequence)
        ]

    def parts(self, kind: Callable[[Any], bool]) -> list[Buffer]:
        """The emits as parts, in their order: the origins of each are all of the kind, or none."""
        kinds = [kind(origin) for origin in self.origins]
        if len(set(kinds)) == 1:
            return [self]
        parts: list[Buffer] = []
        for i, values in enumerate(self.tuple_rows()):
            if not i or kinds[i] != kinds[i - 1]:
                parts.append(Buffer(self.routes))
            if i in self.chosen:
                parts[-1].chosen[len(parts[-1])] = self.chosen[i]
            parts[-1].append(values, self.origins[i])
        return parts

    def remove(self, i: int) -> None:
        """Take emit number `i` out."""
        self._unpack()
        self.rows = [*self.rows]  # what is sent may have the list
        self.origins = [*self.origins]
        del self.rows[i], self.origins[i]
        self.chosen = {k - (k > i): v for k, v in self.chosen.items() if k != i}
