"""The parts of transactions in the files of one task of a transactional spout.

Each task has files of its own, as a task of a `FileSpout` has: it reads them as that does, and
knows them again by what is in them, whatever they are renamed to. What a transaction has of them is
kept until it is committed; all other files cost the checkpoint nothing while they stay as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.connectors.base.parts import TransactionParts
from fulmen.connectors.files.dealt_files import deal
from fulmen.connectors.files.options import TransactionalFileSpoutOptions
from fulmen.connectors.files.places import packed
from fulmen.connectors.files.places.local import Changed, GoneFile, UnreadableFile, as_text
from fulmen.connectors.files.positions import FileProgress
from fulmen.connectors.files.reading.line_spout import FileSpout
from fulmen.connectors.files.reading.records import RecordBlock, each_of
from fulmen.connectors.formats import Malformed

_MOST_BYTES = 1 << 20
"""A transaction has no more records of a task when it has so many bytes."""
_COMMITTED = 0
"""A txid that is committed, whatever a task knows of others: transactions begin with 1."""
_OWN = "read"
"""Under this key the state has what is no file: see `_Read`."""


class _Run(NamedTuple):
    """Records of a file that follow one another.

    Attributes:
        number: Of the file.
        path: Under which it was read.
        start: Where the first one begins.
        end: Where the last one ends.
        messages: How many they are.
        checksum: Of what is in them.
    """

    number: int
    path: str
    start: int
    end: int
    messages: int
    checksum: int


@dataclass
class _Part:
    """The part of a transaction in a task's files.

    Attributes:
        runs: Its records, in their order.
        told: What was said on the stream `errors` besides, before them.
    """

    runs: list[_Run] = field(default_factory=list)
    told: list[Sequence[Any]] = field(default_factory=list)


@dataclass
class _Read:
    """The durable state of a task, besides the files that it does not read now.

    Attributes:
        progress: How far files are read.
        parts: By txid: of transactions that are not known to be committed.
        again: Records of attempts that have failed, and are to be in the next transaction.
    """

    progress: FileProgress
    parts: dict[int, _Part] = field(default_factory=dict)
    again: list[_Run] = field(default_factory=list)


class _Out:
    """The collector of the `FileSpout` inside: it adds the attempt.

    Attributes:
        room: How many more records the transaction takes.
    """

    attempt: TransactionAttempt
    collector: BatchOutputCollector
    room = 0

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Sequence[int]) -> None:  # noqa: ARG002
        for values in rows:
            self.collector.emit([self.attempt, *values])

    def emit(
        self,
        values: Sequence[Any],
        stream: str = DEFAULT_STREAM,
        msg_id: int | None = None,  # noqa: ARG002
    ) -> None:
        self.collector.emit([self.attempt, *values], stream)

    def report_error(self, error: str) -> None:
        self.collector.report_error(error)


class LinesGone(Exception):
    """A transaction can't be emitted again as it was, now or later."""

    def __init__(self, count: int, where: str, reason: str) -> None:
        super().__init__(count, where, reason)
        self.count, self.where, self.reason = count, where, reason

    def __str__(self) -> str:
        return (
            f"this transaction has {self.count} lines from {self.where} on, and can't be emitted"
            f" again as it was: {self.reason}. With `maxReplays` it is given up some time. If that"
            " may happen again, let log rotation rename files instead of cutting them, or use an"
            " OpaqueTransactionalFileSpout with a store that has the opaque rule"
        )


