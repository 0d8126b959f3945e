"""A column of strings as one text: what is sent, what is hashed, and a column that can be divided.

A NUL stands at the end of each string. So one join makes the column, one split makes the strings
again, and the text is hashed as it is, because a zero at the beginning of the next string adds
nothing to its hash. Splitting takes half the time of making Python strings of an Arrow array.

A column that can't be written so has no StringColumn: one with a NUL in a string, a lone surrogate,
or any value that is not exactly a `str`. Its values take the ways of columns.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import countOf
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NUL = "\0"


class StringColumn:
    """Strings, each with a NUL after it. One column has the same strings in both of its forms."""

    __slots__ = ("_array", "_ends", "_text")

    def __init__(self, array: pa.LargeStringArray | None = None, text: bytes | None = None) -> None:
        """Make it of one of the two forms, or of both; the other is made when it is asked for.

        Args:
            array: The strings with their NULs, without nulls.
            text: All strings in UTF-8, each with a NUL after it.
        """
        self._array = array
        self._text = text
        self._ends: npt.NDArray[np.intp] | None = None

    @staticmethod
    def of(values: Sequence[Any]) -> StringColumn | None:
        """The column of these values; None if there can be none."""
        is_text = countOf(map(type, values), str) == len(values)
        return StringColumn.joined(values) if is_text else None

    @staticmethod
    def joined(values: Sequence[str]) -> StringColumn | None:
        """Join values that may be of subclasses of str.

        Raises:
            TypeError: One is no text at all.
        """
        try:
            text = (_NUL.join(values) + _NUL).encode() if values else b""
        except UnicodeEncodeError:  # a lone surrogate
            return None
        column = StringColumn(text=text)
        return column if len(column.ends) == len(values) else None  # else one has a NUL of its own

    @property
    def array(self) -> pa.LargeStringArray:
        """The strings with their NULs."""
        if self._array is None:
            ends = self.ends
            offsets = np.empty(len(ends) + 1, np.int64)
            offsets[0] = 0
            np.add(ends, 1, out=offsets[1:])
            buffers = pa.py_buffer(offsets), pa.py_buffer(self.text)
            self._array = pa.LargeStringArray.from_buffers(len(ends), *buffers)
        return self._array

    @property
    def ends(self) -> npt.NDArray[np.intp]:
        """The places of the NULs in the text."""
        if self._ends is None:
            self._ends = (np.frombuffer(self.text, np.uint8) == 0).nonzero()[0]
        return self._ends

    @property
    def text(self) -> bytes:
        """All strings in UTF-8, each with a NUL after it."""
        if self._text is None:
            n, first = len(self.array), self.array.offset
            if not n:
                return b""
            _, offsets, data = self.array.buffers()
            start, end = np.frombuffer(offsets, np.int64)[[first, first + n]].tolist()
            self._text = data[start:end].to_pybytes()
        return self._text

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, some: slice) -> StringColumn:
        """The strings of a slice."""
        return StringColumn(self.array[some])

    def take(self, index: pa.Array) -> StringColumn:
        """The strings at `index`."""
        return StringColumn(self.array.take(index))

    @staticmethod
    def concat(parts: Iterable[StringColumn]) -> StringColumn:
        """Join all parts."""
        return StringColumn(text=b"".join([part.text for part in parts]))

    @property
    def nbytes(self) -> int:
        """The size of the column in bytes."""
        return int(self.array.nbytes)

    def to_pylist(self) -> list[str]:
        """The strings."""
        strings = str(self.text, "utf-8").split(_NUL)
        strings.pop()  # what is after the last NUL: nothing
        return strings
