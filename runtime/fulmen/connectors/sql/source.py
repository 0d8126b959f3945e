"""The base of sources of rows: which rows are kept, which can't be read, and the lag."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.connectors.base.source import MessageSource
from fulmen.connectors.formats import DEFAULT, unread
from fulmen.connectors.sql.options import stream_of
from fulmen.errors import PASSED_ON, repr_of

MOST_COUNTED = 100_000
"""Rows for the lag: counting takes as long as there are rows."""
_LONGEST_DATA = 1 << 16


class SqlSource(MessageSource):
    """Rows wait in `state` until they are acked.

    One that is a list goes to the stream `default`, and a tuple to the stream `errors`.
    """

    lag_seconds = 5.0

    def stream(self, options: Any) -> Stream:
        """The columns to emit."""
        return stream_of(options.fields)

    @abstractmethod
    def check(self, values: list[Any]) -> list[Any]:
        """The values of a row, of the types that its fields are declared with.

        Raises:
            Malformed: One is not of its type.
        """

    @abstractmethod
    def position_of(self, place: Any) -> str:
        """The place of a row, for people, by its value in the column that tells."""

    def kept(self, values: list[Any], place: Any) -> Sequence[Any]:
        """A row as it is kept. What can't be read is reported."""
        try:
            return self.check(values)
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            reason, position = str(unread(error)), self.position_of(place)
            self.collector.report_error(f"{position}: {reason}")
            return _as_data(self.options.fields, values), reason, position

    def kept_each(
        self, rows: Sequence[list[Any]], places: Sequence[Any]
    ) -> Sequence[Sequence[Any]]:
        """Rows as they are kept, each as `kept` has it."""
        try:
            return self.check_each(rows)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (of any decoder: one of them can't be read)
            return [self.kept(values, place) for values, place in zip(rows, places, strict=True)]

    def check_each(self, rows: Sequence[list[Any]]) -> Sequence[list[Any]]:
        """The same as `check` for each; rows that were given are not changed.

        Raises:
            BaseException: One of them can't be read.
        """
        return [self.check(values) for values in rows]

    def emit_row(self, row: Sequence[Any], msg_id: Any) -> None:
        """Emit a row that is kept."""
        stream = ERRORS_STREAM if type(row) is tuple else DEFAULT_STREAM
        self.collector.emit(list(row), stream=stream, msg_id=msg_id)

    def emit_rows(self, rows: Sequence[Sequence[Any]], ids: Sequence[Any]) -> None:
        """Emit rows that are kept, each with its id."""
        if tuple not in set(map(type, rows)):
            self.collector.emit_many(rows, msg_ids=ids)
            return
        good = [i for i, row in enumerate(rows) if type(row) is list]
        self.collector.emit_many([rows[i] for i in good], msg_ids=[ids[i] for i in good])
        for row, msg_id in zip(rows, ids, strict=True):
            if type(row) is tuple:
                self.emit_row(row, msg_id)

    def age_of(self, value: Any) -> float | None:
        """The age of a row, if a column says when it was written, by a time with its zone."""
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        return type(self).today() - value.timestamp()

    @property
    def knows_its_end(self) -> bool:
        """Whether it ends where its rows do."""
        return not self.options.follow


def _as_data(fields: Iterable[str], values: Sequence[Any]) -> bytes:
    """A row as JSON, so that nothing of it is lost."""
    row = dict(zip(fields, values, strict=True))
    try:
        return DEFAULT.text(row).encode()
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (of a row that nothing may be able to read)
        return repr_of(row, _LONGEST_DATA).encode(errors="backslashreplace")
