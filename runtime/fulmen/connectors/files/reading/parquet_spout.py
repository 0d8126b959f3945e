"""The spout of Parquet files: columns in their types, and no rows in between."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from fulmen.api.components.arrow import ArrowSpout
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.declarer import Stream
from fulmen.connectors.files.columns import is_of
from fulmen.connectors.files.options import ParquetSpoutOptions
from fulmen.connectors.files.places.local import Changed, GoneFile, UnreadableFile
from fulmen.connectors.files.positions import FoundFile, place_of
from fulmen.connectors.files.reading.files_spout import FilesSpout
from fulmen.connectors.files.reading.kept import RecentlyUsed
from fulmen.connectors.files.reading.row_groups import (
    BATCH_BYTES,
    RowGroups,
    Unfit,
    one_batch,
)
from fulmen.connectors.formats import ERRORS, unread
from fulmen.errors import PASSED_ON, text_of


def _is_of_content(error: BaseException) -> bool:
    """Whether it is what a file has in it: Arrow raises OSError without a number."""
    if isinstance(error, OSError):
        return error.errno is None
    return not isinstance(error, (*PASSED_ON, GoneFile, UnreadableFile, ServiceUnavailable))


class ParquetSpout(FilesSpout, ArrowSpout):
    """The rows of Parquet files, as Arrow record batches.

    A file that is not Parquet goes to the stream `errors` as a whole, and so does one that lacks a
    column, or has one of another type.
    """

    config_model = ParquetSpoutOptions
    unit = "row"
    options: ParquetSpoutOptions

    @override
    def stream(self, options: ParquetSpoutOptions) -> Stream:
        known = options.fields if isinstance(options.fields, dict) else {}
        types = {name: kind.partition("(")[0] for name, kind in known.items()}
        return Stream(tuple(options.fields), types=types)

    @override
    def connect(self) -> None:
        super().connect()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._recent: RecentlyUsed[pa.RecordBatch] = RecentlyUsed()
        self._kept: RecentlyUsed[pa.RecordBatch] = RecentlyUsed()

    @override
    def is_whole(self, path: str) -> bool:
        return True

    @override
    def begin_file(self, number: int, found: FoundFile, end: int, *, is_complete: bool) -> None:
        self._batches = None

    @override
    def emit_next(self, number: int) -> bool:
        try:
            if self._batches is None:
                self._batches = self._read(number, self.positions[number].offset)
            batch = next(self._batches, None)
        except BaseException as error:
            self._batches = None  # it has ended: the file is read again from its position
            if not _is_of_content(error):
                raise
            return self._corrupt(number, error)
        if batch is None:
            self._batches = None
            self.end_file()
            return False
        start, rows = self.positions[number].offset, batch.num_rows
        first = self.emitted(number, start, start + rows, rows)
        self._recent.put(first, batch, batch.nbytes)
        self.collector.emit(batch, msg_ids=range(first, first + rows))
        if start + rows == self._most:  # so that nobody takes it for half read
            self._batches = None
            self.end_file()
        return True

    def _file(self, number: int) -> RowGroups:
        groups = RowGroups(self.content(number).content)
        schema = groups.file.schema_arrow
        counts = {name: schema.names.count(name) for name in self.options.fields}
        if missing := [name for name, count in counts.items() if not count]:
            raise Unfit(f"the file has no column {missing[0]!r}, only {schema.names}")
        if equal := [name for name, count in counts.items() if count > 1]:
            raise Unfit(f"the file has {counts[equal[0]]} columns {equal[0]!r}")
        known = self.options.fields if isinstance(self.options.fields, dict) else {}
        for name, kind in known.items():
            actual = schema.field(name).type
            if not is_of(kind, actual):
                raise Unfit(f"its column {name!r} is {actual}, which is no {kind}")
        return groups

    def _read(self, number: int, skip: int) -> Iterator[pa.RecordBatch]:
        self._most = self._group_end = 0
        groups, columns = self._file(number), list(self.options.fields)
        metadata = groups.file.metadata
        self._most = metadata.num_rows
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            self._group_end += rows
            if skip >= rows:
                skip -= rows
                continue
            for batch in groups.batches(group, columns, self.options.batch_rows):
                if skip < batch.num_rows:
                    yield batch.slice(skip)
                skip = max(0, skip - batch.num_rows)

    @override
    def emit_again(self) -> None:
        number, _ = place_of(self.progress.again[0])
        ids = [i for i in self.progress.again if place_of(i)[0] == number]
        self.content(number)
        try:
            ids, rows = self._rows_of(number, sorted(ids)[: self.options.batch_rows])
        except BaseException as error:
            if not _is_of_content(error):
                raise
            raise Changed(text_of(error)) from error
        left = Counter(self.progress.again) - Counter(ids)
        self.progress.again = deque(left.elements())
        self.collector.emit(rows, msg_ids=ids)

    @override
    def emit_error(self, values: Sequence[Any], msg_id: int | None) -> None:
        types = (pa.binary(), pa.string(), pa.string())
        columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
        batch = pa.record_batch(columns, list(ERRORS.fields))
        self.collector.emit(batch, "errors", msg_ids=None if msg_id is None else [msg_id])

    def _rows_of(self, number: int, ids: Sequence[int]) -> tuple[list[int], pa.RecordBatch]:
        """The rows of messages of a file, ascending: as many as are enough, with their ids."""
        for msg_id in ids:
            if self._kept.get(msg_id) is None and (row := self._recent_row(msg_id)) is not None:
                self._kept.put(msg_id, row, row.nbytes)
        kept = {i: row for i in ids if (row := self._kept.get(i)) is not None}
        missing = self._rows(number, [place_of(i)[1] for i in ids if i not in kept])
        rows: list[pa.RecordBatch] = []
        size = 0
        for msg_id in ids:
            if (row := kept.get(msg_id)) is None:
                if (row := next(missing, None)) is None:
                    raise Changed("the file has become shorter")
                self._kept.put(msg_id, row, row.nbytes)
            rows.append(row)
            size += row.nbytes
            if size >= BATCH_BYTES:
                break
        return list(ids[: len(rows)]), one_batch(rows)

    def _recent_row(self, msg_id: int) -> pa.RecordBatch | None:
        """The row of a message, if it was emitted not long ago."""
        first = self._recent.key_before(msg_id)
        batch = None if first is None else self._recent.get(first)
        if first is None or batch is None or msg_id - first >= batch.num_rows:
            return None
        return batch.take([msg_id - first])

    def _rows(self, number: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Single rows of a file, by their numbers, ascending."""
        wanted = deque(places)
        if not wanted:
            return
        self._batches = None  # the file is moved
        at = wanted[0]
        for batch in self._read(number, at):
            end = at + batch.num_rows
            while wanted and wanted[0] < end:
                yield batch.take([wanted.popleft() - at])
            if not wanted:
                return
            at = end

    def _corrupt(self, number: int, error: BaseException) -> bool:
        """Pass over the rest of a row group, or file, that can't be read. Later ones are read."""
        position = self.positions[number]
        start, end = position.offset, self._group_end
        place = self.where(number, start)
        if isinstance(error, Unfit):
            reason = str(error)
        elif isinstance(error, pa.ArrowException | OSError):
            reason = f"it is not Parquet: {text_of(error)}"
        else:
            reason = str(unread(error))
        if start < end:
            reason = f"{reason}. Its rows {start:,} to {end - 1:,} are left out"
        if start < end < self._most:
            position.offset = end
        else:
            self.end_file()
        self.tell(reason, place)
        return True
