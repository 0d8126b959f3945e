"""Lines of standard input."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

from typing_extensions import override

from fulmen.api.components.kept import Kept
from fulmen.connectors.base.source import MessageSource
from fulmen.connectors.formats import JsonOptions, LineFormatOptions, TextOptions
from fulmen.connectors.formats.encodings import UTF_8, without_line_feed, without_mark
from fulmen.connectors.options import Options

_AHEAD = 1000


class StdinOptions(Options):
    """The form of a line."""

    format: LineFormatOptions = TextOptions()
    """What each line is: `text`, `bytes`, `json` or `csv`."""


class Lines:
    """Reads lines ahead on a thread, so that nobody waits for a terminal.

    Attributes:
        is_over: Whether there are no more lines.
        error: Why, if that is not since they have ended.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self.is_over = False
        self.error: OSError | None = None
        threading.Thread(target=self._read, args=(source,), name="stdin", daemon=True).start()

    def next(self) -> bytes | None:
        """The next line; None: there is none now."""
        try:
            line = None if self.is_over else self._lines.get_nowait()
        except queue.Empty:
            return None
        self.is_over |= line is None
        return line

    def _read(self, source: BinaryIO) -> None:
        try:
            for line in source:
                self._lines.put(line)
        except OSError as error:  # it is a folder, or its terminal is gone
            self.error = error
        finally:
            self._lines.put(None)


class StdinSpout(MessageSource):
    """Emits the lines of the driver's standard input, and ends with it.

    A line is kept in the checkpoint until it is acked. What standard input has, and nobody has read
    yet, is lost with the driver.
    """

    pinned = True
    config_model = StdinOptions
    durable = ("number", "failed")

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        return [kept[0], *(Kept() for _ in range(1, tasks))]

    @override
    def connect(self) -> None:
        self.format = self.options.format.make()
        self._encoding: str = getattr(self.options.format, "encoding", UTF_8)
        self._skips_blank = isinstance(self.options.format, JsonOptions)
        self._is_mine = self.context.task_index == 0
        self._lines = self.context.shared("stdin", lambda: Lines(sys.stdin.buffer))

    @override
    def emit_again(self, msg_id: int) -> None:
        self.emit_message(msg_id, self.state[msg_id])

    @override
    def emit_next(self) -> bool:
        line = self._lines.next() if self._is_mine else None
        if line is not None:
            number, self.number = self.number, self.number + 1
            data = without_line_feed(line)
            if number == 0:
                data = without_mark(data, self._encoding)
            if not (self._skips_blank and not data.strip()):
                self.state[number] = data
                self.emit_message(number, data)
            return True
        if self._is_mine and self._lines.is_over and self._lines.error is not None:
            text = f"standard input can't be read: {self._lines.error.strerror}"
            self._lines.error = None
            self.tell(text, self.place_of(self.number), text)
        return False

    @override
    def place_of(self, msg_id: int, message: Any = None) -> str:
        return f"line {msg_id + 1}"

    @override
    def ack(self, msg_id: Any) -> None:
        self.state.pop(msg_id, None)

    @override
    def is_exhausted(self) -> bool:
        return not self.failed and (not self._is_mine or self._lines.is_over)

    @property
    @override
    def knows_its_end(self) -> bool:
        return True
