"""Sinks of files: a file for each batch, or files of a size and age."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components.sinks import Guarantee, Mark, Rows, Sink
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import ANY_STREAM, Stream
from fulmen.connectors.base.gathering import Gathered, GatheringSink
from fulmen.connectors.files.contents import Encoder, FileContent, content_of, mistaken_columns
from fulmen.connectors.files.marks import FOLDER, FileMarks
from fulmen.connectors.files.options import FileSinkOptions, RollingFileSinkOptions
from fulmen.connectors.files.places.buckets import Bucket, is_uri
from fulmen.connectors.files.places.folder import LocalFolder
from fulmen.connectors.formats import Malformed, Rowlike, encode_each


def place_of(path: str) -> LocalFolder | Bucket:
    """Open the place where files are written.

    Raises:
        BadPlace: It is no place for files.
    """
    if is_uri(path) and not path.startswith("file://"):
        return Bucket(path)
    return LocalFolder(path.removeprefix("file://"))


def file_name(prefix: str, label: str, number: int, tag: str, suffix: str) -> str:
    """The name of a file, by what is in it: the names of a task's files rise."""
    safe = re.sub(r"[^A-Za-z0-9_.=-]", "-", label)
    return f"{prefix}-{safe}-{number:010d}-{tag}{suffix}"


class FileSink(Sink):
    """Writes a file for each task and each batch that has rows for it.

    A file appears whole. Its name follows from the commit that has its rows, so that it is written
    once, whatever is repeated. Exactly once, a mark in the folder says which commit was written
    last: so a folder, or a checkpoint, that was set back is noticed.
    """

    config_model = FileSinkOptions
    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once", "exactly-once")
    durable = ()

    appends = True

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        return mistaken_columns(options, stream)

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._context = context
        self._options: FileSinkOptions = context.options
        self._content: FileContent = content_of(self._options)
        self._place = place_of(self._options.path)
        self._place.check()
        self._marks = FileMarks(self._place.inner(FOLDER))

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        try:
            encode = self._content.encoder(rows.fields)
            encode_many = self._content.encoder_of_many(rows.fields)
        except Malformed as error:
            rows.fail_all(str(error))
            return rows
        return encode_each(rows, encode, encode_many)

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        self._content.encoder(rows.fields)  # of a new instance: it writes what was encoded before
        if mark is not None:
            self._marks.set(mark)
            number, tag = mark.number, _known_by(mark) + mark.tag
        else:
            batch = self._context.batch
            number, tag = batch.number, batch.attempt
        label = self._context.label
        name = file_name(self._options.prefix, label, number, tag, self._content.suffix)
        data = self._content.file([self._content.chunk(list(rows))])
        self._place.put(name, data)


def _known_by(mark: Mark) -> str:
    """The part of the names that all files of the task in this checkpoint have, and no others."""
    return mark.sink[:8]


class RollingFileSink(GatheringSink):
    """Writes a file for rows of several batches. It appears whole, and a row is in one file."""

    config_model = RollingFileSinkOptions
    options: RollingFileSinkOptions

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        return mistaken_columns(options, ANY_STREAM if options.any_stream else stream)

    @override
    def connect(self) -> None:
        self._content: FileContent = content_of(self.options)
        self._place = place_of(self.options.path)
        self._place.check()
        self._marks = FileMarks(self._place.inner(FOLDER))

    @override
    def encoder(self, fields: tuple[str, ...]) -> Encoder:
        return self._content.encoder(fields)

    @override
    def encoder_of_many(self, fields: tuple[str, ...]) -> Callable[[Rowlike], list[Any]]:
        return self._content.encoder_of_many(fields)

    @override
    def chunk(self, rows: list[Any]) -> bytes:
        return self._content.chunk(rows)

    @override
    def put(self, gathered: Gathered, chunks: list[bytes]) -> None:
        kept = self.context.signals.kept_mark
        if kept.sink:
            mark = Mark(kept.sink, *gathered.point, gathered.label, kept.point)
            self._marks.set(mark, [full.point for full in self.full if full != gathered])
        name = file_name(self.options.prefix, *gathered[:3], self._content.suffix)
        self._place.put(name, self._content.file(chunks))
        kept.point = gathered.point
