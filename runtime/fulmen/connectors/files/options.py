"""The `config` of spouts and sinks of files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from fulmen.connectors.files.columns import DECIMAL, MOST_DIGITS, TYPES
from fulmen.connectors.formats import (
    BytesOptions,
    CsvOptions,
    JsonOptions,
    LineFormatOptions,
    TextOptions,
)
from fulmen.connectors.formats.encodings import UTF_8
from fulmen.connectors.formats.options import of_lines
from fulmen.connectors.options import Options, SinkOptions, refuse_attempt

Path = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(min_length=1)]


def _type_of_column(kind: str) -> str:
    if kind in TYPES or ((found := DECIMAL.fullmatch(kind)) and _is_decimal(*found.groups())):
        return kind
    raise ValueError(
        f"there is no type {kind!r} of columns, only {', '.join(TYPES)} and decimal(P,S) with up to"
        f" {MOST_DIGITS} digits, S of them behind the point"
    )


def _is_decimal(precision: str, scale: str) -> bool:
    return 1 <= int(precision) <= MOST_DIGITS and int(scale) <= int(precision)


ColumnType = Annotated[str, AfterValidator(_type_of_column)]


class SourceOptions(Options):
    """Options of all spouts of files."""

    path: Path | Annotated[tuple[Path, ...], Field(min_length=1)]
    """Which files: a path or URI (`s3://`, `gs://`, `az://`), or a list of them. In the last of
    them `*` is any name, `?` any character, `[a-z]` one of these, and `**` any folders."""
    follow: bool = True
    """Whether files and lines may come later. False: the spout ends where the files do."""
    poll_seconds: Annotated[float, Field(gt=0)] = 1.0
    """How often to look for new files and lines, at most."""
    in_order: bool = False
    """Whether files follow one another in time, as those of each day do. Then event time goes on
    with each of them. Default: each file has times of its own, and event time waits for those that
    are not read yet."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as a tuple."""
        return (self.path,) if isinstance(self.path, str) else self.path


class FileSpoutOptions(SourceOptions):
    """Files of lines."""

    format: LineFormatOptions = TextOptions()
    """What each line is: `text`, `bytes`, `json` or `csv`."""
    header: bool = False
    """Whether the first record of each file of CSV that is not blank names its values. Then
    `fields` of the format are those to be read, in any order."""
    file_field: Name | None = None
    """The name of one more field, with the file's path. Default: none."""
    max_line_bytes: Annotated[int, Field(ge=1)] = 1 << 20
    """A line with more bytes is malformed."""

    @property
    def encoding(self) -> str:
        """The encoding of the lines."""
        return getattr(self.format, "encoding", UTF_8)

    @model_validator(mode="after")
    def _check(self) -> FileSpoutOptions:
        if isinstance(self.format, CsvOptions) and not self.format.fields:
            raise ValueError("format.fields is missing: name the values of CSV that are to be read")
        if self.header and not isinstance(self.format, CsvOptions):
            raise ValueError("header is for the format csv only")
        if self.file_field in self.format.make().fields:
            raise ValueError(f"fileField: the format has a field {self.file_field!r} already")
        return self


class TransactionalFileSpoutOptions(FileSpoutOptions):
    """Options of a `TransactionalFileSpout` and an `OpaqueTransactionalFileSpout`."""

    max_messages: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """How many lines of its files each task has in a transaction at most. It has no more, either,
    when they have a megabyte."""

    @model_validator(mode="after")
    def _have_attempts(self) -> TransactionalFileSpoutOptions:
        refuse_attempt((*self.format.make().fields, self.file_field))
        return self


class ParquetSpoutOptions(SourceOptions):
    """Files in Parquet."""

    fields: (
        Annotated[tuple[Name, ...], Field(min_length=1)]
        | Annotated[dict[Name, ColumnType], Field(min_length=1)]
    )
    """The columns that are read, which become the fields: a list, or a mapping to their types,
    which are those of the sink's columns. A file whose columns are of other types is not read."""
    batch_rows: Annotated[int, Field(ge=1, le=100_000)] = 1024
    """How many rows are emitted at once, at most."""


class ParquetOptions(Options):
    """Rows as one file in Parquet."""

    type: Literal["parquet"]
    columns: Annotated[dict[Name, ColumnType], Field(min_length=1)]
    """The columns and their types: `string`, `binary`, `bool`, `int32`, `int64`, `float32`,
    `float64`, `decimal(P,S)` (P digits, S of them behind the point), `date32`, `time` or
    `timestamp` (in microseconds, UTC). Each is a field of the rows."""
    compression: Literal["none", "snappy", "gzip", "zstd"] = "zstd"
    """How columns are compressed."""


FileFormatOptions = Annotated[
    TextOptions | BytesOptions | JsonOptions | CsvOptions | ParquetOptions,
    Field(discriminator="type"),
    AfterValidator(of_lines),
]


class FileSinkOptions(SinkOptions):
    """The place of written files, and their form."""

    path: Path
    """The folder: a path or a URI (`s3://`, `gs://`, `az://`). It is made if it is missing; a
    bucket must exist."""
    format: FileFormatOptions
    """What a file is: one line for each row as `json`, `csv`, `text` or `bytes`, or `parquet`."""
    header: bool = False
    """Whether each file of CSV begins with the names of its values."""
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_=-][A-Za-z0-9._=-]*$")] = "part"
    """What the names of files begin with."""
    compression: Literal["none", "gzip"] = "none"
    """How files of lines are compressed."""

    @model_validator(mode="after")
    def _check(self) -> FileSinkOptions:
        if self.header and not isinstance(self.format, CsvOptions):
            raise ValueError("header is for the format csv only")
        if self.compression != "none" and isinstance(self.format, ParquetOptions):
            raise ValueError("compression is for lines: Parquet has format.compression")
        return self


class RollingFileSinkOptions(FileSinkOptions):
    """The place and form of written files, and when one is full."""

    guarantee: Literal["exactly-once"] = "exactly-once"
    """What the sink promises. There is only one guarantee: rows wait in the checkpoint, and a file
    is written when all its rows are committed."""
    roll_bytes: Annotated[int, Field(ge=1, le=1 << 30)] = 16 << 20
    """A file is written when its rows have so many bytes, before compression."""
    roll_seconds: Annotated[float, Field(gt=0)] = 60.0
    """A file is written when its first row is so old. This is looked at when rows come, and at each
    tick: set `tickSeconds` of the bolt."""
