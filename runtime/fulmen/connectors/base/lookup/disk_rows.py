"""The rows of a table by their keys, on the disk of this machine.

A row is where it was written, behind the rows before it; an index has the hash of each key and that
place, in the order of the hashes. Both are files without a name: they are gone with the process,
however it ends. The system keeps in memory of them what is asked for, and forgets it when memory is
short. The hash is Python's, as nobody else reads the files: so a key is found as in a dict.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from itertools import islice
from mmap import ACCESS_READ, MADV_RANDOM, mmap
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from fulmen.connectors.base.lookup.table import Matches
from fulmen.own_files import STATE_FOLDER

_PARTS = 64
"""So many parts of the index are put in order one after the other: each fits into memory."""
_PART_BITS = np.uint64(58)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Hashes of numbers are the numbers: this makes all bits differ."""
_PAIR = np.dtype([("hash", np.uint64), ("place", np.uint64)])


class DiskRows:
    """Rows by their keys: `add` all of them, `finish`, then `find`."""

    def __init__(self) -> None:
        """Nothing is there yet.

        Raises:
            OSError: There is no place for files.
        """
        self._rows = _new_file()
        self._parts = [_new_file() for _ in range(_PARTS)]
        self._end = 0

    def add(self, keys: Sequence[Any], rows: Sequence[list[Any]]) -> None:
        """Add rows behind those before.

        Args:
            keys: The key of each.
            rows: What is found by it.

        Raises:
            TypeError: A key has no hash.
            OSError: The disk is full, or broken.
        """
        packed = [pickle.dumps(pair, 5) for pair in zip(keys, rows, strict=True)]
        lengths = np.fromiter(map(len, packed), np.uint64, len(packed))
        pairs = np.empty(len(packed), _PAIR)
        pairs["hash"] = _hashes(keys)
        pairs["place"] = np.uint64(self._end) + np.cumsum(lengths) - lengths
        parts = pairs["hash"] >> _PART_BITS
        order = np.argsort(parts, kind="stable")
        cuts = np.searchsorted(parts[order], np.arange(_PARTS + 1, dtype=np.uint64))
        pairs = pairs[order]
        for part, start, end in zip(self._parts, cuts[:-1], cuts[1:], strict=True):
            part.write(pairs[start:end].tobytes())
        self._rows.write(b"".join(packed))
        self._end += int(lengths.sum())

    def finish(self) -> None:
        """All rows are there.

        Raises:
            OSError: The disk is full, or broken.
        """
        hashes, places = _new_file(), _new_file()
        for part in self._parts:
            part.seek(0)
            pairs = np.frombuffer(part.read(), _PAIR)
            order = np.argsort(pairs["hash"], kind="stable")
            hashes.write(pairs["hash"][order].tobytes())
            places.write(pairs["place"][order].tobytes())
            part.close()
        self._hashes = np.frombuffer(_mapped(hashes), np.uint64)
        self._places = np.frombuffer(_mapped(places), np.uint64)
        self._packed = memoryview(_mapped(self._rows))

    def close(self) -> None:
        """Give up before all rows are there."""
        for file in (self._rows, *self._parts):
            file.close()

    def find(self, keys: Sequence[Any], matches: Matches) -> list[list[list[Any]]]:
        """The rows of each key, in their order.

        Args:
            keys: Which.
            matches: Which rows of a key count.

        Raises:
            TypeError: A key has no hash.
        """
        found: list[list[list[Any]]] = [[] for _ in keys]
        if not len(self._hashes):
            return found
        wanted = _hashes(keys)
        starts = np.searchsorted(self._hashes, wanted)
        at = np.minimum(starts, len(self._hashes) - 1)
        there = np.flatnonzero(self._hashes[at] == wanted)
        ends = np.searchsorted(self._hashes, wanted[there], "right")
        for i, start, end in zip(
            there.tolist(), starts[there].tolist(), ends.tolist(), strict=True
        ):
            found[i] = self._rows_of(keys[i], start, end, matches)
        return found

    def _rows_of(self, key: Any, start: int, end: int, matches: Matches) -> list[list[Any]]:
        places = self._places[start:end].tolist()
        packed, load = self._packed, pickle.loads
        pairs = (load(packed[at:]) for at in (reversed(places) if matches == "last" else places))
        rows = (row for of, row in pairs if of == key)
        return [*rows] if matches == "all" else [*islice(rows, 1)]


def _new_file() -> IO[bytes]:
    return TemporaryFile(dir=os.environ.get(STATE_FOLDER), prefix="fulmen-table-")


def _mapped(file: IO[bytes]) -> mmap | bytes:
    """The content of a file, which is closed."""
    with file:
        file.flush()
        if not os.fstat(file.fileno()).st_size:
            return b""
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    mapped.madvise(MADV_RANDOM)
    return mapped


def _hashes(keys: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.fromiter(map(hash, keys), np.int64, len(keys)).view(np.uint64) * _SPREAD
