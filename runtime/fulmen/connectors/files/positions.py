"""How far each file is read, and how many of its messages are in flight. No I/O.

A file that is being read, or has messages in flight, has a number and a `Position`. All others that
were read are in the spout's keyed state, by key: a few bytes each. So a commit costs what has
changed since the last one.

A message's id is its place and the number of its file, see `message_id`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fulmen.connectors.files.owners import family, number_of

Key = tuple[int, int] | int
"""Which file: number of its folder, and inode; or a hash of an object's URI and version."""
Whose = Literal["ours", "others", "rotated", "nobodys"]
"""Whose file it is by its name: the patterns lead this task to it, or another one; or they lead
none, and the name is one that log rotation gives to a file of this task; or it is any other."""
PLACES = 1 << 40
"""A place in a file is below this: 1 TB."""
HEAD_BYTES = 1024
REST_SECONDS = 5.0
"""A file that log rotation has renamed, and that has not grown for so long, is complete."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file or object that is there.

    Attributes:
        key: Which it is.
        path: Where it is now.
        size: In bytes.
        modified: When it was written to, in seconds; only their order counts.
        is_whole: It is read to its end at once: an object, a compressed file, or Parquet.
        is_rotated: It has another name than when lines are added to it.
        whose: A file that is not "ours" is known from before only. If its content is another one
            by now, it is no file of this task.
        version: Of an object.
        stamp: Another one whenever the file was written to, renamed or replaced by one with its
            inode. 0: that may have happened just now, and happen again without a change of this.
    """

    key: Key
    path: str
    size: int
    modified: float = 0.0
    is_whole: bool = False
    is_rotated: bool = False
    whose: Whose = "ours"
    version: str = ""
    stamp: int = 0


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
        tail: A place up to which it was read, and the checksum of what comes before it; no place,
            if the head has that already. A compressed file or one of Parquet ends there.
        size: In bytes, when it was found or read to its end.
        stamp: When it was found; see `FoundFile`.
        is_whole: As of `FoundFile`: places in a compressed file and in Parquet are not its bytes.
        is_done: Nothing comes behind the offset.
        is_gone: The content was cut, replaced or removed.
    """

    key: Key
    path: str
    version: str = ""
    offset: int = 0
    in_flight: int = 0
    head: tuple[int, int] = (0, 0)
    tail: tuple[int, int] = (0, 0)
    size: int = 0
    stamp: int = 0
    is_whole: bool = False
    is_done: bool = False
    is_gone: bool = False

    @property
    def has_rest(self) -> bool:
        """Whether something was there that was not read, as far as is known."""
        return not self.is_done and (self.is_whole or self.offset < self.size)

    @property
    def is_empty(self) -> bool:
        """Whether a file of this machine had nothing in it when it was looked at last."""
        return not (self.version or self.head[0] or self.size)

    def lost(self, reason: str, unit: str) -> str:
        """Say, for people, what is lost with its content."""
        text = f"{reason}. It was read up to {unit} {self.offset}"
        if self.has_rest:
            text += ", and the rest is lost"
        return text + (f". Messages not acked yet: {self.in_flight}" if self.in_flight else "")

    @property
    def owner(self) -> int:
        """The number of its name: modulo the number of tasks, it is that of its task."""
        return number_of(self.path if isinstance(self.key, int) else family(self.path))

    @staticmethod
    def owner_in(summary: tuple[Any, ...]) -> int:
        """The `owner`, in what is kept."""
        owner: int = summary[8]
        return owner

    @staticmethod
    def age_in(summary: tuple[Any, ...]) -> tuple[bool, int, int]:
        """The order in which a file was looked at, for what two tasks have kept of it."""
        return summary[6] == 0, summary[6], summary[0]

    def summary(self) -> tuple[Any, ...]:
        """The values that are kept when nobody reads it."""
        path = self.path if self.has_rest else ""
        of_file = (*self.head, *self.tail, self.size, self.stamp, self.is_done)
        return (self.offset, *of_file, self.owner, path)

    def restore(self, summary: tuple[Any, ...]) -> None:
        """Take over what was kept."""
        self.offset, self.size, self.stamp, self.is_done = summary[0], *summary[5:8]
        self.head, self.tail = summary[1:3], summary[3:5]
        if not (self.is_done or summary[-1]):  # one of lines: now another file may have its inode
            self.is_whole = False

    def is_settled(self, found: FoundFile) -> bool:
        """Whether a file is as it was, and nothing of it is to be read."""
        is_same = self.stamp == found.stamp != 0
        return is_same and (self.is_done or (not found.is_whole and found.size == self.offset))


@dataclass
class FileProgress:
    """The durable field of a spout.

    Attributes:
        positions: By the number of the file.
        next_number: How many files got a number, in the task that has given most.
        folders: By number; see `Key`.
        inodes: Of these folders, by number, when files were found there. A folder that has another
            one is not the same: a volume is away.
        again: Messages that have failed and are to be emitted again.
        held: Such messages of files that can't be read now.
    """

    positions: dict[int, Position] = field(default_factory=dict)
    next_number: int = 0
    folders: list[str] = field(default_factory=list)
    inodes: dict[int, int] = field(default_factory=dict)
    again: deque[int] = field(default_factory=deque)
    held: list[int] = field(default_factory=list)

    def hold(self, number: int) -> None:
        """Let the messages of a file wait that can't be read now."""
        self.held += [one for one in self.again if place_of(one)[0] == number]
        self.again = deque(one for one in self.again if place_of(one)[0] != number)

    def release(self, is_over: Callable[[Key], bool]) -> None:
        """Messages wait no longer whose file may be tried again."""
        over = {n for n, p in self.positions.items() if is_over(p.key)}
        self.again.extend(one for one in self.held if place_of(one)[0] in over)
        self.held = [one for one in self.held if place_of(one)[0] not in over]


