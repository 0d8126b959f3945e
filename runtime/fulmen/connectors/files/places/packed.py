"""Files that are compressed, by their names: which are unpacked, and which can't be."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from bz2 import BZ2File
from typing import Any, BinaryIO

ERRORS = (EOFError, zlib.error, OSError)
"""Errors of bytes that can't be unpacked; of those of the system see `is_corrupt`."""
_NAMES = {".gz": "gzip", ".bz2": "bzip2"}
_OTHERS = {".xz", ".lzma", ".zst", ".lz4", ".lzo", ".br", ".z", ".zip", ".7z"}


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def is_packed(path: str) -> bool:
    """Whether a file is compressed: it is read to its end at once."""
    return _suffix(path) in {*_NAMES, *_OTHERS}


def unpacked(path: str, content: io.BufferedIOBase | BinaryIO) -> Any:
    """Open the unpacked content of a file."""
    suffix = _suffix(path)
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=content)
    return BZ2File(content) if suffix == ".bz2" else content


def is_corrupt(error: BaseException) -> bool:
    """Whether an error says that bytes can't be unpacked."""
    return isinstance(error, ERRORS) and getattr(error, "errno", None) is None


def reason_of(path: str, error: BaseException) -> str:
    """Say why a file can't be unpacked."""
    return f"it is not {_NAMES.get(_suffix(path), 'readable')}: {error}"


def refusal(path: str) -> str | None:
    """Why files of such a name can't be unpacked at all."""
    suffix = _suffix(path)
    if suffix not in _OTHERS:
        return None
    return f"files that end in {suffix!r} can't be unpacked. Compress them as .gz or .bz2"
