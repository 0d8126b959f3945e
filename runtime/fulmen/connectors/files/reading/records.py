"""The records of a file of lines: a line each, or several if a value of CSV has line feeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from fulmen.transactional.spouts.lines import without_line_feed

_QUOTE = b'"'


class Record(NamedTuple):
    """One record, by its place in bytes.

    Attributes:
        start: Where it begins.
        end: Where the next one begins.
        data: Its bytes without the line feed; as many as are allowed, if it is longer.
        is_too_long: Whether it is.
    """

    start: int
    end: int
    data: bytes
    is_too_long: bool = False


def records(
    opened: BinaryIO,
    start: int,
    end: int,
    *,
    is_complete: bool,
    has_quotes: bool,
    most_bytes: int,
) -> Iterator[Record]:
    """The records between two places. Nothing else may move the file meanwhile.

    Args:
        opened: The file.
        start: Where a record begins.
        end: Where to stop; the file may end before.
        is_complete: Whether a last record without a line feed is a whole one.
        has_quotes: Whether a line feed between quotes belongs to a value, as in CSV.
        most_bytes: A longer line is too long; a longer record ends with its first line.
    """
    opened.seek(start)
    while start < end:
        line = opened.readline(min(most_bytes + 1, end - start))
        if not line:
            return
        length, is_too_long = len(line), False
        if not line.endswith(b"\n"):
            length, is_whole = _rest_of_line(opened, len(line), end - start)
            is_too_long = length > most_bytes
            if not (is_whole or is_complete):
                return
        elif has_quotes and line.count(_QUOTE) % 2:
            joined, is_over = _joined(opened, line, most_bytes, end - start)
            if joined is not None and (is_complete or joined.endswith(b"\n")):
                line, length = joined, len(joined)
            elif is_over and not is_complete:
                return
            else:  # a quote that is never closed: the format says what is wrong
                opened.seek(start + len(line))
        data = line[:most_bytes] if is_too_long else without_line_feed(line)
        yield Record(start, start + length, data, is_too_long)
        start += length


def _rest_of_line(opened: BinaryIO, length: int, most: int) -> tuple[int, bool]:
    """Read to the end of a line, which may not fit into memory: its length, and if it has ended."""
    while more := opened.readline(min(1 << 16, most - length)):
        length += len(more)
        if more.endswith(b"\n"):
            return length, True
    return length, False


def _joined(opened: BinaryIO, line: bytes, most: int, room: int) -> tuple[bytes | None, bool]:
    """Lines up to that in which the quotes are closed, and whether nothing follows for now."""
    lines, length, quotes = [line], len(line), line.count(_QUOTE)
    while length < most:
        more = opened.readline(min(most, room) - length)
        if not more:
            return None, True
        lines.append(more)
        length += len(more)
        quotes += more.count(_QUOTE)
        is_over = not more.endswith(b"\n")
        if quotes % 2 == 0 and not (is_over and length == most):
            return b"".join(lines), is_over
    return None, False
