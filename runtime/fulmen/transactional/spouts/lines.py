"""Whole lines of files, by their places in bytes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

CHUNK = 1 << 16


class Shortened(Exception):
    """A file has fewer bytes than were read of it before."""

    def __init__(self, file: str, size: int, needed: int) -> None:
        super().__init__(file, size, needed)
        self.file = file
        self.size = size
        self.needed = needed

    def __str__(self) -> str:
        return (
            f"file '{self.file}' has {self.size} bytes, but {self.needed} were there before: it was"
            " cut or replaced. Restore it, or give it another name"
        )


def files_of(pattern: str) -> list[str]:
    """The files that a pattern with `*`, `?`, `[a-z]` and `**` matches, in the order of names."""
    return sorted(path for path in glob.iglob(pattern, recursive=True) if os.path.isfile(path))


@contextmanager
def _opened(file: str, start: int, least: int) -> Iterator[BinaryIO]:
    """A file at a place, which must have so many bytes at least."""
    with open(file, "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if size < least:
            raise Shortened(file, size, least)
        opened.seek(start)
        yield opened


def end_of_lines(file: str, start: int, at_most: int, is_complete: bool) -> int:
    """Where the whole lines end that begin at a place.

    Args:
        file: Its path.
        start: Where the first line begins.
        at_most: How many bytes there may be; the first line may be longer.
        is_complete: Whether a last line without a line feed is a whole one.

    Returns:
        The place behind the last line; `start` if there is no whole one.

    Raises:
        Shortened: The file ends before `start`.
        OSError: The file can't be read.
    """
    with _opened(file, start, start) as opened:
        data = opened.read(at_most)
        if (found := data.rfind(b"\n")) >= 0 and (len(data) == at_most or not is_complete):
            return start + found + 1
        if len(data) < at_most:
            return start + len(data) if is_complete else start
        end = start + len(data)
        while more := opened.read(CHUNK):
            if (found := more.find(b"\n")) >= 0:
                return end + found + 1
            end += len(more)
        return end if is_complete else start


def lines(file: str, start: int, end: int) -> Iterator[str]:
    """The lines between two places, without their line feeds. What is no UTF-8 becomes U+FFFD.

    Raises:
        Shortened: The file ends before `end`.
        OSError: The file can't be read.
    """
    with _opened(file, start, end) as opened:
        for line in raw_lines(opened, start, end):
            yield without_line_feed(line).decode(errors="replace")


def raw_lines(opened: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """The lines of an open file between two places, with their line feeds; the last may lack it."""
    opened.seek(start)
    while start < end and (line := opened.readline(end - start)):
        start += len(line)
        yield line


def without_line_feed(line: bytes) -> bytes:
    """A line without its line feed, or carriage return and line feed."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
