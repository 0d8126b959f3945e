"""Emits on a stream that has event times: those with a usable one, and those without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.emitting.routes import Chosen, Routes
from fulmen.engine.time.event_times import FoundTimes, newest_by_part
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import GroupingError

Share = tuple[Routes, npt.NDArray[np.int64] | None, TupleRows, Chosen | None]
"""Routes, emit numbers (None: all), the rows that go there, their tasks if chosen already."""


class TimedEmits:
    """Some emits, and what was found of their times.

    Attributes:
        late: Emit number -> why it has no usable time.
        ahead: How many of them are too far ahead of the clock.
        newest: Part of the source -> the newest time.
    """

    def __init__(
        self, routes: Routes, emitted: TupleRows, found: FoundTimes, parts: Sequence[str] | None
    ) -> None:
        self.late, self.ahead = found.wrong, len(found.ahead)
        self._routes = routes
        self._emitted = emitted
        times = found.times
        self._kept: npt.NDArray[np.int64] | None = None  # all
        if self.late:
            mask = np.ones(len(times), np.bool_)
            mask[list(self.late)] = False
            times = times[mask]
            parts = parts and [part for part, is_in in zip(parts, mask, strict=True) if is_in]
            self._kept = np.flatnonzero(mask)
        self.newest: Mapping[str, int] = newest_by_part(times, parts) if len(times) else {}

    def shares(self, chosen: Chosen | None) -> Iterator[Share]:
        """Where they go: those with a time as they were to, the others to the late stream."""
        if self._kept is None:
            yield self._routes, self._kept, self._emitted, chosen
            return
        assert self._routes.late is not None
        if len(self._kept):
            places = {int(old): new for new, old in enumerate(self._kept)}
            some = {places[i]: tasks for i, tasks in (chosen or {}).items() if i in places}
            yield self._routes, self._kept, self._emitted.take(self._kept), some
        gone = sorted(self.late)
        stream = self._routes.stream
        rows: list[list[Any]] = [[stream, list(self._emitted[i]), self.late[i]] for i in gone]
        yield self._routes.late, np.array(gone, np.int64), TupleRows(rows), None

    @staticmethod
    @contextmanager
    def numbered(at: npt.NDArray[np.int64] | None) -> Iterator[None]:
        """An error about one of some emits names it by its number among all."""
        try:
            yield
        except GroupingError as e:
            emission = e.emission if e.emission is None or at is None else int(at[e.emission])
            raise GroupingError(e.reason, emission, e.field) from e
