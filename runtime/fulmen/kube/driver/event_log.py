"""Told by the engine what happens: writes it to the log."""

from __future__ import annotations

import logging
import threading
import time

from fulmen.engine.batches.done import Done
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.totals.totals import Totals

MESSAGE_CHARACTERS = 500

_log = logging.getLogger(__name__)


class EventLog:
    """An observer for pods, made by the thread that runs batches.

    Attributes:
        latest: The last event, until batches count again.
        heard: The time of that thread's last event, by the monotonic clock.
        counted: The time when a batch counted last.
    """

    def __init__(self) -> None:
        self.latest = ""
        self._thread = threading.get_ident()
        self.heard = self.counted = time.monotonic()

    def batch(self, totals: Totals, done: Done) -> None:  # noqa: ARG002 (of Observer)
        """A batch counted."""
        self.heard = self.counted = time.monotonic()
        if totals.batches == 1:
            _log.info("The first batch is committed")
        self.latest = ""

    def error(self, error: ErrorReport) -> None:
        """A component reported an error."""
        kind, level = ("warning", logging.WARNING) if error.is_warning else ("error", logging.ERROR)
        if error.is_failure:
            kind, level = "failed", logging.WARNING
        text = f"{kind} in {error.component!r}, task {error.task}: {error.message}"
        _log.log(level, "%s", text, extra={"details": error.traceback})

    def attempt_failed(self, number: int, reason: str) -> None:
        """An attempt of a batch came to nothing."""
        self._tell(f"batch {number} is run again: {reason}")

    def note(self, text: str) -> None:
        """Record another event."""
        self._tell(text)

    def _tell(self, text: str) -> None:
        if threading.get_ident() == self._thread:  # others may tell that it is stuck
            self.heard = time.monotonic()
        _log.warning("%s", text)
        self.latest = text[:MESSAGE_CHARACTERS]
