"""The base of all spouts of files: which file is read next, and how messages end.

Each task looks for its files every `pollSeconds`, and reads those that have more, the oldest first,
each up to where it ended then. So a file that was renamed comes before the one that took its name,
and one that grows without end holds up no other. One that can't be read holds up none either.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.source import Source
from fulmen.connectors.files.dealt_files import deal
from fulmen.connectors.files.owners import number_of
from fulmen.connectors.files.places.bucket_files import source_of
from fulmen.connectors.files.places.local import (
    BadPlace,
    Changed,
    GoneFile,
    OpenedFile,
    UnreadableFile,
    as_text,
    check_same,
)
from fulmen.connectors.files.positions import (
    PLACES,
    FileProgress,
    FoundFile,
    Position,
    Positions,
    UnfinishedFiles,
    message_id,
    place_of,
)
from fulmen.connectors.files.reading.open_files import OpenFiles
from fulmen.connectors.files.reading.troubles import Troubles


class FilesSpout(Source):
    """A spout that reads files. What a message is, those derived from it say."""

    durable = ("progress",)
    options: Any
    unit: ClassVar[str] = "byte"
    """The unit of places in files."""

    def __init__(self) -> None:
        self.progress = FileProgress()

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        if own := {name for one in kept for name in one.fields} - {*FilesSpout.durable}:
            raise ValueError(f"{cls.__qualname__} has the field {min(own)!r} of its own")
        return deal(kept, tasks)

    @abstractmethod
    def is_whole(self, path: str) -> bool:
        """Whether a file of this machine is read to its end at once."""

    @abstractmethod
    def begin_file(self, number: int, found: FoundFile, end: int, *, is_complete: bool) -> None:
        """Get ready to read a file from its position on.

        Args:
            number: Of the file.
            found: The file.
            end: Where to stop, if the file goes on.
            is_complete: Whether nothing will be added to it.
        """

    @abstractmethod
    def emit_next(self, number: int) -> bool:
        """Emit the next message of the file that is being read. False: there is none.

        Raises:
            Gone: It can't be read any more.
        """

    @abstractmethod
    def emit_again(self) -> None:
        """Emit one or more of the messages in `progress.again`, and take them out of it.

        Raises:
            Gone: The file of the first one can't be read. Nothing was emitted.
        """

    @abstractmethod
    def emit_error(self, values: Sequence[Any], msg_id: int | None) -> None:
        """Emit on the stream `errors`; None: it is not tracked."""

    @override
    def connect(self) -> None:
        self._queue: deque[FoundFile] = deque()
        self._rests, self._troubles = UnfinishedFiles(), Troubles(self.options.poll_seconds)
        self._polled_at: float | None = None
        self._troubled: list[FoundFile] = []
        self._retry_at = 0.0
        self._has_rested = self._looks_again = False
        self._found: FoundFile | None = None

        def owns(name: str) -> bool:
            return number_of(name) % self.tasks == self.context.task_index

        self.source = source_of(
            self.options.paths, self.progress, owns, self.is_whole, type(self).today
        )
        self.positions = Positions(self.progress, self.state, self.context.task_index, self.tasks)
        self._opened = OpenFiles(self.source.open, self.positions)
        self.source.check()
        is_new = not self.progress.next_number
        if is_new and (folder := self.source.folder()):
            raise BadPlace(
                f"config.path: '{folder}' is a folder. Name its files, such as '{folder}/*'"
            )
        if is_new and not self.options.follow and (missing := self.source.missing()):
            raise BadPlace(
                f"config.path: there is no {missing}. Check the path, or set follow: true to"
                " wait for it"
            )

    @override
    def close(self) -> None:
        for number in list(self._opened):
            self.close_file(number)

    @override
    def is_exhausted(self) -> bool:
        is_over = self._polled_at is not None and not self._queue and not self.has_begun
        return is_over and not self.options.follow

    @property
    @override
    def knows_its_end(self) -> bool:
        return not self.options.follow and not self.progress.held

    @property
    def has_begun(self) -> bool:
        """Whether a file is being read, or a message is to be emitted again."""
        return self.positions.current is not None or bool(self.progress.again or self.progress.held)

    @override
    def next_tuple(self) -> bool:
        if self._retry_at and self.clock() < self._retry_at:
            return False
        try:
            self._retry_at = 0.0
            return self._next()
        except (OSError, ServiceUnavailable, BadPlace) as error:
            self._retry_at = self.clock() + self.options.poll_seconds
            if self.positions.current is not None:  # it is found again
                self.leave_file()
            self._polled_at = None
            self._queue.clear()
            self._rests.clear()
            if isinstance(error, OSError):
                where = ", ".join(self.options.paths)
                raise ServiceUnavailable(where, str(error), "can't be read") from error
            raise

    def _next(self) -> bool:
        if self._polled_at is None:
            self._poll()
        elif self.lag_due.is_now():
            self._tell_age()
        if self.progress.again and self._again():
            return True
        while (number := self.positions.current) is not None or self._begin_next():
            if number is None:
                continue
            try:
                if self.emit_next(number):
                    return True
            except GoneFile as gone:
                self._cut(number, str(gone))
            except (OSError, UnreadableFile) as error:
                self._pass_over(number, error)
        return False

    def _again(self) -> bool:
        """Emit messages again. False: their file can't be read, and they wait."""
        try:
            self.emit_again()
            return True
        except Changed:
            pass
        except GoneFile:  # it may have been renamed
            self._poll()
            try:
                self.emit_again()
                return True
            except GoneFile:
                pass
        except (OSError, UnreadableFile) as error:
            number, _ = place_of(self.progress.again[0])
            self._pass_over(number, error)
            self.progress.hold(number)
            return False
        msg_id = self.progress.again.popleft()
        number, place = place_of(msg_id)
        reason = "the file was cut, replaced or removed before the message was acked"
        self.emit_error([b"", reason, self.where(number, place)], msg_id)
        return True

    @override
    def ack(self, msg_id: Any) -> None:
        self.ack_batch([msg_id])

    @override
    def ack_batch(self, msg_ids: Sequence[Any]) -> None:
        first, last = (number for number, _ in map(place_of, (min(msg_ids), max(msg_ids))))
        of_one = Counter({first: len(msg_ids)})
        counts = of_one if first == last else Counter(place_of(one)[0] for one in msg_ids)
        for number, count in counts.items():
            if self.positions.ended(number, count):
                self.close_file(number)

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        self.progress.again.append(int(msg_id))

    @override
    def parts_of(self, msg_ids: Sequence[Any]) -> str | Sequence[str]:
        first, last = (number for number, _ in map(place_of, (min(msg_ids), max(msg_ids))))
        if first == last:
            return self.part_of(msg_ids[0])
        return [self.part_of(msg_id) for msg_id in msg_ids]

    @override
    def part_of(self, msg_id: Any) -> str:
        position = self.progress.positions.get(place_of(int(msg_id))[0])
        return "" if position is None or self.options.in_order else as_text(position.path)

    @override
    def unread_parts(self) -> Sequence[str] | None:
        if self.options.in_order:
            return None
        if self._polled_at is None:
            return ["files that are not looked for yet"]
        number = self.positions.current
        current = [] if number is None else [as_text(self.positions[number].path)]
        # not by its path alone: a file that waits may be begun, and have a time of its own
        return current + [f"{as_text(one.path)} (not begun)" for one in islice(self._queue, 1)]

    # Messages

    def emitted(self, number: int, place: int, end: int, messages: int = 1) -> int:
        """Note how far a file is read, before messages of it are emitted.

        Returns:
            The id of the first.
        """
        position = self.positions[number]
        position.offset = end
        position.in_flight += messages
        return message_id(number, place)

    def where(self, number: int, place: int) -> str:
        """A place in a file, for people."""
        return f"{as_text(self.positions[number].path)}:{place}"

    # Files

    def content(self, number: int) -> OpenedFile:
        """The open file.

        Raises:
            Gone: It can't be opened any more.
        """
        opened = self._opened.content(number)
        for other in self._opened.surplus():
            self.close_file(other)
        return opened

    def end_file(self, size: int | None = None) -> None:
        """Nothing more is in the file that is being read.

        Args:
            size: How many bytes it had when its end was seen; None: as many as it has now.
        """
        number = self._no_current()
        self._opened.mark_end(number, size)
        self._forget_if_idle(number)

    def leave_file(self) -> None:
        """The file that is being read is read as far as it goes for now."""
        number = self._no_current()
        self._opened.mark_place(number)
        self._forget_if_idle(number)

    def _no_current(self) -> int:
        """Have no file that is being read any more; its number."""
        number = self.positions.current
        assert number is not None
        self.positions.current = None
        self._troubles.forget(self.positions[number].key)
        return number

    def _forget_if_idle(self, number: int) -> None:
        if self.positions.forget_if_idle(number):
            self.close_file(number)

    def close_file(self, number: int) -> None:
        """Close a file if it is open."""
        self._opened.close(number)

    def _begin_next(self) -> bool:
        """Begin to read the next file, if it can be read. False: there is none for now."""
        if not self._queue and not self._poll_if_due():
            return False
        file = self._found = self._queue.popleft()
        self._has_rested = self._rests.has_rested(file, self.clock())
        try:
            self._begin_if_same(file)
        except (OSError, UnreadableFile) as error:
            self._pass_over(self.positions.begin(file), error)
        return True

    def _begin_if_same(self, found: FoundFile) -> None:
        was_open = self.positions.number(found.key) is not None
        number = self.positions.begin(found)
        position = self.positions[number]
        try:
            self._check_same(number, found)
        except Changed as changed:
            if was_open or position.has_rest:
                self._report_cut(position, str(changed))
            self.close_file(number)
            if found.version or found.whose != "ours":  # another object; or an inode is used again
                self.positions.drop(found.key)
                return
            number = self.positions.restart(found)
        except GoneFile:  # since it was found; it may have been renamed
            self._looks_again, position.size = True, found.size
            return
        if position.is_done and position.size == found.size and not position.is_gone:
            position.stamp = found.stamp  # it was touched or renamed
            self._forget_if_idle(number)
        else:
            self._begin(number, found)

    def _check_same(self, number: int, found: FoundFile) -> None:
        """See that a file is the one that was read, whatever its inode and its size say."""
        check_same(self.content(number), position := self.positions[number])
        if found.whose in ("others", "nobodys") and position.is_empty:  # an inode says nothing
            raise Changed(f"{position.path} is another file by now")
        if position.is_done and position.size != found.size and self.unit != "byte":
            raise Changed(f"{position.path} was written again")

    def _begin(self, number: int, found: FoundFile) -> None:
        try:
            self._opened.mark_begin(number, found)
        except GoneFile:
            self._looks_again = True
            return
        self._rests.begun(found, self.clock())
        self.positions.current = number
        is_whole = found.is_whole or not self.options.follow
        end = PLACES if is_whole else found.size
        self.begin_file(number, found, end, is_complete=is_whole or self._has_rested)

    def _poll_if_due(self) -> bool:
        if self._polled_at is not None:
            due = self._polled_at + self.options.poll_seconds
            if self.clock() < due if self.options.follow else not self._looks_again:
                return False
        self._poll()
        return bool(self._queue)

    def _poll(self) -> None:
        self._looks_again = False
        files = self.source.find(self.positions.is_known)
        for key, one in files.items():
            if (known := self.positions.number(key)) is not None:
                self.positions[known].path = one.path
        self._look_for_missing(files)
        wanted = [one for one in files.values() if self._wants(one)]
        self._queue = deque(sorted(wanted, key=lambda one: (one.modified, one.path)))
        now = self._polled_at = self.clock()
        self._troubled = [one for one in files.values() if one.key in self._troubles]
        self._tell_age()
        for place, reason in self.source.passed_over.items():
            if self._troubles.met(place, reason, now):
                self.tell(reason, place)
        self.progress.release(lambda key: self._troubles.is_over(key, now))

    def _tell_age(self) -> None:
        """Tell how long ago the oldest file was written to that is not read to its end."""
        self.lag_due.later()
        unread = [*islice(self._queue, 1), *self._troubled]  # the queue is in the order of times
        if self.positions.current is not None and self._found is not None:
            unread.append(self._found)
        if unread:
            self.context.lag(seconds=type(self).today() - min(one.modified for one in unread))
        else:
            self.context.lag(messages=0, seconds=0.0)

    def _wants(self, found: FoundFile) -> bool:
        if not self._troubles.is_over(found.key, self.clock(), found.stamp):
            return False
        if not self.positions.is_settled(found):
            return self._rests.is_new(found, self.clock())
        self._rests.forget(found.key)
        number = self.positions.number(found.key)
        if number is not None:
            self._forget_if_idle(number)
        return False

    def _look_for_missing(self, found: dict[Any, FoundFile]) -> None:
        present = self.source.present
        for number in self.positions.open_numbers():
            position = self.positions[number]
            if position.key in found:
                continue
            if (one := self._opened.removed(number)) is not None:
                found[position.key] = one
            elif self.source.folder_of(position.key) in present:
                self._cut(number, f"{position.path} was removed")
        for key in self.positions.finished():
            if key not in found and self.source.folder_of(key) in present:
                left = self.positions.forget(key)  # its folder is there, and it is not
                if left is not None:
                    self._report_cut(left, f"{left.path} was removed")

    def _cut(self, number: int, reason: str) -> None:
        """The rest of a file, and messages that are in flight, can't be read any more."""
        self._report_cut(self.positions[number], reason)
        if self.positions.current == number:
            self.positions.current = None
        self.close_file(number)
        self.positions.cut(number)

    def _report_cut(self, position: Position, reason: str) -> None:
        text = position.lost(reason, self.unit)
        self.tell(text, f"{position.path}:{position.offset}", text)

    def _pass_over(self, number: int, error: Exception) -> None:
        """Pass over a file that can't be read: go on with others, and try it again later."""
        position, file = self.positions[number], self._found
        if (reason := self.source.fault_of(position.path, error)) is None:
            raise error
        if self.positions.current == number:
            self.positions.current = None
        self.close_file(number)
        stamp = 0
        if file is not None and file.key == position.key:
            stamp, position.size, position.stamp = file.stamp, file.size, 0
        self.positions.forget_if_idle(number)
        if self._troubles.met(position.key, reason, self.clock(), stamp):
            self.tell(f"{reason}. It is tried again later", f"{position.path}:{position.offset}")

    def tell(self, reason: str, where: str, text: str = "") -> None:
        """Report a loss or a passed-over file, and tell it on the stream `errors`."""
        self.collector.report_error(as_text(text or f"{where}: {reason}"))
        self.emit_error([b"", as_text(reason), as_text(where)], None)
