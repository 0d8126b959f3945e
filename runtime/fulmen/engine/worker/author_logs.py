"""Where entries of Python's `logging` go, and which: those of authors' code and their libraries.

Wherever components run, entries from INFO on are written. `FULMEN_LOG_LEVEL` says otherwise.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LEVEL_ENV = "FULMEN_LOG_LEVEL"
"""The level of all loggers, and of some: `INFO`, or `WARNING,shop=DEBUG,kafka=ERROR`."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def levels(text: str) -> tuple[dict[str, str], list[str]]:
    """The level of each logger that a value of LEVEL_ENV names, and what is wrong with it.

    The root logger's name is empty.
    """
    found, wrong = {"": "INFO"}, []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, level = part.rpartition("=")
        if level.strip().upper() in _LEVELS:
            found[name.strip()] = level.strip().upper()
        else:
            wrong.append(
                f"{LEVEL_ENV}: {part!r} has no level. Write one of {', '.join(_LEVELS)}, or"
                " LOGGER=LEVEL, with commas between several. It is left out"
            )
    return found, wrong


def set_levels(environ: Mapping[str, str] | None = None) -> None:
    """Set the levels that the environment asks for."""
    found, wrong = levels((os.environ if environ is None else environ).get(LEVEL_ENV, ""))
    for name, level in found.items():
        logging.getLogger(name).setLevel(level)
    for message in wrong:
        logging.getLogger(__name__).warning("%s", message)


def log_to_stderr() -> None:
    """Write entries to stderr, unless whoever loaded this process has set up something else."""
    logging.basicConfig(format=FORMAT)
    set_levels()


@contextmanager
def logged_to(file: Path) -> Iterator[None]:
    """Meanwhile write entries to a file; Fulmen's own warnings to stderr as well."""
    root, own = logging.getLogger(), logging.getLogger("fulmen")
    handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(logging.Formatter(FORMAT))
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
        handler.close()
