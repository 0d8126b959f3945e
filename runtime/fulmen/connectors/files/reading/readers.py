"""Readers of the records of one file: its format, and its header if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fulmen.connectors.files.options import FileSpoutOptions
from fulmen.connectors.files.reading.records import Record
from fulmen.connectors.formats import Format, Malformed, unread
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.encodings import without_mark


class FileReader:
    """Turns the records of one file into values.

    Attributes:
        begin: Where the first of them may be.
    """

    def __init__(self, options: FileSpoutOptions, header: Record | None) -> None:
        self._format: Format = options.format.make()
        self.begin = 0 if header is None else header.end
        self._problem = ""
        if isinstance(self._format, CsvFormat) and options.header:
            data = b"" if header is None else without_mark(header.data, options.encoding)
            try:
                names = self._format.names(data)
            except BaseException as error:  # noqa: BLE001 (of any decoder)
                self._problem = f"the file's header can't be read: {unread(error)}"
                return
            counts = {name: names.count(name) for name in self._format.fields}
            if missing := [name for name, count in counts.items() if not count]:
                self._problem = f"the file's header has no {missing[0]!r}, only {names}"
            elif equal := [name for name, count in counts.items() if count > 1]:
                self._problem = (
                    f"the file's header has {equal[0]!r} {counts[equal[0]]} times: {names}. Give"
                    " these columns other names, or read the file without `header`"
                )
            else:
                self._format = self._format.of_columns(names)

    def decode_each(self, data: Sequence[bytes]) -> list[list[Any] | Malformed]:
        """The values of each record, or why it can't be read."""
        if self._problem:
            return [Malformed(self._problem)] * len(data)
        return self._format.decode_each(data)
