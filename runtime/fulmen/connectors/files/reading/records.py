"""The records of a file of lines: a line each, or several if a value of CSV has ends of lines."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fulmen.connectors.formats.csv_format import Quotes
from fulmen.connectors.formats.encodings import without_line_feed

CHUNK = 1 << 16


class Record(NamedTuple):
    """One record, by its place in bytes.

    Attributes:
        start: Where it begins.
        end: Where the next one begins.
        data: Its bytes without the end of the line; as many as are allowed, if it is longer.
        is_too_long: Whether it is.
    """

    start: int
    end: int
    data: bytes
    is_too_long: bool = False


def records(
    opened: io.BufferedIOBase,
    start: int,
    end: int,
    *,
    is_complete: bool,
    quotes: Quotes | None,
    most_bytes: int,
) -> Iterator[Record]:
    """The records between two places. Nothing else may move the file meanwhile.

    Which bytes a record has follows from where it begins, so that it can be read again.

    Args:
        opened: The file.
        start: Where a record begins.
        end: Where to stop; the file may end before.
        is_complete: Whether a last record without the end of a line is a whole one.
        quotes: Of CSV: the end of a line between quotes belongs to a value, and a carriage return
            alone ends a line, too. None: lines are records, and end with line feeds.
        most_bytes: A longer line is too long; a longer record ends with its first line.
    """
    lines = _lines(
        opened,
        start,
        end,
        is_complete=is_complete,
        of_csv=quotes is not None,
        most=most_bytes,
    )
    return (
        lines
        if quotes is None
        else _joined(lines, quotes, is_complete=is_complete, most=most_bytes)
    )


def _lines(
    opened: io.BufferedIOBase,
    start: int,
    end: int,
    *,
    is_complete: bool,
    of_csv: bool,
    most: int,
) -> Iterator[Record]:
    """Lines; with their ends, if they are of CSV. Of one that is too long, its beginning."""
    opened.seek(start)
    at, left, beginning, dropped = start, b"", b"", 0
    read: Callable[[int], bytes] = (
        opened.readline
    )  # who wants a single record takes it from the buffer
    while more := read(min(max(CHUNK, len(left)), end - at)):
        at += len(more)
        read = opened.read1  # what comes before a place that can't be unpacked is not lost with it
        block = left + more
        lines = block.splitlines(keepends=True) if of_csv else io.BytesIO(block).readlines()
        # the line feed behind a carriage return may be still to come
        left = b"" if lines[-1].endswith(b"\n") else lines.pop()
        for line in lines:
            behind = start + dropped + len(line)
            if behind - start <= most:
                if not of_csv:
                    line = line.removesuffix(b"\n").removesuffix(b"\r")
                yield Record(start, behind, line)
            else:
                yield _long(start, behind, beginning if dropped else line, most, of_csv=of_csv)
            start, dropped = behind, 0
        if len(left) > most + 1:
            beginning = beginning if dropped else left[:most]
            dropped, left = dropped + len(left) - 1, left[-1:]
    if is_complete and left:
        behind = start + dropped + len(left)
        yield _long(start, behind, beginning if dropped else left, most, of_csv=of_csv)


def _long(start: int, end: int, line: bytes, most: int, *, of_csv: bool) -> Record:
    """A line that may be too long for all of its bytes, or with its end only."""
    data = without_line_feed(line)
    if end - start - len(line) + len(data) <= most:
        return Record(start, end, line if of_csv else data)
    return Record(start, end, line[:most], is_too_long=True)


def _joined(
    lines: Iterator[Record], quotes: Quotes, *, is_complete: bool, most: int
) -> Iterator[Record]:
    """Lines, joined up to that in which quotes are closed.

    If they are never closed, or a record would be no CSV, its first line is one: the format says
    what is wrong with it, and costs no other line. No line is looked at again for each of those
    before it: all lines ahead leave open quotes open, except perhaps the last one.
    """
    ahead: deque[tuple[Record, bool | None]] = deque()
    while (first := ahead.popleft()[0] if ahead else next(lines, None)) is not None:
        start, end, data, is_too_long = first
        if (
            b'"' in data
            and not is_too_long
            and quotes.are_open(data, before=False, is_first=start == 0)
        ):
            while not ahead or (ahead[-1][1] and ahead[-1][0].end - start <= most):
                if (line := next(lines, None)) is None:
                    if not is_complete:
                        return
                    break
                is_open = None if line.is_too_long else quotes.are_open(line.data, before=True)
                ahead.append((line, is_open))
            if ahead and ahead[-1][1] is False and ahead[-1][0].end - start <= most:
                end, data = ahead[-1][0].end, b"".join([data, *(line.data for line, _ in ahead)])
                ahead.clear()
        if not is_too_long:
            data = data.removesuffix(b"\n").removesuffix(b"\r")
        yield Record(start, end, data, is_too_long)
