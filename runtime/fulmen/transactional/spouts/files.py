"""Sources that emit the lines of files, which driver and workers must see under the same paths.

Lines may be appended, and files may come at any time. Where transactions begin and end is in their
metadata, in bytes. A last line is emitted when its line feed is there.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    TransactionalSource,
    TransactionalSpout,
)
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.transactional.spouts.lines import Shortened, end_of_lines, files_of, folder_named, lines

MAX_BYTES = 1 << 20
LAG_SECONDS = 1.0
"""So often an emitter tells its lag; a coordinator is asked for it."""


class _Settings(NamedTuple):
    pattern: str
    max_bytes: int
    is_complete: bool


class _FileSource(TransactionalSource):
    """What both sources have in common.

    Arguments that are not given are taken from the component's `config`: `files`, `maxBytes` and
    `follow`.
    """

    outputs: ClassVar[Any] = ("tx", "line")

    def __init__(
        self, files: str | None = None, max_bytes: int | None = None, follow: bool | None = None
    ) -> None:
        """Make a source.

        Args:
            files: A pattern, such as "/data/*.log", as `glob` takes it; `**` is any folders.
            max_bytes: How much of each file a transaction has at most, if lines are no longer.
                Default: a megabyte.
            follow: Whether lines and files may come later. False: the source ends where the files
                do, and a last line needs no line feed. Default: True.
        """
        self.files = files
        self.max_bytes = max_bytes
        self.follow = follow

    def row(self, line: str) -> Sequence[Any] | None:
        """The values of a line, without the attempt; None: it is left out.

        To be overridden together with `outputs`, whose first field is that of the attempt. For the
        same line it must return the same values. An exception fails the transaction, again and
        again.
        """
        return (line,)

    def _settings(self, conf: Mapping[str, Any], context: TopologyContext) -> _Settings:
        def one(given: Any, name: str, default: Any) -> Any:
            return conf.get(name, default) if given is None else given

        files, max_bytes = one(self.files, "files", ""), one(self.max_bytes, "maxBytes", MAX_BYTES)
        follow = one(self.follow, "follow", True)  # noqa: FBT003
        who = f"spout {context.component!r}: config"
        if not isinstance(files, str) or not files:
            raise ValueError(f"{who}.files is {files!r}. Write a pattern, such as /data/*.log.")
        if folder := folder_named(files):
            raise ValueError(f"{who}.files is a folder. Name its files, such as {folder}/*.")
        if not isinstance(max_bytes, int) or max_bytes < 1:
            raise ValueError(f"{who}.maxBytes is {max_bytes!r}. Write a number from 1 on.")
        if not isinstance(follow, bool):
            raise ValueError(f"{who}.follow is {follow!r}. Write true or false.")
        return _Settings(files, max_bytes, not follow)


def _emit(
    source: _FileSource,
    attempt: TransactionAttempt,
    collector: BatchOutputCollector,
    texts: Iterable[str],
) -> None:
    for line in texts:
        if (values := source.row(line)) is not None:
            collector.emit([attempt, *values])


def _tell_lag(
    context: TopologyContext, settings: _Settings, ends: Iterable[tuple[str, int]]
) -> bool:
    """Say how long ago the oldest file with lines that are in no transaction was written to.

    Args:
        context: Of the component that says it.
        settings: How the files are read.
        ends: The files that there are, and up to where each is in transactions.

    Returns:
        Whether there are such lines.
    """
    written = [_unread_since(*place, is_complete=settings.is_complete) for place in ends]
    unread = [when for when in written if when is not None]
    if not unread:
        context.lag(messages=0, seconds=0.0)
        return False
    now = time.time()  # noqa: TID251 (files have the time of day)
    context.lag(seconds=now - min(unread))
    return True


def _unread_since(file: str, end: int, *, is_complete: bool) -> float | None:
    """When a file was written to that has a whole line behind a place, or can't be read there."""
    try:
        when = os.stat(file).st_mtime
    except OSError:  # it is gone, or nobody knows
        return None
    try:
        return when if end_of_lines(file, end, 1, is_complete) > end else None
    except FileNotFoundError:
        return None
    except (OSError, Shortened):
        return when


class Part(NamedTuple):
    """What a transaction has of a file.

    Attributes:
        file: Its path.
        start: Where the first line begins.
        end: Where the last line ends.
    """

    file: str
    start: int
    end: int


class FileTransactionalSpout(_FileSource, TransactionalSpout):
    """The lines of files, as a source that can emit a transaction again exactly as it was.

    A partition is a file. Files are numbered in the order of their names when they are first seen,
    and those that come later get the next numbers. The spout's task i of n emits the files i, i +
    n, i + 2n and so on. The coordinator, which alone knows of all files, says from where to where.

    While a file is away of which a transaction has lines, the transaction fails and is tried again.
    New transactions leave it out.
    """

    def get_coordinator(
        self, conf: Mapping[str, Any], context: TopologyContext
    ) -> _FileCoordinator:
        """Make the coordinator."""
        return _FileCoordinator(self._settings(conf, context), context)

    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> _FileEmitter:
        """Make an emitter."""
        self._settings(conf, context)
        return _FileEmitter(self, context.task_index, len(context.tasks(context.component)))


