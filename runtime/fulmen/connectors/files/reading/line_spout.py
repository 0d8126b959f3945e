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
from fulmen.connectors.files.reading.records import (
    Record,
    RecordBlock,
    RecordBlocks,
    blocks,
    each_of,
)
from fulmen.connectors.formats import CsvOptions, JsonOptions, Malformed
from fulmen.connectors.formats.csv_format import Quotes
from fulmen.connectors.formats.encodings import without_mark

_SHOWN_BYTES = 1000
_BYTES_AT_ONCE = 1 << 20
"""So much is read at once, or one record that is longer."""
_SPACES = b" \t\r\f\v"


def spaces_of(options: FileSpoutOptions) -> bytes | None:
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
        self._records: RecordBlocks | None = None
        self._kept: RecentlyUsed[Record] = RecentlyUsed()
        self._second: tuple[int, OpenedFile] | None = None
        chosen = self.options.format
        self._quotes = (
            Quotes(chosen.delimiter, chosen.encoding) if isinstance(chosen, CsvOptions) else None
        )
        self._spaces = spaces_of(self.options)

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
            some = self._next_block(number)
            is_read = True
            decoded = self._decoded(number, some) if some else []
        except BaseException as error:
            self._records = None  # they are read again, from the file's position
            if is_read or not packed.is_corrupt(error):
                raise
            if isinstance(error, EOFError) and self.options.follow:  # it may still be written
                self.leave_file()
                self.close_file(number)
                return False
            return self._corrupt(number, packed.reason_of(path, error))
        raw = self.content(number).raw
        size = None if raw is None else raw.tell()  # more may be appended after the end was seen
        if some:
            self.emitted(number, some.starts[0], some.end, len(some))
            self._emit(number, some, decoded)
        if self._is_over:
            self._records = None
            if self._is_whole:
                self.end_file(size)
            else:
                self.leave_file()
        return bool(some)

    def _next_block(self, number: int) -> RecordBlock | None:
        """Read as many records as there is room for, or as are enough; None: there are no more now.

        Raises:
            EOFError, zlib.error, OSError: The next one can't be read or unpacked.
        """
        some: list[RecordBlock] = []
        room, size, self._is_over = max(1, self.collector.room), 0, False
        try:
            reading, opened = self._read(number), self.content(number)
            while room > 0 and size < _BYTES_AT_ONCE:
                if (block := reading.next(room)) is None:
                    self._is_over = True
                    break
                if len(found := self._records_in(block, opened)):
                    some.append(found)
                    room, size = room - len(found), size + found.end - found.starts[0]
                elif not some:
                    self.positions[number].offset = block.end
        except packed.ERRORS as error:
            if not some or not packed.is_corrupt(error):
                raise
            self._records = None  # it is met again, behind these
        return RecordBlock.joined(some) if some else None

    def _records_in(self, block: RecordBlock, opened: OpenedFile) -> RecordBlock:
        """The records of the format, without the header. The first one may be it."""
        block = self._not_blank(block)
        if opened.reader is None and len(block):
            opened.reader = FileReader(self.options, next(block.records()))
        if len(block) and block.starts[0] < opened.reader.begin:
            block = block.begun_at(opened.reader.begin)
        return block

    def _not_blank(self, block: RecordBlock) -> RecordBlock:
        """The lines that are records, and not only there to look at."""
        if (spaces := self._spaces) is None or all(
            wanted := [line.strip(spaces) for line in self._data_of(block)]
        ):
            return block
        return block.take([i for i, line in enumerate(wanted) if line])

    def _data_of(self, block: RecordBlock) -> Sequence[bytes]:
        """The bytes of records, without a byte order mark."""
        if block.starts[0]:
            return block.data
        return [without_mark(block.data[0], self.options.encoding), *block.data[1:]]

    def _read(self, number: int) -> RecordBlocks:
        if self._records is None:
            self._know_header(number)
            start, opened = self.positions[number].offset, self.content(number)
            self._records = RecordBlocks(self._from(opened, start, self._end, self._is_complete))
        return self._records

    def _from(
        self, opened: OpenedFile, start: int, end: int = PLACES, is_complete: bool = True
    ) -> Iterator[RecordBlock]:
        return blocks(
            opened.content,
            start,
            end,
            is_complete=is_complete,
            quotes=self._quotes,
            most_bytes=self.options.max_line_bytes,
        )

    def _decoded(self, number: int, some: RecordBlock) -> list[list[Any] | Malformed]:
        reader: FileReader = self.content(number).reader
        return reader.decode_each(self._data_of(some))

    def _emit(
        self, number: int, some: RecordBlock, decoded: Sequence[list[Any] | Malformed]
    ) -> None:
        first = message_id(number, 0)
        ids = [first + start for start in some.starts]
        refused: set[int] = set()
        if set(map(type, decoded)) != {list}:  # in less than half of the time
            refused = {i for i, values in enumerate(decoded) if isinstance(values, Malformed)}
        for i in sorted(refused | some.too_long):
            reason, data = str(decoded[i]), some.data[i][:_SHOWN_BYTES]
            if i in some.too_long:
                reason = f"it has more than {self.options.max_line_bytes} bytes"
            self.emit_error([data, reason, self.where(number, some.starts[i])], ids[i])
        rows: Sequence[Any] = decoded
        if refused or some.too_long:
            left = [i for i in range(len(ids)) if i not in refused and i not in some.too_long]
            rows, ids = [rows[i] for i in left], [ids[i] for i in left]
        if self.options.file_field is not None:
            path = as_text(self.positions[number].path)
            rows = [[*values, path] for values in rows]
        self.collector.emit_many(rows, msg_ids=ids)

    def _know_header(self, number: int) -> None:
        """Have the file's header, if it has one and that is there as a whole."""
        opened, header = self.content(number), None
        if opened.reader is not None:
            return
        if self.options.header:
            self._records = None  # the file is moved
            found = self._from(opened, 0, is_complete=False)
            header = next(each_of(map(self._not_blank, found)), None)
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
        block = RecordBlock.of(rows)
        decoded = self._decoded(number, block)
        for _ in rows:
            again.popleft()
        self._emit(number, block, decoded)

    def _record(self, number: int, msg_id: int) -> Record:
        """The record of a message that has failed."""
        record = self._kept.get(msg_id)
        if record is None:
            try:
                found = self._from(self._again_in(number), place_of(msg_id)[1])
                record = next(each_of(found), None)
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
        self.end_file()
        self.tell(reason, place)
        return True
