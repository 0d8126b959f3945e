"""Lookups in tables that are files: CSV, lines of JSON, Parquet."""

from __future__ import annotations

import os
import sys
from bz2 import BZ2File
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from gzip import GzipFile
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, model_validator
from typing_extensions import override

from fulmen.connectors.base.lookup.bolt import TableLookup
from fulmen.connectors.base.lookup.options import WholeTableOptions
from fulmen.connectors.base.lookup.table import LookupTable, Rows, Seen, TableError
from fulmen.connectors.base.source import Source
from fulmen.connectors.files.columns import is_of
from fulmen.connectors.files.options import ColumnType, FileSpoutOptions, Name, Path
from fulmen.connectors.files.places import packed
from fulmen.connectors.files.reading.line_spout import spaces_of
from fulmen.connectors.files.reading.readers import FileReader
from fulmen.connectors.files.reading.records import Record, blocks
from fulmen.connectors.files.reading.row_groups import RowGroups, Unfit
from fulmen.connectors.formats import CsvOptions, JsonOptions, Malformed
from fulmen.connectors.formats.csv_format import Quotes
from fulmen.connectors.formats.encodings import without_mark
from fulmen.connectors.formats.options import of_lines
from fulmen.connectors.options import Options
from fulmen.errors import text_of

_YOUNG_SECONDS = 2.0
"""So coarse may be the times of a file system."""
_ROWS_AT_ONCE = 10_000
_LONGEST_LINE = 16 << 20
_BYTES_AT_ONCE = 1 << 20


class ParquetTable(Options):
    """A table in Parquet."""

    type: Literal["parquet"]
    fields: (
        Annotated[tuple[Name, ...], Field(min_length=1)]
        | Annotated[dict[Name, ColumnType], Field(min_length=1)]
    )
    """The columns that are read: a list, or a mapping to their types."""


TableFormat = Annotated[CsvOptions | JsonOptions | ParquetTable, Field(discriminator="type")]


class FileLookupOptions(WholeTableOptions):
    """The `config` of a FileLookup."""

    path: Path
    """The file, of this machine or of a volume that each worker's pod has. One that ends in `.gz`
    or `.bz2` is unpacked."""
    format: TableFormat
    """What the file is: records as `csv` or lines as `json`, with the `fields` that they have, or
    `parquet`."""
    header: bool = False
    """Whether the first record of CSV names its values. Then `fields` of the format are those to be
    read, in any order."""

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(self.format.fields)

    @property
    @override
    def types(self) -> Mapping[str, str]:
        if not isinstance(self.format, ParquetTable):
            return self.format.make().types
        known = self.format.fields if isinstance(self.format.fields, dict) else {}
        return {name: kind.partition("(")[0] for name, kind in known.items()}

    @property
    def lines(self) -> FileSpoutOptions:
        """How the lines of the file are read."""
        return FileSpoutOptions(path=self.path, format=self.format, header=self.header)

    @model_validator(mode="after")
    def _can_be_read(self) -> FileLookupOptions:
        if not self.columns:
            raise ValueError("format.fields is missing: name the columns of the table")
        if self.header and not isinstance(self.format, CsvOptions):
            raise ValueError("header is for the format csv only")
        if not isinstance(self.format, ParquetTable):
            of_lines(self.format)
        if (refusal := packed.refusal(self.path)) is not None:
            raise ValueError(f"path: {refusal}")
        return self


class FileLookup(TableLookup):
    """Completes tuples with the rows of a file, which is read again when it changes."""

    config_model = FileLookupOptions

    @override
    def table(self, options: FileLookupOptions) -> LookupTable:
        return FileLookupTable(options)


