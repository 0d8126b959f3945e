"""Where entries of Python's `logging` go, and which: those of authors' code and their libraries.

And what they print: a full disk under it must fail nobody.

Wherever components run, entries from INFO on are written. `FULMEN_LOG_LEVEL` says otherwise.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from typing_extensions import override

LEVEL_ENV = "FULMEN_LOG_LEVEL"
"""The level of all loggers, and of some: `INFO`, or `WARNING,shop=DEBUG,kafka=ERROR`."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def levels(text: str) -> tuple[dict[str, str], list[str]]:
    """The level of each logger that a value of LEVEL_ENV names, and what is wrong with it.

    The root logger's name is empty.
    """
    by_logger, wrong = {"": "INFO"}, []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, level = part.rpartition("=")
        if level.strip().upper() in _LEVELS:
            by_logger[name.strip()] = level.strip().upper()
        else:
            wrong.append(
                f"{LEVEL_ENV}: {part!r} has no level. Write one of {', '.join(_LEVELS)}, or"
                " LOGGER=LEVEL, with commas between several. It is left out"
            )
    return by_logger, wrong


def set_levels(environ: Mapping[str, str] | None = None) -> None:
    """Set the levels that the environment asks for."""
    by_logger, wrong = levels((os.environ if environ is None else environ).get(LEVEL_ENV, ""))
    for name, level in by_logger.items():
        logging.getLogger(name).setLevel(level)
    for message in wrong:
        logging.getLogger(__name__).warning("%s", message)


def log_to_stderr() -> None:
    """Write entries to stderr, unless whoever loaded this process has set up something else."""
    logging.basicConfig(format=FORMAT)
    set_levels()


class Printed(io.TextIOWrapper):
    """Takes the place of a stream that authors' code prints to: what can't be written is lost.

    What is written to its `buffer` is not, but raises, for sinks that print rows.

    Attributes:
        lost: Why something was lost, if something was.
    """

    def __init__(self, stream: io.TextIOWrapper, raw: io.FileIO, *, is_buffered: bool) -> None:
        """Begin where the stream has come to.

        Args:
            stream: The stream.
            raw: Writes to the same file.
            is_buffered: Whether bytes are kept until there are many.
        """
        stream.flush()
        super().__init__(
            io.BufferedWriter(raw) if is_buffered else raw,
            stream.encoding,
            "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.lost: OSError | None = None

    @override
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = error
            return len(text)

    @override
    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.lost = error


class _Handler(logging.Handler):
    """Hands entries on as lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write
        self.setFormatter(logging.Formatter(FORMAT))

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 (arguments that do not fit)
            self.handleError(record)
        else:
            self._write(text)


@contextmanager
def logged_to(write: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile write entries as lines; Fulmen's own warnings to stderr as well."""
    root, own = logging.getLogger(), logging.getLogger("fulmen")
    handler = _Handler(write)
    before = root.level
    root.addHandler(handler)
    if logging.lastResort is not None:
        own.addHandler(logging.lastResort)
    set_levels()
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        if logging.lastResort is not None:
            own.removeHandler(logging.lastResort)