class FileParts(FileSpout, TransactionParts):
    """The files of one task, read for one transaction after another."""

    options: TransactionalFileSpoutOptions

    def __init__(self, context: TopologyContext) -> None:
        super().__init__()
        self.state, self._out = context.state, _Out()
        self._read_so_far: _Read = self.state.get(_OWN) or _Read(self.progress)
        self.progress = self._read_so_far.progress
        self._part, self._is_again = _Part(), False
        self.open(context.config, context, self._out)

    # ---- transactions

    @override
    def emit_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last: Mapping[str, Any] | None,
    ) -> Mapping[str, Any]:
        """Emit what there is behind the transactions before this one.

        What transactions had that are not among those is to come again: of later ones, and of ones
        that were taken back, and opened anew under higher numbers.

        Args:
            attempt: Of the transaction.
            collector: Emits.
            partition: This task's.
            last: What this returned for the transaction before; None: there was none.

        Returns:
            Which transaction it is, and up to where that goes, by file.

        Raises:
            ServiceUnavailable: Nothing can be read.
        """
        read = self._read_so_far
        before = last["transaction"] if last else 0
        for txid in sorted(txid for txid in read.parts if txid > before):
            read.again += read.parts.pop(txid).runs
        self._begin_part(attempt, collector)
        try:
            self._emit_failed()
            self._emit_next()
        except BaseException:
            read.again = self._part.runs + read.again
            raise
        finally:
            self._keep()
        read.parts[attempt.txid] = self._part
        files = {as_text(run.path): run.end for run in self._part.runs}
        return {"transaction": attempt.txid, "files": files}

    @override
    def repeat_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        part: Any,
    ) -> None:
        """Emit a transaction once more, exactly as it was.

        Raises:
            LinesGone: That is not possible.
            ServiceUnavailable: It is not possible now.
        """
        kept = self._read_so_far.parts[attempt.txid]
        self._begin_part(attempt, collector)
        self._is_again = True
        for values in kept.told:
            self._out.emit(values, ERRORS_STREAM)
        for run in kept.runs:
            try:
                self._emit_run(run)
            except GoneFile as gone:
                where = self.where(run.number, run.start)
                raise LinesGone(run.messages, where, str(gone)) from gone
            except (OSError, UnreadableFile) as error:
                path = self.positions[run.number].path
                raise ServiceUnavailable(as_text(path), str(error), "can't be read") from error
            finally:
                self._keep()

    def committed_before(self, txid: int) -> None:
        """All transactions before that one are committed: their messages have ended."""
        parts = self._read_so_far.parts
        for before in [one for one in parts if one < txid]:
            for run in parts.pop(before).runs:
                self._ended(run)
            self._keep()

    @override
    def is_exhausted(self) -> bool:
        return super().is_exhausted() and not self._read_so_far.again

    def _begin_part(self, attempt: TransactionAttempt, collector: BatchOutputCollector) -> None:
        self._part, self._is_again = _Part(), False
        self._out.attempt, self._out.collector = attempt, collector
        self._out.room = self.options.max_messages

    def _keep(self) -> None:
        self.state[_OWN] = self._read_so_far

    def _ended(self, run: _Run) -> None:
        if self.positions.ended(run.number, run.messages):
            self.close_file(run.number)

    def _emit_next(self) -> None:
        try:
            while self._out.room > 0 and self._bytes < _MOST_BYTES and self.next_tuple():
                pass
        except ServiceUnavailable:
            if not self._part.runs:  # else it is met again, behind these
                raise

    @property
    def _bytes(self) -> int:
        return sum(run.end - run.start for run in self._part.runs)

    def _emit_failed(self) -> None:
        """Emit what attempts have emitted that failed, as far as that is there."""
        read = self._read_so_far
        waiting, read.again = read.again, []
        for run in waiting:
            if self._part.runs and run.messages > self._out.room:
                read.again.append(run)
                continue
            try:
                self._emit_run(run)
            except GoneFile as gone:
                where = self.where(run.number, run.start)
                reason = f"{run.messages} lines of a transaction that has failed are gone: {gone}"
                self.tell(reason, where)
                self._ended(run)
            except (OSError, UnreadableFile, ServiceUnavailable) as error:
                read.again.append(run)
                where = self.where(run.number, run.start)
                if self._troubles.met(where, str(error), self.clock()):
                    self._out.report_error(f"{where}: {error}. It is tried again later")

    def _emit_run(self, run: _Run) -> None:
        """Emit records once more.

        Raises:
            Gone: They are not there any more.
            OSError, Unreadable, ServiceUnavailable: They can't be read now.
        """
        position = self.positions[run.number]
        try:
            some = self._records_of(run)
        except Changed:
            raise
        except GoneFile:  # it may have been renamed
            self._poll()
            some = self._records_of(run)
        if len(some) != run.messages or _checksum(some.data) != run.checksum:
            raise Changed(f"file '{as_text(position.path)}' was cut or replaced")
        path, position.path = position.path, run.path  # which tuples have
        try:
            self._emit(run.number, some, self._decoded(run.number, some))
        finally:
            position.path = path

    def _records_of(self, run: _Run) -> RecordBlock:
        try:
            self._know_header(run.number)
            found = list(each_of(self._from(self._again_in(run.number), run.start, run.end)))
        except packed.ERRORS as error:
            if not packed.is_corrupt(error):
                raise
            raise Changed(str(error)) from error
        if not found:
            raise Changed("the file has become shorter")
        return self._records_in(RecordBlock.of(found), self.content(run.number))

    # ---- what a file spout does

    @override
    def _emit(
        self, number: int, some: RecordBlock, decoded: Sequence[list[Any] | Malformed]
    ) -> None:
        path = self.positions[number].path
        run = _Run(number, path, some.starts[0], some.end, len(some), _checksum(some.data))
        self._part.runs.append(run)
        self._out.room -= len(some)
        super()._emit(number, some, decoded)

    @override
    def emit_error(self, values: Sequence[Any], msg_id: int | None) -> None:
        if msg_id is None:
            if self._is_again:  # the transaction has what was told when it came first
                return
            self._part.told.append(values)
        super().emit_error(values, msg_id)


def dealt_parts(kept: Sequence[Kept], tasks: int) -> list[Kept]:
    """Deal files, and what transactions have of them, to so many tasks. All are committed.

    Args:
        kept: What each task keeps now.
        tasks: The new number.

    Raises:
        ValueError: It can't be done for now.
    """
    read: list[_Read] = [one.state.get(_OWN) or _Read(FileProgress()) for one in kept]
    files = [
        Kept({"progress": own.progress}, {k: v for k, v in one.state.items() if k != _OWN})
        for own, one in zip(read, kept, strict=True)
    ]
    dealt: list[Kept] = []
    for one in deal(files, tasks):
        progress: FileProgress = one.fields["progress"]
        parts = [part for own in read for part in own.parts.values()]
        ended = [run for part in parts for run in part.runs if run.number in progress.positions]
        again = [run for own in read for run in own.again if run.number in progress.positions]
        own = _Read(progress, {_COMMITTED: _Part(ended)} if ended else {}, again)
        dealt.append(Kept({}, {**one.state, _OWN: own}))
    return dealt


def _checksum(records: Iterable[bytes]) -> int:
    checksum = 0
    for data in records:
        checksum = zlib.crc32(data, checksum)
    return checksum