class FileLookupTable(LookupTable):
    """A file."""

    def __init__(self, options: FileLookupOptions) -> None:
        self._options = options
        self.name = f"file '{options.path}'"

    @override
    def look(self) -> Seen:
        status = os.stat(self._options.path)
        version = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        is_young = Source.today() - status.st_mtime < _YOUNG_SECONDS
        return Seen((status.st_dev, status.st_ino), version, is_young)

    @override
    def read(self) -> Iterator[Rows]:
        path = self._options.path
        try:
            with open(path, "rb") as file:
                content = packed.unpacked(path, file)
                if isinstance(self._options.format, ParquetTable):
                    with _seekable(content) as whole:
                        yield from self._of_parquet(whole)
                else:
                    yield from self._of_lines(content)
        except packed.ERRORS as error:
            if not packed.is_corrupt(error):
                raise
            raise TableError(packed.reason_of(path, error)) from None

    def _of_lines(self, content: Any) -> Iterator[Rows]:
        options = self._options.lines
        chosen, spaces = options.format, spaces_of(options)
        quotes = None
        if isinstance(chosen, CsvOptions):
            quotes = Quotes(chosen.delimiter, chosen.encoding)
        reader: FileReader | None = None
        for block in blocks(
            content,
            0,
            sys.maxsize,
            is_complete=True,
            quotes=quotes,
            most_bytes=_LONGEST_LINE,
        ):
            records = [*block.records()]
            if not block.starts[0]:
                start, end, data, is_too_long = records[0]
                records[0] = Record(start, end, without_mark(data, options.encoding), is_too_long)
            records = [one for one in records if spaces is None or one.data.strip(spaces)]
            if reader is None and records:
                reader = FileReader(options, records[0] if options.header else None)
            if reader is None:
                continue
            records = [one for one in records if one.start >= reader.begin]
            rows = reader.decode_each([one.data for one in records])
            for record, row in zip(records, rows, strict=True):
                if isinstance(row, Malformed) or record.is_too_long:
                    why = f"it has more than {_LONGEST_LINE:,} bytes" if record.is_too_long else row
                    raise TableError(f"line {_line_at(content, record.start)}: {why}")
            yield rows  # type: ignore[misc]  # none is Malformed
        if reader is None and self._options.header:
            raise TableError("it has no header: it is empty")

    def _of_parquet(self, content: Any) -> Iterator[Rows]:
        fields = self._options.format.fields
        try:
            groups = RowGroups(content)
            self._check(groups.file.schema_arrow)
            metadata = groups.file.metadata
            some = [i for i in range(metadata.num_row_groups) if metadata.row_group(i).num_rows]
            for group in some:
                for batch in groups.batches(group, [*fields], _ROWS_AT_ONCE):
                    columns = [batch.column(name).to_pylist() for name in fields]
                    yield list(map(list, zip(*columns, strict=True)))
        except Unfit as error:
            raise TableError(str(error)) from None
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"it is not Parquet: {text_of(error)}") from None

    def _check(self, schema: Any) -> None:
        """See that the columns are there, once each, and of their types.

        Raises:
            TableError: One is not.
        """
        fields = self._options.format.fields
        kinds: Any = fields if isinstance(fields, dict) else {}
        for name in fields:
            if schema.names.count(name) != 1:
                count = schema.names.count(name) or "no"
                raise TableError(f"it has {count} columns {name!r}: there are {schema.names}")
            actual = schema.field(name).type
            if name in kinds and not is_of(kinds[name], actual):
                raise TableError(f"its column {name!r} is {actual}, which is no {kinds[name]}")


@contextmanager
def _seekable(content: Any) -> Iterator[Any]:
    """The content of an open file, unpacked: Parquet is not read in its order."""
    if not isinstance(content, GzipFile | BZ2File):
        yield content
        return
    with TemporaryFile() as whole:
        copyfileobj(content, whole)
        yield whole


def _line_at(content: Any, place: int) -> int:
    """The number of the line that begins at a place."""
    content.seek(0)
    lines = 1
    while place > 0 and (some := content.read(min(place, _BYTES_AT_ONCE))):
        lines, place = lines + some.count(b"\n"), place - len(some)
    return lines
