"""Marks of sinks of files: which commit was written last, as names in the folder `.fulmen`.

No folder takes files and a mark in one transaction. So the mark comes first: an empty file whose
name has the task and the commit. Then the rows are written, under a name that follows from the
commit, so that it does no harm to write them again. If a process ends between the two, the mark is
that of the rows at hand, which are written again.

The mark that counts is the newest one. So a process that was superseded, and that writes late,
changes nothing by it. Older ones are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from fulmen.api.components.sinks import Mark
from fulmen.api.marks import Point

FOLDER = ".fulmen"


class MarkFolder(Protocol):
    """A place for files, as far as marks need it. Each method raises ServiceUnavailable."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file, unless there is one of that name."""

    def names(self, prefix: str) -> Sequence[str] | None:
        """The names that begin so, in their order; None: whoever writes may not list them."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, as far as that is allowed."""


class FileMarks:
    """The marks of one task of a sink."""

    def __init__(self, folder: MarkFolder) -> None:
        self._folder = folder
        self._found: Point | None = None
        self._has_looked = False

    def set(self, mark: Mark, later: Collection[Point] = ()) -> None:
        """Have this be the mark, before its rows are written: for the first time, or again.

        Args:
            mark: Of the rows.
            later: The points of rows that come after these, and may be written already.

        Raises:
            StoreMismatch: The folder has neither this mark nor exactly the one before it.
            ServiceUnavailable: The folder is away.
        """
        if not self._has_looked:
            names = self._folder.names(f"{mark.sink}-")
            self._found = mark.previous if names is None else _newest(mark.sink, names)
            if names:
                self._folder.remove(names[:-1])
            self._has_looked = True
        if self._found in later or mark.is_written(*(self._found or (None, None))):
            return
        before, point = self._found, Point(mark.number, mark.tag)
        self._folder.put(_name(mark.sink, point), mark.label.encode())
        self._found = point
        if before is not None:
            self._folder.remove([_name(mark.sink, before)])


def _name(sink: str, point: Point) -> str:
    return f"{sink}-{point.number:010d}-{point.branch}"


def _newest(sink: str, names: Sequence[str]) -> Point | None:
    points = [name.removeprefix(f"{sink}-").partition("-") for name in names]
    return max((Point(int(n), tag) for n, _, tag in points if n.isdecimal()), default=None)
