"""The contents of files: rows as lines in a format, or as Parquet.

A row becomes an item, items become a chunk of bytes, and chunks become a file. The same chunks
become the same bytes.
"""

from __future__ import annotations

import gzip
import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.files.columns import all_fit, arrow_type, column
from fulmen.connectors.files.options import FileSinkOptions, ParquetOptions
from fulmen.connectors.formats import (
    BytesOptions,
    CsvOptions,
    Format,
    JsonOptions,
    Malformed,
    Rowlike,
    TextOptions,
)
from fulmen.connectors.formats.base import positions, refused
from fulmen.connectors.formats.encodings import UTF_8, mark_of
from fulmen.connectors.formats.types import misfits

_SUFFIXES: dict[type, str] = {
    JsonOptions: ".jsonl",
    CsvOptions: ".csv",
    TextOptions: ".txt",
    BytesOptions: ".bin",
}
Encoder = Callable[[Sequence[Any]], Any]


class FileContent(ABC):
    """Writes down rows as a file's content.

    Attributes:
        suffix: Of the names of files.
    """

    suffix: str

    @abstractmethod
    def encoder(self, fields: Sequence[str]) -> Encoder:
        """A function that makes an item of a row. It raises Malformed for a row that can't be.

        Args:
            fields: The names of the values that it will get, in their order.

        Raises:
            Malformed: A field that is to be written is not among them.
        """

    @abstractmethod
    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[Any]]:
        """A function that makes items of rows, as that of `encoder` does of each.

        It raises whatever it may if one of them is another case.
        """

    @abstractmethod
    def chunk(self, items: Sequence[Any]) -> bytes:
        """Items as bytes."""

    @abstractmethod
    def file(self, chunks: Sequence[bytes]) -> bytes:
        """A whole file of these chunks."""


def mistaken_columns(options: FileSinkOptions, stream: Stream) -> Iterator[str]:
    """Yield the mistakes of a stream whose rows are to be written."""
    yield from refused(lambda: content_of(options).encoder(stream.fields))
    if isinstance(options.format, ParquetOptions):
        columns = options.format.columns
        yield from misfits(stream.types, [(name, column(kind)) for name, kind in columns.items()])


def content_of(options: FileSinkOptions) -> FileContent:
    """Make the writer of a sink's rows."""
    if isinstance(options.format, ParquetOptions):
        return _Parquet(options.format)
    return _Lines(options)


class _Lines(FileContent):
    def __init__(self, options: FileSinkOptions) -> None:
        self._options = options
        self._may_have_line_feeds = isinstance(options.format, TextOptions | BytesOptions)
        self.suffix = _SUFFIXES[type(options.format)]
        if options.compression == "gzip":
            self.suffix += ".gz"
        self._fields: tuple[str, ...] = ()

    def _format(self, fields: Sequence[str]) -> Format:
        """The format. All files have the values in the order of the first row's fields."""
        assert not isinstance(self._options.format, ParquetOptions)
        self._fields = self._fields or tuple(fields)
        chosen = self._options.format
        if isinstance(chosen, CsvOptions | JsonOptions) and not chosen.fields:
            chosen = chosen.model_copy(update={"fields": self._fields})
        return chosen.make()

    @override
    def encoder(self, fields: Sequence[str]) -> Encoder:
        encode = self._format(fields).encoder(fields)
        self._header()  # which the encoding may not have
        if not self._may_have_line_feeds:
            return lambda values: encode(values) + b"\n"

        def checked(values: Sequence[Any]) -> bytes:
            data = encode(values)
            if b"\n" in data:
                raise Malformed("it has a line feed, which would end the line. Write json or csv")
            if data.endswith(b"\r"):
                raise Malformed(
                    "it ends with a carriage return, which is no part of a line. Write json or csv"
                )
            return data + b"\n"

        return checked

    @override
    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[bytes]]:
        if self._may_have_line_feeds:
            encode = self.encoder(fields)
            return lambda rows: list(map(encode, rows))
        encode_many = self._format(fields).encoder_of_many(fields)
        return lambda rows: [line + b"\n" for line in encode_many(rows)]

    @override
    def chunk(self, items: Sequence[Any]) -> bytes:
        return b"".join(items)

    @override
    def file(self, chunks: Sequence[bytes]) -> bytes:
        data = b"".join([self._header(), *chunks])
        # no reader takes one for data at the beginning of a file
        data = mark_of(data, getattr(self._options.format, "encoding", UTF_8)) + data
        if self._options.compression == "gzip":
            return gzip.compress(data, mtime=0)
        return data

    def _header(self) -> bytes:
        chosen = self._options.format
        if not self._options.header or not isinstance(chosen, CsvOptions):
            return b""
        names = tuple(chosen.fields) or self._fields
        plain = CsvOptions(type="csv", delimiter=chosen.delimiter, encoding=chosen.encoding)
        return plain.make().encoder(names)(names) + b"\n"


class _Parquet(FileContent):
    suffix = ".parquet"

    def __init__(self, options: ParquetOptions) -> None:
        self._compression = options.compression
        self._schema = pa.schema([(name, arrow_type(t)) for name, t in options.columns.items()])
        self._kinds = list(options.columns.values())
        self._columns = [(name, column(t)) for name, t in options.columns.items()]

    @override
    def encoder(self, fields: Sequence[str]) -> Encoder:
        at = positions(self._schema.names, fields)
        columns = [(i, *column) for i, column in zip(at, self._columns, strict=True)]

        def encode(values: Sequence[Any]) -> list[Any]:
            made = []
            for i, name, convert in columns:
                try:
                    made.append(convert(values[i]))
                except Malformed as error:
                    raise Malformed(f"column {name!r}: {error}") from None
            return made

        return encode

    @override
    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[Any]]:
        at = positions(self._schema.names, fields)
        wanted = [
            (itemgetter(i), kind, convert)
            for i, kind, (_, convert) in zip(at, self._kinds, self._columns, strict=True)
        ]

        def encode_many(rows: Rowlike) -> list[Any]:
            columns: list[Sequence[Any]] = []
            for pick, kind, convert in wanted:
                values = list(map(pick, rows))
                columns.append(values if all_fit(kind, values) else list(map(convert, values)))
            return list(map(list, zip(*columns, strict=True)))

        return encode_many

    @override
    def chunk(self, items: Sequence[Any]) -> bytes:
        return pickle.dumps(list(items), 5)

    @override
    def file(self, chunks: Sequence[bytes]) -> bytes:
        rows = [row for chunk in chunks for row in pickle.loads(chunk)]
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        arrays = [
            pa.array(list(column), kind)
            for column, kind in zip(columns, self._schema.types, strict=True)
        ]
        data = io.BytesIO()
        compression = "NONE" if self._compression == "none" else self._compression
        pq.write_table(pa.table(arrays, schema=self._schema), data, compression=compression)
        return data.getvalue()