class _FileCoordinator(TransactionalSpout.Coordinator):
    """Metadata are the part of each file that was ever seen. Their order is that of the numbers."""

    def __init__(self, settings: _Settings, context: TopologyContext) -> None:
        self._settings = settings
        self._context = context
        self._parts: Sequence[Part] | None = None

    def initialize_transaction(
        self,
        txid: int,  # noqa: ARG002 (what it is made of does not depend on it)
        previous_metadata: Sequence[tuple[str, int, int]] | None,
    ) -> Sequence[tuple[str, int, int]]:
        """The next lines of each file."""
        known = [Part(*part) for part in previous_metadata or ()]
        try:
            self._parts = [*self._next(known)]
        except (OSError, Shortened) as error:
            raise FailedException(str(error)) from error
        return [(part.file, part.start, part.end) for part in self._parts]

    def _next(self, known: Sequence[Part]) -> Iterable[Part]:
        names = {part.file for part in known}
        new = [Part(file, 0, 0) for file in files_of(self._settings.pattern) if file not in names]
        for part in (*known, *new):
            yield Part(part.file, part.end, self._end(part))

    def _end(self, part: Part) -> int:
        try:
            return end_of_lines(
                part.file, part.end, self._settings.max_bytes, self._settings.is_complete
            )
        except FileNotFoundError:
            return part.end

    def is_ready(self) -> bool:
        """Whether there is a line; not known before the first transaction."""
        if self._parts is None:
            return True
        try:
            return any(part.end > part.start for part in self._next(self._parts))
        except (OSError, Shortened):
            return True  # to be said when the transaction is made

    def is_exhausted(self) -> bool:
        """Whether no line will come: only if the source does not follow its files."""
        return self._settings.is_complete and not self.is_ready()

    def lag(self) -> int | None:
        """How many lines are left is not known, only since when the oldest file has some."""
        if self._parts is None:
            return None
        ends = dict.fromkeys(files_of(self._settings.pattern), 0)
        ends |= {part.file: part.end for part in self._parts}
        return None if _tell_lag(self._context, self._settings, ends.items()) else 0


class _FileEmitter(TransactionalSpout.Emitter):
    def __init__(self, source: FileTransactionalSpout, task: int, tasks: int) -> None:
        self._source = source
        self._task = task
        self._tasks = tasks

    def emit_batch(
        self,
        attempt: TransactionAttempt,
        metadata: Sequence[tuple[str, int, int]],
        collector: BatchOutputCollector,
    ) -> None:
        """Emit what a transaction has of this task's files."""
        for file, start, end in metadata[self._task :: self._tasks]:
            if start == end:
                continue
            try:
                _emit(self._source, attempt, collector, lines(file, start, end))
            except (OSError, Shortened) as error:
                raise FailedException(str(error)) from error


class OpaqueFileTransactionalSpout(_FileSource, OpaquePartitionedTransactionalSpout):
    """The lines of files, as a source that leaves out what is away.

    There are as many partitions as the spout has tasks. A file belongs to a partition by the
    CRC-32 of its path, so that it stays there whatever other files come.

    A file that is away, can't be read or has become shorter is left out until it is there again;
    all but the first is reported.
    """

    def get_coordinator(
        self, conf: Mapping[str, Any], context: TopologyContext
    ) -> _PartitionCounter:
        """Make the coordinator."""
        self._settings(conf, context)
        return _PartitionCounter(len(context.tasks(context.component)))

    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> _OpaqueFileEmitter:
        """Make an emitter."""
        return _OpaqueFileEmitter(self, self._settings(conf, context), context)


class _PartitionCounter(OpaquePartitionedTransactionalSpout.Coordinator):
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def num_partitions(self) -> int:
        """As many as the spout has tasks."""
        return self._partitions


class _OpaqueFileEmitter(OpaquePartitionedTransactionalSpout.Emitter):
    """Metadata are the places up to which each file of the partition was read."""

    def __init__(
        self, source: OpaqueFileTransactionalSpout, settings: _Settings, context: TopologyContext
    ) -> None:
        self._source = source
        self._settings = settings
        self._context = context
        self._partitions = len(context.tasks(context.component))
        self._reported: set[str] = set()
        self._lag_at = 0.0

    def emit_partition_batch(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last_metadata: Mapping[str, int] | None,
    ) -> Mapping[str, int]:
        """Emit the next lines of each file of a partition."""
        ends = dict(last_metadata or {})
        files = [
            file
            for file in files_of(self._settings.pattern)
            if zlib.crc32(os.fsencode(file)) % self._partitions == partition
        ]
        for file in files:
            start = ends.get(file, 0)
            try:
                end = end_of_lines(
                    file, start, self._settings.max_bytes, self._settings.is_complete
                )
                rows = [] if end == start else list(lines(file, start, end))
            except FileNotFoundError:
                continue
            except (OSError, Shortened) as error:
                self._report(collector, str(error))
                continue
            _emit(self._source, attempt, collector, rows)
            ends[file] = end
        if time.monotonic() >= self._lag_at:  # a task has one partition
            self._lag_at = time.monotonic() + LAG_SECONDS
            _tell_lag(self._context, self._settings, [(file, ends.get(file, 0)) for file in files])
        return ends

    def _report(self, collector: BatchOutputCollector, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            collector.report_error(f"{text}. It is left out until then")
