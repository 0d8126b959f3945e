"""Rows by columns: keys, times and windows. Pure.

Results are as if each row was looked at by itself. None: that can't be guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.api.components import FailedException
from fulmen.api.times.arrow_times import ColumnTimes, Mask, Numbers, column_times
from fulmen.api.times.event_time import TimeReader
from fulmen.windows.inputs import LastMoments, are_plain, spans_of, time_or_none
from fulmen.windows.spans import Span, Spans

Positions = npt.NDArray[np.int64]
MOST_PLACES = 64
"""With times in more places, each with windows of its own, single rows are faster."""


class Keys(NamedTuple):
    """The keys of some rows.

    Attributes:
        values: The different keys, in order of arrival; a value alone if a key has one field.
        codes: The number of each row's key.
    """

    values: Sequence[Any]
    codes: Numbers

    def at(self, rows: Positions | None) -> Keys:
        """The keys of the rows at some positions; None: of all."""
        if rows is None:
            return self
        found = pa.array(self.codes[rows]).dictionary_encode()
        return Keys([self.values[i] for i in found.dictionary.to_pylist()], _indices(found))


class ArrowValues:
    """Rows that came as Arrow, as `ChunkValues`. Python has a value for each of theirs."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return zip(*map(self.values, range(self._batch.num_columns)), strict=True)

    def values(self, i: int) -> Sequence[Any]:
        """The values of field number `i`."""
        found: Sequence[Any] = self._batch.column(i).to_pylist()
        return found


def keys_of(columns: Sequence[pa.Array], n: int) -> Keys | None:
    """The keys of `n` rows, which these columns are; None: Python must look at each."""
    fields = [found for column in columns if (found := _of_column(column)) is not None]
    if len(fields) < len(columns):
        return None
    if len(fields) == 1:
        return fields[0]
    codes: Numbers = np.zeros(n, np.int64)
    for field in fields:
        codes = _indices(pa.array(codes * len(field.values) + field.codes).dictionary_encode())
    firsts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(n)[::-1]  # of several the last one stays
    some = [[field.values[i] for i in field.codes[firsts].tolist()] for field in fields]
    return Keys(list(zip(*some, strict=True)) if some else [()], codes)


def _of_column(column: pa.Array) -> Keys | None:
    if pa.types.is_dictionary(column.type):  # which may have a value twice
        column = column.dictionary_decode()
    try:
        found = column.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:
        return None
    values = found.dictionary.to_pylist()
    if not are_plain(values):
        return None  # the tuple of a NaN fails
    if len(set(values)) < len(values):  # 0.0 and -0.0: a window has that which comes first to it
        return None
    return Keys(values, _indices(found))


def _indices(encoded: pa.DictionaryArray) -> Numbers:
    found: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def times_in(column: pa.Array, reader: TimeReader) -> ColumnTimes:
    """The event times of a column."""
    if isinstance(reader, LastMoments):
        ends, usable = times_in(column, reader.ends)
        return ColumnTimes(ends - 1, usable)
    found = column_times(column, reader)
    if found is None:
        read = [time_or_none(value, reader) for value in column.to_pylist()]
        times = np.array([time or 0 for time in read], np.int64)
        found = ColumnTimes(times, np.array([time is not None for time in read], np.bool_))
    return found


def all_at(time: int, n: int) -> ColumnTimes:
    """The times of `n` rows that come together."""
    return ColumnTimes(np.full(n, time, np.int64), np.ones(n, np.bool_))


class WindowRows(NamedTuple):
    """The rows that are in one window.

    Attributes:
        span: The window.
        rows: Their positions; None: all.
        keys: Their keys.
    """

    span: Span
    rows: Positions | None
    keys: Keys


class InWindows(NamedTuple):
    """Rows by their windows.

    Attributes:
        parts: Rows whose windows are all open.
        left: The positions of the others, ascending: rows without a time, late rows, and rows of
            the key of a row that is late for some windows: their order must be kept.
    """

    parts: Sequence[WindowRows]
    left: Sequence[int]


def by_windows(
    times: ColumnTimes, keys: Keys, spans: Spans, is_past: Callable[[int], bool], lateness: int
) -> InWindows | None:
    """Find the windows of rows. None: their times are too far apart.

    Args:
        times: The event times of the rows.
        keys: The keys of the rows.
        spans: Tells the windows of a time.
        is_past: Whether the watermark has reached a time.
        lateness: How long after its end a window takes late rows.
    """
    found = _by_span(times, spans, is_past, lateness)
    if found is None:
        return None
    by_span, is_left, has_some = found
    if has_some.any():
        is_of = np.zeros(len(keys.values), np.bool_)
        is_of[keys.codes[has_some]] = True
        is_left |= is_of[keys.codes]
    parts = []
    for span, mask in by_span.items():
        rows = np.flatnonzero(mask & ~is_left)
        if len(rows):
            at = None if len(rows) == len(mask) else rows
            parts.append(WindowRows(span, at, keys.at(at)))
    return InWindows(parts, np.flatnonzero(is_left).tolist())


def _by_span(
    times: ColumnTimes, spans: Spans, is_past: Callable[[int], bool], lateness: int
) -> tuple[dict[Span, Mask], Mask, Mask] | None:
    """Masks of rows: of each open window, of those that are left, of left ones in some window."""
    by_span: dict[Span, Mask] = {}
    todo = times.usable.copy()
    is_left = ~todo
    has_some = np.zeros(len(todo), np.bool_)
    for _ in range(MOST_PLACES):
        first = int(todo.argmax())
        if not todo[first]:
            return by_span, is_left, has_some
        time = int(times.times[first])
        here: Sequence[Span] = ()
        since, until = time, time + 1
        try:
            here = spans_of(spans, time)
            since, until = spans.same(here)
        except FailedException:  # its row tells
            pass
        near = todo & (times.times >= since) & (times.times < until)
        todo &= ~near
        if here and not is_past(here[0][1]):
            for span in here:
                by_span[span] = by_span[span] | near if span in by_span else near
            continue
        is_left |= near
        if here and not is_past(here[-1][1] + lateness):
            has_some |= near
    return None
