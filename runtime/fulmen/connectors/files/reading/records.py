"""The records of a file of lines: a line each, or several if a value of CSV has ends of lines."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
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


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Records that follow one another, perhaps with others between them that nobody wants.

    Attributes:
        starts: Where each begins.
        data: The bytes of each, as of `Record`.
        end: Where the next one behind them begins.
        too_long: The numbers of those that are too long.
    """

    starts: Sequence[int]
    data: Sequence[bytes]
    end: int
    too_long: frozenset[int] = frozenset()

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordBlock:
        """The block of these records."""
        starts, ends, data, _ = zip(*records, strict=True)
        too_long = frozenset(i for i, record in enumerate(records) if record.is_too_long)
        return cls(starts, data, ends[-1], too_long)

    @classmethod
    def joined(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """The block of all that these have."""
        if len(blocks) == 1:
            return blocks[0]
        if any(block.too_long for block in blocks):
            return cls.of([record for block in blocks for record in block.records()])
        starts = list(chain.from_iterable(block.starts for block in blocks))
        data = list(chain.from_iterable(block.data for block in blocks))
        return cls(starts, data, blocks[-1].end)

    def __len__(self) -> int:
        return len(self.starts)

    def records(self) -> Iterator[Record]:
        """Each of them."""
        ends = [*self.starts, self.end][1:]
        for i, (start, end, data) in enumerate(zip(self.starts, ends, self.data, strict=True)):
            yield Record(start, end, data, i in self.too_long)

    def part(self, first: int, end: int) -> RecordBlock:
        """Those of the numbers `first` to `end`."""
        behind = self.starts[end] if end < len(self) else self.end
        too_long = frozenset(i - first for i in self.too_long if first <= i < end)
        return RecordBlock(self.starts[first:end], self.data[first:end], behind, too_long)

    def take(self, wanted: Sequence[int]) -> RecordBlock:
        """Those of these numbers, which rise."""
        starts = [self.starts[i] for i in wanted]
        too_long = frozenset(new for new, old in enumerate(wanted) if old in self.too_long)
        return RecordBlock(starts, [self.data[i] for i in wanted], self.end, too_long)

    def begun_at(self, place: int) -> RecordBlock:
        """Those that begin there or later."""
        return self.part(bisect_left(self.starts, place), len(self))


class RecordBlocks:
    """RecordBlocks, cut to as many records as there is room for."""

    def __init__(self, blocks: Iterator[RecordBlock]) -> None:
        self._blocks = blocks
        self._left: RecordBlock | None = None

    def next(self, most: int) -> RecordBlock | None:
        """The next records. None: there are none."""
        block, self._left = self._left or next(self._blocks, None), None
        if block is not None and len(block) > most:
            block, self._left = block.part(0, most), block.part(most, len(block))
        return block


def each_of(blocks: Iterator[RecordBlock]) -> Iterator[Record]:
    """The records of blocks, one by one."""
    for block in blocks:
        yield from block.records()


def blocks(
    opened: io.BufferedIOBase,
    start: int,
    end: int,
    *,
    is_complete: bool,
    quotes: Quotes | None,
    most_bytes: int,
) -> Iterator[RecordBlock]:
    """The records between two places, by blocks. Nothing else may move the file meanwhile.

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
        else iter(_JoinedLines(lines, quotes, is_complete=is_complete, most=most_bytes))
    )


def _lines(
    opened: io.BufferedIOBase,
    start: int,
    end: int,
    *,
    is_complete: bool,
    of_csv: bool,
    most: int,
) -> Iterator[RecordBlock]:
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
        if lines and not dropped and max(map(len, lines)) <= most:
            starts = list(accumulate(map(len, lines), initial=start))
            start = starts.pop()
            yield RecordBlock(starts, lines if of_csv else _without_ends(lines, block), start)
        else:
            some = []
            for line in lines:
                behind = start + dropped + len(line)
                kept = beginning if dropped else line
                some.append(_long(start, behind, kept, most, of_csv=of_csv))
                start, dropped = behind, 0
            if some:
                yield RecordBlock.of(some)
        if len(left) > most + 1:
            beginning = beginning if dropped else left[:most]
            dropped, left = dropped + len(left) - 1, left[-1:]
    if is_complete and left:
        behind = start + dropped + len(left)
        kept = beginning if dropped else left
        yield RecordBlock.of([_long(start, behind, kept, most, of_csv=of_csv)])


def _without_ends(lines: Sequence[bytes], block: bytes) -> Sequence[bytes]:
    """Lines without their line feeds, or carriage returns and line feeds."""
    cut = [line[:-1] for line in lines]
    return [line.removesuffix(b"\r") for line in cut] if b"\r\n" in block else cut


def _long(start: int, end: int, line: bytes, most: int, *, of_csv: bool) -> Record:
    """A line that may be too long for all of its bytes, or with its end only."""
    data = without_line_feed(line)
    if end - start - len(line) + len(data) <= most:
        return Record(start, end, line if of_csv else data)
    return Record(start, end, line[:most], is_too_long=True)


class _JoinedLines:
    """Lines, joined up to that in which quotes are closed.

    If they are never closed, or a record would be no CSV, its first line is one: the format says
    what is wrong with it, and costs no other line. No line is looked at again for each of those
    before it: all lines ahead leave open quotes open, except perhaps the last one.
    """

    def __init__(
        self, blocks: Iterator[RecordBlock], quotes: Quotes, *, is_complete: bool, most: int
    ) -> None:
        self._blocks, self._quotes = blocks, quotes
        self._is_complete, self._most = is_complete, most
        self._waiting: deque[Record] = deque()
        self._ahead: deque[tuple[Record, bool | None]] = deque()
        self._done: list[Record] = []

    def __iter__(self) -> Iterator[RecordBlock]:
        while True:
            if not (self._waiting or self._ahead):
                yield from self._flushed()
                if (block := next(self._blocks, None)) is None:
                    return
                if not block.too_long and self._quotes.are_never_open(block.data, block.starts[0]):
                    cut = [line.rstrip(b"\r\n") for line in block.data]
                    yield RecordBlock(block.starts, cut, block.end)
                    continue
                self._waiting.extend(block.records())
            first = self._ahead.popleft()[0] if self._ahead else self._waiting.popleft()
            if self._opens(first):
                yield from self._look_ahead(first.start)
                if self._is_cut_off(first.start):
                    return
                first = self._closed(first)
            start, end, data, is_too_long = first
            if not is_too_long:
                data = data.removesuffix(b"\n").removesuffix(b"\r")
            self._done.append(Record(start, end, data, is_too_long))

    def _flushed(self) -> Iterator[RecordBlock]:
        """What is done comes before more is read: it is not lost with what can't be unpacked."""
        done, self._done = self._done, []
        if done:
            yield RecordBlock.of(done)

    def _opens(self, line: Record) -> bool:
        if b'"' not in line.data or line.is_too_long:
            return False
        return bool(self._quotes.are_open(line.data, before=False, is_first=line.start == 0))

    def _goes_on(self, start: int) -> bool:
        """Whether quotes that a line has opened are open behind the lines ahead."""
        if not self._ahead:
            return True
        line, is_open = self._ahead[-1]
        return bool(is_open) and line.end - start <= self._most

    def _look_ahead(self, start: int) -> Iterator[RecordBlock]:
        """Look at lines up to one that closes quotes, or is no part of a record."""
        while self._goes_on(start):
            if not self._waiting:
                yield from self._flushed()
                if (block := next(self._blocks, None)) is None:
                    return
                self._waiting.extend(block.records())
            line = self._waiting.popleft()
            is_open = None if line.is_too_long else self._quotes.are_open(line.data, before=True)
            self._ahead.append((line, is_open))

    def _is_cut_off(self, start: int) -> bool:
        """Whether the rest of a record may be still to come."""
        return not self._is_complete and self._goes_on(start)

    def _closed(self, first: Record) -> Record:
        """A record with the lines ahead, if they are the rest of it."""
        if not self._ahead:
            return first
        last, is_open = self._ahead[-1]
        if is_open is not False or last.end - first.start > self._most:
            return first
        data = b"".join([first.data, *(line.data for line, _ in self._ahead)])
        self._ahead.clear()
        return Record(first.start, last.end, data)
