"""Which task a file belongs to: its name alone says so."""

from __future__ import annotations

import re
import zlib

# What log rotation appends: app.log.1, app.log-20260131, app.log.2026-01-31, and app.log.1.gz.
_ROTATED = re.compile(
    r"(?:\.\d{1,3}|[.-]\d{8,10}(?:-\d+)?|\.\d{4}-\d{2}-\d{2})?(?:\.gz|\.bz2)?$", re.IGNORECASE
)


def family(path: str) -> str:
    """The name that a file has, or had before log rotation renamed it."""
    return _ROTATED.sub("", path)


def number_of(name: str) -> int:
    """The number of a name: modulo the number of tasks, it is that of the file's task."""
    return zlib.crc32(name.encode(errors="surrogateescape"))
