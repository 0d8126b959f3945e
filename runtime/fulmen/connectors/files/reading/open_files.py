"""Files that a spout has open: while they are read, and while messages of them are in flight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from fulmen.connectors.files.places.local import (
    Changed,
    OpenedFile,
    check_same,
    longer_head,
    tail_of,
)
from fulmen.connectors.files.positions import FoundFile, Position, Positions

OPEN_FILES = 64


class OpenFiles:
    """Open files by their numbers; those that were used least lately come first."""

    def __init__(self, open_one: Callable[[Position], OpenedFile], positions: Positions) -> None:
        self._open_one, self._positions = open_one, positions
        self._opened: OrderedDict[int, OpenedFile] = OrderedDict()

    def __iter__(self) -> Iterator[int]:
        return iter(self._opened)

    def removed(self, number: int) -> FoundFile | None:
        """A file that is there no more, to be read from where it is open; None: it is not open."""
        position, opened = self._positions[number], self._opened.get(number)
        if opened is None or opened.size is None:
            return None
        return FoundFile(
            position.key,
            position.path,
            opened.size,
            is_whole=position.is_whole,
            is_rotated=True,
            whose="nobodys",
        )

    def content(self, number: int) -> OpenedFile:
        """The file, which is opened if it is not.

        Raises:
            Gone: It can't be opened any more.
            Changed: It is not the one that was read.
        """
        opened = self._opened.get(number)
        if opened is None:
            position = self._positions[number]
            if position.is_gone:
                raise Changed(f"{position.path} is gone")
            opened = self._opened[number] = self._open_one(position)
            try:
                check_same(opened, position)
            except Changed:
                self.close(number)
                raise
        self._opened.move_to_end(number)
        return opened

    def surplus(self) -> list[int]:
        """The files that are to be closed, so that there are not too many."""
        others = [number for number in self._opened if number != self._positions.current]
        return others[: max(0, len(self._opened) - OPEN_FILES)]

    def close(self, number: int) -> None:
        """Close a file if it is open."""
        if (opened := self._opened.pop(number, None)) is not None:
            opened.close()

    def mark_begin(self, number: int, found: FoundFile) -> None:
        """Keep what an open file is like before it is read on.

        Raises:
            Gone: It can't be opened any more, or was written again since it was looked at.
        """
        opened, position = self.content(number), self._positions[number]
        if opened.raw is not None:
            if (head := longer_head(opened.raw, position)) is None:
                raise Changed(f"{position.path} was written again")
            position.head = head
        position.is_done, position.size, position.stamp = False, found.size, found.stamp

    def mark_end(self, number: int, size: int | None = None) -> None:
        """Keep by what a file is known again, now that it is read to its end.

        Args:
            number: Of the file.
            size: How many bytes it had then; None: as many as it has now.
        """
        self._positions[number].is_done = True
        self.mark_place(number, size)

    def mark_place(self, number: int, size: int | None = None) -> None:
        """Keep by what a file is known again, now that it is read so far. As `mark_end`."""
        position, opened = self._positions[number], self._opened.get(number)
        if opened is None or opened.raw is None:
            return
        if (head := longer_head(opened.raw, position)) is None:
            return
        place = 0 if position.is_whole else position.offset
        if position.is_done:
            place = position.size = (opened.size or 0) if size is None else size
        position.head = head
        position.tail = tail_of(opened.raw, place)
