"""Sinks of files: a file for each batch, or files of a size and age."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import OutputCollector
from fulmen.api.components import Bolt, FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import ANY_STREAM, Stream
from fulmen.api.sinks import Guarantee, Mark, Rows, ServiceUnavailable, Sink
from fulmen.api.tuples import Tuple
from fulmen.connectors.files.contents import Encoder, FileContent, content_of, mistaken_columns
from fulmen.connectors.files.options import FileSinkOptions, RollingFileSinkOptions
from fulmen.connectors.files.places.buckets import Bucket, is_uri
from fulmen.connectors.files.places.local import LocalFolder
from fulmen.connectors.formats import Malformed, encode_each

_PAUSE_SECONDS = 0.5


def place_of(path: str) -> LocalFolder | Bucket:
    """Where files are written.

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
        label, number, tag = _names(self._context, mark)
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
    """What all files of the task in this checkpoint have in their names, and no others."""
    return mark.sink[:8]


def _names(context: TopologyContext, mark: Mark | None = None) -> tuple[str, int, str]:
    """What a file's name is made of: by the mark, or by the batch that is being run."""
    if mark is not None:
        return mark.label, mark.number, _known_by(mark) + mark.tag
    label = f"{context.topology}/{context.component}/{context.task_index}"
    return label, context.batch.number, context.batch.attempt


@dataclass(frozen=True)
class Full:
    """A file that is to be written as soon as its rows are committed.

    Attributes:
        name: Of the file.
        number: The commit that has the last of its rows.
        first: The first of its chunks in the state.
        end: The one behind the last.
    """

    name: str
    number: int
    first: int
    end: int


class RollingFileSink(Bolt):
    """Gathers rows in its state, and writes a file when they are many or old enough.

    Rows are acked when they are in the checkpoint. A file is written after the commit that has the
    last of its rows, under a name that is part of that commit, and appears whole. So each row is in
    one file, whatever is repeated. When the topology is drained, all rows are written.

    While the folder or bucket is away, rows stay in the checkpoint. The spouts are held, so that
    these do not become more and more, and each batch waits up to `wait_seconds` for it.
    """

    config_model = RollingFileSinkOptions
    durable = ("first", "end", "size", "since", "fields", "full")
    wait_seconds: ClassVar[float] = 5.0
    now: ClassVar[Callable[[], float]] = time.time  # noqa: TID251 (rows outlive processes)

    def __init__(self) -> None:
        self.first = self.end = 0
        self.size = 0
        self.since: float | None = None
        self.fields: tuple[str, ...] = ()
        self.full: list[Full] = []

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        return mistaken_columns(options, ANY_STREAM if options.any_stream else stream)

    @override
    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> None:
        self._context = context
        self._collector = collector
        self._options: RollingFileSinkOptions = context.options
        self._content: FileContent = content_of(self._options)
        self._place = place_of(self._options.path)
        self._place.check()
        self._rows: list[Any] = []
        self._encoders: dict[tuple[str, ...], Encoder] = {}
        if self.fields:
            self._encoder(self.fields)

    @override
    def execute(self, tup: Tuple) -> None:
        if tup.is_tick():
            return
        try:
            fields, values = tuple(tup.fields), tup.values
            if self._options.any_stream:
                fields, values = ANY_STREAM.fields, [tup.component, tup.stream, tup.as_dict()]
            self._rows.append(self._encoder(fields)(values))
        except Malformed as error:
            raise FailedException(str(error)) from error
        self._collector.ack(tup)

    @override
    def end_batch(self) -> None:
        self._gather()
        if self.since is not None:
            is_old = type(self).now() >= self.since + self._options.roll_seconds
            if self.size >= self._options.roll_bytes or is_old:
                self._roll()
        self._write(self._context.batch.number - 1)

    @override
    def drain(self) -> None:
        self._gather()
        self._roll()
        self._write(self._context.batch.number - 1)

    @override
    def committed(self, number: int) -> None:
        self._write(number)

    def _write(self, number: int) -> None:
        """Write the files whose rows are durable with this commit.

        Raises:
            ServiceUnavailable: The folder or bucket is away. The files are written later.
        """
        while self.full and self.full[0].number <= number:
            full = self.full[0]
            chunks = [self.state[i] for i in range(full.first, full.end)]
            self._put_or_hold(full.name, self._content.file(chunks))
            for i in range(full.first, full.end):
                del self.state[i]
            self.full.pop(0)

    def _encoder(self, fields: tuple[str, ...]) -> Encoder:
        encoder = self._encoders.get(fields)
        if encoder is None:
            encoder = self._encoders[fields] = self._content.encoder(fields)
            self.fields = self.fields or fields
        return encoder

    def _gather(self) -> None:
        if not self._rows:
            return
        chunk = self._content.chunk(self._rows)
        self._rows = []
        self.state[self.end] = chunk
        self.end += 1
        self.size += len(chunk)
        if self.since is None:
            self.since = type(self).now()

    def _roll(self) -> None:
        if self.first == self.end:
            return
        label, number, tag = _names(self._context)
        name = file_name(self._options.prefix, label, number, tag, self._content.suffix)
        self.full.append(Full(name, number, self.first, self.end))
        self.first, self.size, self.since = self.end, 0, None

    def _put_or_hold(self, name: str, data: bytes) -> None:
        try:
            self._put(name, data)
        except ServiceUnavailable as error:
            self._context.hold_spouts(f"a file can't be written: {error}")
            raise
        self._context.release_spouts()

    def _put(self, name: str, data: bytes) -> None:
        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                self._place.put(name, data)
                return
            except ServiceUnavailable:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)
