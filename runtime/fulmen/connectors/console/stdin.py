"""Lines of standard input."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, BinaryIO

from typing_extensions import override

from fulmen.api.collector import SpoutOutputCollector
from fulmen.api.components import Outputs, Spout
from fulmen.api.context import TopologyContext
from fulmen.connectors.formats import (
    ERRORS,
    Format,
    JsonOptions,
    LineFormatOptions,
    TextOptions,
    unread,
)
from fulmen.connectors.formats.encodings import UTF_8, without_line_feed, without_mark
from fulmen.connectors.options import Options

_AHEAD = 1000


class StdinOptions(Options):
    """What a line is."""

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


class StdinSpout(Spout):
    """Emits the lines of the driver's standard input, and ends with it.

    A line is kept in the checkpoint until it is acked. What standard input has, and nobody has read
    yet, is lost with the driver.
    """

    pinned = True
    backoff = True
    config_model = StdinOptions
    durable = ("number", "again")

    def __init__(self) -> None:
        self.number = 0
        self.again: deque[int] = deque()

    @override
    def outputs_for(self, options: Any) -> Outputs:
        return {"default": options.format.make().stream(), "errors": ERRORS}

    @override
    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self._collector = collector
        self._format: Format = context.options.format.make()
        self._encoding: str = getattr(context.options.format, "encoding", UTF_8)
        self._skips_blank = isinstance(context.options.format, JsonOptions)
        self._is_mine = context.task_index == 0
        self._lines = context.shared("stdin", lambda: Lines(sys.stdin.buffer))

    @override
    def next_tuple(self) -> bool:
        if self.again:
            number = self.again.popleft()
            self._emit(number, self.state[number])
            return True
        return self._is_mine and self._emit_next()

    def _emit_next(self) -> bool:
        line = self._lines.next()
        if line is not None:
            number, self.number = self.number, self.number + 1
            data = without_line_feed(line)
            if number == 0:
                data = without_mark(data, self._encoding)
            if not (self._skips_blank and not data.strip()):
                self.state[number] = data
                self._emit(number, data)
            return True
        if self._lines.is_over and self._lines.error is not None:
            text = f"standard input can't be read: {self._lines.error.strerror}"
            self._lines.error = None
            self._collector.report_error(text)
            self._collector.emit([None, text, f"line {self.number + 1}"], "errors")
        return False

    @override
    def ack(self, msg_id: Any) -> None:
        self.state.pop(msg_id, None)

    @override
    def fail(self, msg_id: Any, reason: str) -> None:
        self.again.append(msg_id)

    @override
    def is_exhausted(self) -> bool:
        return not self.again and (not self._is_mine or self._lines.is_over)

    @property
    @override
    def knows_its_end(self) -> bool:
        return True

    def _emit(self, number: int, data: bytes) -> None:
        try:
            values = self._format.decode(data)
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            reason = str(unread(error))
            self._collector.emit([data, reason, f"line {number + 1}"], "errors", msg_id=number)
        else:
            self._collector.emit(values, msg_id=number)
