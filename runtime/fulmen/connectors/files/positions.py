"""How far each file is read, and how many of its messages are in flight. No I/O.

A file that is being read, or has messages in flight, has a number and a `Position`. All others that
were read are in the spout's keyed state, by key: a few bytes each. So a commit costs what has
changed since the last one.

A message's id is its place and the number of its file, see `message_id`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[int, int] | int
"""Which file: number of its folder, and inode; or a hash of an object's URI and version."""
PLACES = 1 << 40
"""A place in a file is below this: 1 TB."""
HEAD_BYTES = 1024
_DONE = True


@dataclass(frozen=True, slots=True)
class Found:
    """A file or object that is there.

    Attributes:
        key: Which it is.
        path: Where it is now.
        size: In bytes.
        modified: When it was written to, in seconds; only their order counts.
        is_whole: Nothing is added to it later: an object, or a compressed file.
        is_rotated: It has another name than when lines are added to it.
        version: Of an object.
    """

    key: Key
    path: str
    size: int
    modified: float = 0.0
    is_whole: bool = False
    is_rotated: bool = False
    version: str = ""


@dataclass(slots=True)
class Position:
    """How far a file is read. Durable.

    Attributes:
        key: Which file.
        path: Where it was last.
        version: Of an object.
        offset: What comes before was emitted.
        in_flight: How many messages have not ended.
        head: Length and checksum of the first bytes, by which a file is known again.
        is_done: Nothing comes behind the offset.
        is_gone: The content was cut, replaced or removed.
    """

    key: Key
    path: str
    version: str = ""
    offset: int = 0
    in_flight: int = 0
    head: tuple[int, int] = (0, 0)
    is_done: bool = False
    is_gone: bool = False


@dataclass
class Progress:
    """The durable field of a spout.

    Attributes:
        positions: By the number of the file.
        next_number: Of the next file.
        folders: By number; see `Key`.
        again: Messages that have failed and are to be emitted again.
    """

    positions: dict[int, Position] = field(default_factory=dict)
    next_number: int = 0
    folders: list[str] = field(default_factory=list)
    again: deque[int] = field(default_factory=deque)


def message_id(number: int, place: int) -> int:
    """The id of the message at a place of a file."""
    return number * PLACES + place


def place_of(msg_id: int) -> tuple[int, int]:
    """The number of the file, and the place in it."""
    return divmod(msg_id, PLACES)


class Positions:
    """What a task knows of its files.

    Attributes:
        current: The number of the file that is being read; it is not forgotten meanwhile.
    """

    def __init__(self, progress: Progress, finished: MutableMapping[Any, Any]) -> None:
        """Look at what is durable.

        Args:
            progress: Of the spout. It is changed in place.
            finished: The spout's keyed state.
        """
        self._progress = progress
        self._finished = finished
        self._numbers = {p.key: n for n, p in progress.positions.items() if not p.is_gone}
        self.current: int | None = None

    def __getitem__(self, number: int) -> Position:
        return self._progress.positions[number]

    def is_known(self, key: Key) -> bool:
        """Whether it was read before, or begun."""
        return key in self._numbers or key in self._finished

    def number(self, key: Key) -> int | None:
        """The number of a file that has a position."""
        return self._numbers.get(key)

    def open_numbers(self) -> list[int]:
        """The numbers of all files that have a position and are not gone."""
        return list(self._numbers.values())

    def has_more(self, found: Found) -> bool:
        """Whether a file has bytes that were not read, or is another one than it was."""
        number = self._numbers.get(found.key)
        if number is not None:
            position = self[number]
            return not position.is_done and (found.is_whole or found.size != position.offset)
        finished = self._finished.get(found.key)
        if finished is None:
            return found.is_whole or found.size > 0
        return finished is not _DONE and bool(found.size != finished[0])

    def begin(self, found: Found) -> int:
        """The number of a file that is to be read on. It gets a position if it has none."""
        number = self._numbers.get(found.key)
        if number is None:
            finished = self._finished.get(found.key)
            number = self._new(found)
            if finished not in (None, _DONE):
                self[number].offset, self[number].head = finished[0], tuple(finished[1:])
        self[number].path = found.path
        return number

    def restart(self, found: Found) -> int:
        """A file has other content than before: read it from its start, as a new one."""
        number = self._numbers.get(found.key)
        if number is not None:
            self.cut(number)
        self._finished.pop(found.key, None)
        return self._new(found)

    def cut(self, number: int) -> None:
        """The content of a file is gone: it is forgotten with its last message."""
        position = self[number]
        position.is_gone = True
        if self._numbers.get(position.key) == number:
            del self._numbers[position.key]
        self.forget_if_idle(number)

    def forget(self, key: Key) -> None:
        """A file that was read is gone for good."""
        self._finished.pop(key, None)

    def finished(self) -> list[Key]:
        """The keys of all files that are not being read."""
        return [key for key in self._finished if key not in self._numbers]

    def ended(self, number: int, messages: int = 1) -> bool:
        """Messages of a file were acked. Returns whether the file was forgotten with them."""
        position = self._progress.positions.get(number)
        if position is None:
            return False
        position.in_flight -= messages
        return self.forget_if_idle(number)

    def forget_if_idle(self, number: int) -> bool:
        """Keep only the summary of a file that nobody reads, if no message of it is in flight."""
        position = self[number]
        if position.in_flight > 0 or number == self.current:
            return False
        del self._progress.positions[number]
        if not position.is_gone:
            del self._numbers[position.key]
            summary = _DONE if position.is_done else (position.offset, *position.head)
            if self._finished.get(position.key) != summary:
                self._finished[position.key] = summary
        return True

    def _new(self, found: Found) -> int:
        number = self._progress.next_number
        self._progress.next_number += 1
        self._progress.positions[number] = Position(found.key, found.path, found.version)
        self._numbers[found.key] = number
        return number