def message_id(number: int, place: int) -> int:
    """The id of the message at a place of a file."""
    return number * PLACES + place


def place_of(msg_id: int) -> tuple[int, int]:
    """The number of the file, and the place in it."""
    return divmod(msg_id, PLACES)


class Positions:
    """The files that a task knows, and how far each is read.

    Attributes:
        current: The number of the file that is being read; it is not forgotten meanwhile.
    """

    def __init__(
        self,
        progress: FileProgress,
        finished: MutableMapping[Any, Any],
        task: int = 0,
        tasks: int = 1,
    ) -> None:
        """Look at what is durable.

        Args:
            progress: Of the spout. It is changed in place.
            finished: The spout's keyed state. What it has under a text is no file.
            task: The index of the task. No two give a file the same number.
            tasks: How many there are.
        """
        self._task, self._tasks = task, tasks
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

    def is_settled(self, found: FoundFile) -> bool:
        """Whether a file was read as far as it goes, and was not written to since.

        What it is and how far it was read is to be looked at otherwise, in this order.
        """
        number = self._numbers.get(found.key)
        if number is not None:
            return self[number].is_settled(found)
        summary = self._finished.get(found.key)
        if summary is None:
            return found.size == 0 and not found.is_whole
        position = Position(found.key, found.path)
        position.restore(summary)
        return position.is_settled(found)

    def begin(self, found: FoundFile) -> int:
        """The number of a file that is to be read on. It gets a position if it has none."""
        number = self._numbers.get(found.key)
        if number is None:
            number = self._new(found)
            if (summary := self._finished.get(found.key)) is not None:
                self[number].restore(summary)
        self[number].path = found.path
        return number

    def restart(self, found: FoundFile) -> int:
        """Read a file with other content than before from its start, as a new one."""
        self.drop(found.key)
        return self._new(found)

    def drop(self, key: Key) -> None:
        """Forget what was read of a file that has other content than before."""
        number = self._numbers.get(key)
        if number is not None:
            self.cut(number)
        self._finished.pop(key, None)

    def cut(self, number: int) -> None:
        """Mark a file whose content is gone: it is forgotten with its last message."""
        position = self[number]
        position.is_gone = True
        if self._numbers.get(position.key) == number:
            del self._numbers[position.key]
        self.forget_if_idle(number)

    def forget(self, key: Key) -> Position | None:
        """A file that was read is gone for good. Returns what was known of it, if it has more."""
        summary = self._finished.pop(key, None)
        if summary is None or not summary[-1]:
            return None
        position = Position(key, summary[-1])
        position.restore(summary)
        return position

    def finished(self) -> list[Key]:
        """The keys of all files that are not being read."""
        return [k for k in self._finished if k not in self._numbers and not isinstance(k, str)]

    def ended(self, number: int, messages: int = 1) -> bool:
        """Note acked messages of a file. Returns whether the file was forgotten with them."""
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
            summary = position.summary()
            if self._finished.get(position.key) != summary:
                self._finished[position.key] = summary
        return True

    def _new(self, found: FoundFile) -> int:
        number = self._progress.next_number * self._tasks + self._task
        self._progress.next_number += 1
        self._progress.positions[number] = Position(
            found.key, found.path, found.version, is_whole=found.is_whole
        )
        self._numbers[found.key] = number
        return number


class UnfinishedFiles:
    """Files that are read as far as whole lines go, and may have the beginning of another one."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[int, int, float]] = {}

    def begun(self, found: FoundFile, now: float) -> None:
        """Note that a file is read now up to its end."""
        size, _, since = self._seen.get(found.key, (-1, 0, now))
        self._seen[found.key] = found.size, found.stamp, since if size == found.size else now

    def forget(self, key: Key) -> None:
        """Forget a file of which nothing is left."""
        self._seen.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()

    def is_new(self, found: FoundFile, now: float) -> bool:
        """Whether there is something else to be seen than when it was read last."""
        size, stamp, _ = self._seen.get(found.key, (-1, 0, 0.0))
        is_same = size == found.size and stamp == found.stamp != 0
        return not is_same or self.has_rested(found, now)

    def has_rested(self, found: FoundFile, now: float) -> bool:
        """Whether a file was renamed by log rotation, and has not grown since it was read."""
        size, _, since = self._seen.get(found.key, (-1, 0, 0.0))
        return found.is_rotated and size == found.size and now >= since + REST_SECONDS
