"""Sinks that print: lines in a format, or a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from rich import box
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from fulmen.api.components.sinks import Mark, Rows, Sink
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.formats import JsonOptions, LineFormatOptions, Malformed, encode_each
from fulmen.connectors.formats.base import positions, refused
from fulmen.connectors.options import SinkOptions
from fulmen.errors import repr_of, text_of
from fulmen.visible import visible


class PrintedOptions(SinkOptions):
    """Options of a sink that prints: a printed row can't be taken back."""

    guarantee: Literal["at-least-once"] = "at-least-once"
    """What the sink promises. There is only one guarantee: a batch that is run again is printed
    again."""


class StdoutOptions(PrintedOptions):
    """The form of a line."""

    format: LineFormatOptions = JsonOptions(type="json")
    """What each line is: `json`, `csv`, `text` or `bytes`."""


class StdoutSink(Sink):
    """Prints each row as a line, on the standard output of the process that hosts the task."""

    config_model = StdoutOptions
    prints = True
    durable = ()
    appends = True

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        mistakes: Iterable[str] = options.format.mistakes(stream)
        return mistakes

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._options: StdoutOptions = context.options

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        try:
            encode = self._options.format.make().encoder(rows.fields)
        except Malformed as error:
            rows.fail_all(str(error))
            return rows
        return encode_each(rows, encode)

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        data = b"".join(line + b"\n" for line in rows)
        if out is None:  # somebody has put a stream of text in its place
            sys.stdout.write(data.decode(errors="replace"))
        else:
            out.write(data)
            out.flush()
        sys.stdout.flush()


class TableOptions(PrintedOptions):
    """The form of a table."""

    key: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The fields that identify a row of the table: a later row with the same key replaces it.
    Default: every row is a row of the table."""
    rows: Annotated[int, Field(ge=1)] = 20
    """How many rows the table has, at most: those that were changed last."""
    every_seconds: Annotated[float, Field(ge=0)] = 1.0
    """How often the table is printed, at most."""


class TableSink(Sink):
    """Prints the latest rows as a table, on the standard output of the process that hosts the task.

    The table begins anew with each process.
    """

    config_model = TableOptions
    prints = True
    durable = ()

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str]:
        return refused(lambda: positions(options.key, stream.fields))

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._options: TableOptions = context.options
        self._table: dict[Any, Sequence[Any]] = {}
        self._fields: tuple[str, ...] = ()
        self._printed = float("-inf")
        self._is_new = False

    @property
    @override
    def appends(self) -> bool:
        return not self._options.key

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        missing = [name for name in self._options.key if name not in rows.fields]
        if missing:
            rows.fail_all(f"there is no field {missing[0]!r}, only {list(rows.fields)}")
        return rows

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        at = [rows.fields.index(name) for name in self._options.key]
        self._fields = rows.fields
        for row in rows:
            key = tuple(repr_of(row[i], sys.maxsize) for i in at) if at else object()
            self._table.pop(key, None)
            self._table[key] = row
            while len(self._table) > self._options.rows:
                del self._table[next(iter(self._table))]
        self._is_new = True
        if time.monotonic() >= self._printed + self._options.every_seconds:
            self._print()

    @override
    def cleanup(self) -> None:
        if self._is_new:
            self._print()

    def _print(self) -> None:
        table = Table(*self._fields, box=box.SIMPLE)
        for row in self._table.values():
            table.add_row(*(_printable(value) for value in row))
        Console(file=sys.stdout).print(table, markup=False)
        self._printed, self._is_new = time.monotonic(), False


def _printable(value: Any) -> str:
    """The text of a value, with what standard output has no characters for written as escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return visible(text_of(value)).encode(encoding, "backslashreplace").decode(encoding)
