"""The spout of files of lines: text, JSON, CSV and other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.files.options import FileSpoutOptions
from fulmen.connectors.files.places import packed
from fulmen.connectors.files.places.local import (
    Changed,
    GoneFile,
    OpenedFile,
    as_text,
    check_same,
)
from fulmen.connectors.files.positions import PLACES, FoundFile, message_id, place_of
from fulmen.connectors.files.reading.files_spout import FilesSpout
from fulmen.connectors.files.reading.kept import RecentlyUsed
from fulmen.connectors.files.reading.readers import FileReader
from fulmen.connectors.files.reading.records import Record, records
from fulmen.connectors.formats import CsvOptions, JsonOptions, Malformed
from fulmen.connectors.formats.csv_format import Quotes
from fulmen.connectors.formats.encodings import without_mark

_SHOWN_BYTES = 1000
_BYTES_AT_ONCE = 1 << 20
"""So much is read at once, or one record that is longer."""
_SPACES = b" \t\r\f\v"


def _spaces_of(options: FileSpoutOptions) -> bytes | None:
    """The bytes of lines that are blank and no records; None: all lines are records."""
    chosen = options.format
    if isinstance(chosen, CsvOptions) and (len(chosen.fields) > 1 or options.header):
        return _SPACES.replace(chosen.delimiter.encode(chosen.encoding), b"")
    return _SPACES if isinstance(chosen, JsonOptions) else None


class FileSpout(FilesSpout):
    """The lines of files, or the records of CSV, in a format.

    What can't be read in the format goes to the stream `errors`.
    """

    config_model = FileSpoutOptions
    options: FileSpoutOptions

    @override
    def stream(self, options: FileSpoutOptions) -> Stream:
        extra = {} if options.file_field is None else {options.file_field: "string"}
        return options.format.make().stream(*extra, **extra)

    @override
    def connect(self) -> None:
        super().connect()
        self._records: Iterator[Record] | None = None
        self._kept: RecentlyUsed[Record] = RecentlyUsed()
        self._second: tuple[int, OpenedFile] | None = None
        chosen = self.options.format
        self._quotes = (
            Quotes(chosen.delimiter, chosen.encoding) if isinstance(chosen, CsvOptions) else None
        )
        self._spaces = _spaces_of(self.options)

    @override
    def is_whole(self, path: str) -> bool:
        return packed.is_packed(path)

    @override
    def begin_file(self, number: int, found: FoundFile, end: int, *, is_complete: bool) -> None:
        self._end, self._is_complete, self._is_whole = end, is_complete, found.is_whole
        self._records = None

    @override
    def emit_next(self, number: int) -> bool:
        path, is_read = self.positions[number].path, False
        if (refusal := packed.refusal(path)) is not None:
            return self._corrupt(number, refusal)
        try:
            some = self._next_records(number)
            is_read = True
            decoded = self._decoded(number, some) if some else []
        except BaseException as error:
            self._records = None  # they are read again, from the file's position
            if is_read or not packed.is_corrupt(error):
                raise
            if isinstance(error, EOFError) and self.options.follow:  # it may still be written
                self.end_file(is_done=False)
                self.close_file(number)
                return False
            return self._corrupt(number, packed.reason_of(path, error))
        raw = self.content(number).raw
        size = None if raw is None else raw.tell()  # more may be appended after the end was seen
        if some:
            self.emitted(number, some[0].start, some[-1].end, len(some))
            self._emit(number, some, decoded)
        if self._is_over:
            self._records = None
            self.end_file(is_done=self._is_whole, size=size)
        return bool(some)

    def _next_records(self, number: int) -> list[Record]:
        """Read as many as there is room for, or as are enough; none: there are no more for now.

        Raises:
            EOFError, zlib.error, OSError: The next one can't be read or unpacked.
        """
        some: list[Record] = []
        room, size, self._is_over = self.collector.room, 0, False
        try:
            reading, opened = self._read(number), self.content(number)
            for record in reading:
                is_blank = self._is_blank(record)
                if opened.reader is None and not is_blank:
                    opened.reader = FileReader(self.options, record)
                if is_blank or record.start < opened.reader.begin:
                    if not some:
                        self.positions[number].offset = record.end
                    continue
                some.append(record)
                size += len(record.data)
                if len(some) >= room or size >= _BYTES_AT_ONCE:
                    break
            else:
                self._is_over = True
        except packed.ERRORS as error:
            if not some or not packed.is_corrupt(error):
                raise
            self._records = None  # it is met again, behind these
        return some

    def _is_blank(self, record: Record) -> bool:
        """Whether a line is none of the format's records, but only there to look at."""
        if self._spaces is None:
            return False
        data = record.data
        if record.start == 0:
            data = without_mark(data, self.options.encoding)
        return not data.strip(self._spaces)

    def _read(self, number: int) -> Iterator[Record]:
        if self._records is None:
            self._know_header(number)
            start = self.positions[number].offset
            self._records = self._from(self.content(number), start, self._end, self._is_complete)
        return self._records

    def _from(
        self, opened: OpenedFile, start: int, end: int = PLACES, is_complete: bool = True
    ) -> Iterator[Record]:
        return records(
            opened.content,
            start,
            end,
            is_complete=is_complete,
            quotes=self._quotes,
            most_bytes=self.options.max_line_bytes,
        )

    def _decoded(self, number: int, some: Sequence[Record]) -> list[list[Any] | Malformed]:
        data = [record.data for record in some]
        if some[0].start == 0:
            data[0] = without_mark(data[0], self.options.encoding)
        reader: FileReader = self.content(number).reader
        return reader.decode_each(data)

    def _emit(
        self, number: int, some: Sequence[Record], decoded: Sequence[list[Any] | Malformed]
    ) -> None:
        rows: list[list[Any]] = []
        ids: list[int] = []
        path = as_text(self.positions[number].path)
        extra = [] if self.options.file_field is None else [path]
        for record, values in zip(some, decoded, strict=True):
            msg_id = message_id(number, record.start)
            reason = str(values) if isinstance(values, Malformed) else ""
            if record.is_too_long:
                reason = f"it has more than {self.options.max_line_bytes} bytes"
            if isinstance(values, Malformed) or reason:
                place = self.where(number, record.start)
                self.emit_error([record.data[:_SHOWN_BYTES], reason, place], msg_id)
            else:
                rows.append(values + extra)
                ids.append(msg_id)
        self.collector.emit_many(rows, msg_ids=ids)

    def _know_header(self, number: int) -> None:
        """Have the file's header, if it has one and that is there as a whole."""
        opened, header = self.content(number), None
        if opened.reader is not None:
            return
        if self.options.header:
            self._records = None  # the file is moved
            rows = self._from(opened, 0, is_complete=False)
            header = next((one for one in rows if not self._is_blank(one)), None)
        if header is not None or not self.options.header:
            opened.reader = FileReader(self.options, header)

    @override
    def emit_again(self) -> None:
        again = self.progress.again
        some = sorted(again.popleft() for _ in range(min(len(again), self.collector.room or 1)))
        again.extendleft(reversed(some))  # places ascend: no file is read backwards
        number, _ = place_of(some[0])
        self._know_header(number)
        rows: list[Record] = []
        try:
            for msg_id in takewhile(lambda one: place_of(one)[0] == number, some):
                rows.append(self._record(number, msg_id))  # noqa: PERF401 (it may raise)
        except Changed:
            if not rows:
                raise
        decoded = self._decoded(number, rows)
        for _ in rows:
            again.popleft()
        self._emit(number, rows, decoded)

    def _record(self, number: int, msg_id: int) -> Record:
        """The record of a message that has failed."""
        record = self._kept.get(msg_id)
        if record is None:
            try:
                record = next(self._from(self._again_in(number), place_of(msg_id)[1]), None)
            except packed.ERRORS as error:
                if not packed.is_corrupt(error):
                    raise
                raise Changed(str(error)) from error
            if record is None:
                raise Changed("the file has become shorter")
            self._kept.put(msg_id, record, len(record.data))
        return record

    def _again_in(self, number: int) -> OpenedFile:
        """The file opened once more: the one that new records are read from is not moved."""
        if self._second is None or self._second[0] != number:
            self._close_second()
            try:
                self._second = number, self.source.open(self.positions[number])
                check_same(self._second[1], self.positions[number])
            except (GoneFile, Changed):  # it was removed, but is open
                self._close_second()
                self._records = None  # the file is moved
                return self.content(number)
        return self._second[1]

    def _close_second(self) -> None:
        if self._second is not None:
            self._second[1].close()
            self._second = None

    @override
    def close_file(self, number: int) -> None:
        if self._second is not None and self._second[0] == number:
            self._close_second()
        super().close_file(number)

    @override
    def close(self) -> None:
        self._close_second()
        super().close()

    @override
    def emit_error(self, values: Sequence[Any], msg_id: int | None) -> None:
        self.collector.emit(values, "errors", msg_id=msg_id)

    def _corrupt(self, number: int, reason: str) -> bool:
        """Tell that the rest of a compressed file can't be read."""
        self._records = None
        place = self.where(number, self.positions[number].offset)
        self.end_file(is_done=True)
        self.tell(reason, place)
        return True
