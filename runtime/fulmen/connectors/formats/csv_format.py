"""Messages that are one record of CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from fulmen.connectors.formats.base import Format, Malformed, positions


class CsvFormat(Format):
    """The message is one record of values with separators between them; all values are text."""

    def __init__(self, fields: Sequence[str] = (), delimiter: str = ",") -> None:
        self.fields = tuple(fields)
        self._delimiter = delimiter

    @override
    def decode(self, data: bytes) -> list[Any]:
        try:
            records = list(csv.reader([data.decode()], delimiter=self._delimiter, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise Malformed(f"it is not CSV: {error}") from error
        values = records[0] if records else []
        if len(values) != len(self.fields):
            raise Malformed(f"it has {len(values)} values, not {len(self.fields)}")
        return list(values)

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        at = positions(self.fields or fields, fields)

        def encode(values: Sequence[Any]) -> bytes:
            text = io.StringIO()
            writer = csv.writer(text, delimiter=self._delimiter, lineterminator="")
            writer.writerow([values[i] for i in at])
            return text.getvalue().encode()

        return encode
