"""The rows of a Parquet file, in record batches that are bounded in bytes.

A few bytes of Parquet may stand for gigabytes: a long value that many rows share, or lists of
nulls. How many rows are read at once follows from what the file's footer says of its columns, and
from the longest value that rows share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_BYTES = 16 << 20
"""About so many bytes has a batch, unless one row has more."""
MOST_BYTES = 256 << 20
"""So many has a page, which Arrow unpacks as a whole, or a row."""
_BUFFER_BYTES = 1 << 20
_SMALL_BYTES = 4 << 20
_HEADER_BYTES = (1 << 12, 1 << 20)
_LEAST_HEADER_BYTES = 7
_BAD_HEADER = "it is not Parquet: the header of a page can't be read"
_WIDEST = 16
"""So many bytes has a value that is no text, at most."""


_I32, _BINARY, _STRUCT = 5, 8, 12
_VARINTS = (4, 5, 6)
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}
"""How many bytes a value of a kind has: switches, a byte, a float."""


class Unfit(Exception):
    """A file lacks what is to be read of it, or has more than can be in memory."""


class RowGroups:
    """Some columns of an open file.

    Attributes:
        file: As Arrow reads it.
    """

    def __init__(self, content: Any) -> None:
        self.file = pq.ParquetFile(content, buffer_size=_BUFFER_BYTES)
        self._content = content

    def batches(
        self, group: int, columns: Sequence[str], most_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a row group.

        Raises:
            Unfit: A row has too many bytes.
        """
        at_once = self._rows_at_once(group, columns, most_rows)
        some: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.file.iter_batches(at_once, [group], list(columns)):
            some.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows + at_once > most_rows or size >= BATCH_BYTES:
                yield one_batch(some)
                some, rows, size = [], 0, 0
        if some:
            yield one_batch(some)

    def _rows_at_once(self, group: int, columns: Sequence[str], most_rows: int) -> int:
        """The number of rows that can be read at once, whatever they share."""
        metadata = self.file.metadata.row_group(group)
        chunks = {i: metadata.column(i) for i in range(metadata.num_columns)}
        wanted = {
            i: chunk
            for i, chunk in chunks.items()
            if chunk.path_in_schema.partition(".")[0] in columns or chunk.path_in_schema in columns
        }
        for chunk in wanted.values():
            self._check_pages(chunk)
        rows = max(1, metadata.num_rows)
        certain = possible = 0.0
        shared: dict[str, float] = {}
        for i, chunk in wanted.items():
            values, average = chunk.num_values / rows, chunk.total_uncompressed_size / rows
            if chunk.physical_type != "BYTE_ARRAY":
                certain += values * (self.file.schema.column(i).length or _WIDEST)
            elif "DELTA_BYTE_ARRAY" in chunk.encodings:  # each value may begin as the one before
                possible += values * chunk.total_uncompressed_size
            elif not chunk.has_dictionary_page:
                certain += average
            elif most_rows * values * chunk.total_uncompressed_size <= BATCH_BYTES:
                possible += values * chunk.total_uncompressed_size
            else:
                possible += average
                shared[chunk.path_in_schema] = values
        if certain > MOST_BYTES:
            raise Unfit(
                f"a row has {certain / 2**20:,.0f} MiB on average, and {MOST_BYTES >> 20} MiB"
                " is the limit"
            )
        possible += certain + sum(shared.values()) * self._longest(group, list(shared))
        return max(1, min(most_rows, int(BATCH_BYTES / max(1.0, possible))))

    def _check_pages(self, chunk: Any) -> None:
        """See that no page of a column is too large, whatever its few bytes are unpacked to.

        The footer says what all of them have. If they are few bytes, they are looked at themselves.
        """
        is_small = chunk.total_compressed_size <= _SMALL_BYTES
        if not is_small and chunk.total_uncompressed_size <= MOST_BYTES:
            return
        at = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            at = min(at, chunk.dictionary_page_offset)
        end = at + chunk.total_compressed_size
        while at < end:
            header = self._header(at)
            if header.length < _LEAST_HEADER_BYTES:
                raise Unfit(_BAD_HEADER)
            if header.unpacked > MOST_BYTES:
                raise Unfit(
                    f"a page of its column {chunk.path_in_schema!r} has"
                    f" {header.unpacked / 2**20:,.0f} MiB, and {MOST_BYTES >> 20} MiB is the limit."
                    " Write it with smaller pages"
                )
            at += header.length + max(0, header.packed)

    def _header(self, at: int) -> PageHeader:
        for size in _HEADER_BYTES:
            self._content.seek(at)
            with suppress(IndexError):  # it has long statistics
                return PageHeader(self._content.read(size))
        raise Unfit(_BAD_HEADER)

    def _longest(self, group: int, paths: list[str]) -> int:
        """The bytes of the longest value that rows of these columns share."""
        if not paths:
            return 0
        file = pq.ParquetFile(
            self._content,
            metadata=self.file.metadata,
            read_dictionary=paths,
            buffer_size=_BUFFER_BYTES,
        )
        columns = next(file.iter_batches(1, [group], paths)).columns
        lengths = (pc.max(pc.binary_length(one)).as_py() for one in _dictionaries(columns))
        return max((length or 0 for length in lengths), default=0)


class PageHeader:
    """The header of a page, as Thrift's compact protocol writes it.

    Attributes:
        unpacked: How many bytes the page has for Arrow.
        packed: How many it has in the file.
        length: How many bytes the header has.

    Raises:
        IndexError: It has more bytes than were given.
        Unfit: It is none.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self.length = data, 0
        self.unpacked = self.packed = 0
        self._struct(is_outer=True)

    def _byte(self) -> int:
        self.length += 1
        return self._data[self.length - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _struct(self, *, is_outer: bool = False) -> None:
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            if is_outer and number in (2, 3) and kind == _I32:
                setattr(self, "unpacked" if number == 2 else "packed", self._zigzag())
            else:
                self._skip(kind)

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _skip(self, kind: int) -> None:
        if kind in _VARINTS:
            self._varint()
        elif kind == _BINARY:
            size = self._varint()
            self.length += size
        elif kind == _STRUCT:
            self._struct()
        elif kind in _FIXED:
            self.length += _FIXED[kind]
        else:
            raise Unfit(_BAD_HEADER)


def _dictionaries(arrays: Sequence[Any]) -> Iterator[pa.Array]:
    """The values that rows share, also within lists, maps and structs."""
    for array in arrays:
        if pa.types.is_dictionary(array.type):
            yield array.dictionary
        elif pa.types.is_struct(array.type):
            yield from _dictionaries(array.flatten())
        elif hasattr(array, "values"):
            yield from _dictionaries([array.values])


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches into one."""
    if len(batches) == 1:
        return batches[0]
    table: Any = pa.Table.from_batches(batches).combine_chunks()
    made: pa.RecordBatch = table.to_batches()[0]
    return made
