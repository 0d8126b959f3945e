"""Sinks of files: a file for each batch, or files of a size and age."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.context import TopologyContext
from fulmen.api.declarer import ANY_STREAM, Stream
from fulmen.api.sinks import Guarantee, Mark, Rows, Sink
from fulmen.connectors.base.gathering import Gathered, GatheringSink
from fulmen.connectors.files.contents import Encoder, FileContent, content_of, mistaken_columns
from fulmen.connectors.files.options import FileSinkOptions, RollingFileSinkOptions
from fulmen.connectors.files.places.buckets import Bucket, is_uri
from fulmen.connectors.files.places.local import LocalFolder
from fulmen.connectors.formats import Malformed, encode_each


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
    once, whatever is repeated. Files of later commits of the same checkpoint say that this one was
    set back.
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
        self._has_looked = False

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        try:
            encode = self._content.encoder(rows.fields)
        except Malformed as error:
            rows.fail_all(str(error))
            return rows
        return encode_each(rows, encode)

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        self._content.encoder(rows.fields)  # of a new instance: it writes what was encoded before
        if mark is not None and not self._has_looked:
            self._look_for_later(mark)
            self._has_looked = True
        if mark is not None:
            label, number, tag = mark.label, mark.number, _known_by(mark) + mark.tag
        else:
            context, batch = self._context, self._context.batch
            label = f"{context.topology}/{context.component}/{context.task_index}"
            number, tag = batch.number, batch.attempt
        name = file_name(self._options.prefix, label, number, tag, self._content.suffix)
        data = self._content.file([self._content.chunk(list(rows))])
        self._place.put(name, data)

    def _look_for_later(self, mark: Mark) -> None:
        """See that no other commit is behind the last one that was written.

        Raises:
            StoreMismatch: There is one: the checkpoint was set back.
        """
        if mark.previous is None:
            return
        first = file_name(self._options.prefix, mark.label, mark.previous.number, "", "")
        stem = first[: -len("0000000000-")]
        for name in self._place.names_from(first):
            if not name.startswith(stem):
                return
            number, _, tag = name.removeprefix(stem).partition(".")[0].partition("-")
            if number.isdigit() and tag.startswith(_known_by(mark)):
                mark.is_written(int(number), tag.removeprefix(_known_by(mark)))


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

    @override
    def encoder(self, fields: tuple[str, ...]) -> Encoder:
        return self._content.encoder(fields)

    @override
    def chunk(self, rows: list[Any]) -> bytes:
        return self._content.chunk(rows)

    @override
    def put(self, gathered: Gathered, chunks: list[bytes]) -> None:
        name = file_name(self.options.prefix, *gathered[:3], self._content.suffix)
        self._place.put(name, self._content.file(chunks))
