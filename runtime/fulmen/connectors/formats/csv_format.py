"""Messages that are one record of CSV (RFC 4180)."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from fulmen.connectors.formats.base import (
    Format,
    Malformed,
    Rowlike,
    positions,
    refuse_field,
    text_in,
)
from fulmen.connectors.formats.encodings import UTF_8, is_utf_8, without_line_feed, without_mark
from fulmen.connectors.formats.types import convert_all, convert_column, converters
from fulmen.connectors.formats.values import DEFAULT, ValueWriter, checked_text

# Python refuses values above 128 KiB in all readers of a process. Sources have limits of their own.
csv.field_size_limit((1 << 63) - 1)
_NONE: Mapping[str, str] = MappingProxyType({})
_AS_THEY_ARE = frozenset({str, int, type(None)})
_NUMBERS = frozenset({int, float, type(None)})
"""They are as they are if they are finite."""
_TEXTS = ("string", "binary", "base64")
"""Types of which an empty text is a value."""
_MARK = "\ufeff"
_END = "\r\n"
_IS_HEADER = (
    "it has the fields' names. If each file begins with them, write `header: true` beside `format`"
)


class Quotes:
    """Where quotes of CSV are open: they count where a value begins, and nowhere else."""

    def __init__(self, delimiter: str, encoding: str) -> None:
        self._delimiter, self._encoding = delimiter, encoding
        between = re.escape(delimiter)
        opened = '"[^"]*+(?:""[^"]*+)*+'
        value = f'(?:{opened}"|(?!")[^{between}]*+)'
        self._line = re.compile(rf"(?:{value}{between})*+(?:{value}|({opened}))\Z").match

    def are_never_open(self, lines: Sequence[bytes], start: int) -> bool:
        """Whether each line is a whole record by itself. False: that is not sure.

        Args:
            lines: With their ends.
            start: Where they begin in their file, which may begin with a byte order mark.
        """
        if b'"' not in b"".join(lines):
            return True
        texts = [line.decode(self._encoding, "replace") for line in lines]
        if start == 0:
            texts[0] = without_mark(lines[0], self._encoding).decode(self._encoding, "replace")
        try:
            records = sum(1 for _ in csv.reader(texts, delimiter=self._delimiter, strict=True))
        except csv.Error:
            return False
        return records == len(lines)

    def are_open(self, line: bytes, *, before: bool, is_first: bool = False) -> bool | None:
        """Whether quotes are open behind a line; None: it is no part of a record.

        Args:
            line: With or without its end.
            before: Whether they are open before it.
            is_first: Whether it is that of a file, which may begin with a byte order mark.
        """
        line = without_mark(line, self._encoding) if is_first else line
        text = without_line_feed(line).decode(self._encoding, "replace")
        found = self._line(f'"{text}' if before else text)
        return None if found is None else found[1] is not None


class CsvFormat(Format):
    """The message is one record of values with separators between them.

    All values are text, unless fields have types. A text that means null does not if it is between
    quotes, as in PostgreSQL and DuckDB.
    """

    def __init__(
        self,
        fields: Sequence[str] = (),
        delimiter: str = ",",
        *,
        types: Mapping[str, str] = _NONE,
        nulls: Sequence[str] = (),
        encoding: str = UTF_8,
        writer: ValueWriter = DEFAULT,
    ) -> None:
        """Know what is asked for.

        Args:
            fields: The names of the values that are read, or written.
            delimiter: What is between two values.
            types: Of some of the fields.
            nulls: Texts that mean null. The first is written for it.
            encoding: Of messages.
            writer: How values are written.
        """
        self.fields = tuple(fields)
        self.types = {name: types.get(name, "string") for name in self.fields}
        self._delimiter = delimiter
        self._typed = converters(types, self.fields)
        self._texts = frozenset(i for i, n in enumerate(fields) if types.get(n, "string") in _TEXTS)
        self._nulls = frozenset(nulls)
        self._null = nulls[0] if nulls else ""
        self._quoted_texts = self._nulls | {""}
        self._encoding = encoding
        self._writer = writer
        self._width = len(self.fields)
        self._at: list[int] | None = None
        opened = re.escape(delimiter)
        self._special = re.compile(f'["\r\n{opened}]')
        self._read = _One()
        self._records = csv.reader(self._read, delimiter=delimiter, strict=True)
        self._value = re.compile(rf'(?:\A|{opened})(?:("(?:[^"]|"")*")|[^{opened}]*)')

    def of_columns(self, names: Sequence[str]) -> CsvFormat:
        """Use it for records whose values have these names; the fields are picked of them.

        Raises:
            Malformed: A field is not among them.
        """
        self._at, self._width = positions(self.fields, names), len(names)
        return self

    # ---- reading

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        return self.by_halves(messages, self._at_once)

    def _at_once(self, messages: Sequence[bytes]) -> list[list[Any]]:
        """The values of each, by columns.

        Raises:
            BaseException: One of them is another case.
        """
        encoding = self._encoding
        texts = [data.decode(encoding) for data in messages]
        records = list(csv.reader(texts, delimiter=self._delimiter, strict=True))
        # with as many records as messages, none of them has gone on in the next one
        if len(records) != len(texts) or set(map(len, records)) - {self._width}:
            raise ValueError("one is no record")
        if self._at is None and not (self._nulls or self._typed):
            return records
        at = range(self._width) if self._at is None else self._at
        columns: list[Sequence[Any]] = [list(map(itemgetter(i), records)) for i in at]
        if self._nulls:
            has_quotes = '"' in "".join(texts)
            for i, column in enumerate(columns):
                if not self._nulls.isdisjoint(column):
                    quoted_in = texts if has_quotes and i in self._texts else None
                    columns[i] = self._nulled(column, at[i], quoted_in)
        for i, name, convert in self._typed:
            columns[i] = convert_column(columns[i], self.types[name], convert)
        return list(map(list, zip(*columns, strict=True)))

    def _nulled(
        self, column: Sequence[str], at: int, texts: Sequence[str] | None
    ) -> list[str | None]:
        """A column with its nulls.

        Args:
            column: The values.
            at: Its place in the records.
            texts: The records, if quotes matter.
        """
        nulls = self._nulls
        if texts is None:
            return [None if value in nulls else value for value in column]
        return [
            None if value in nulls and at not in self._quoted(text) else value
            for value, text in zip(column, texts, strict=True)
        ]

    @override
    def decode(self, data: bytes) -> list[Any]:
        text = text_in(data, self._encoding)
        values: list[Any] = self._cut(text) or [""]
        if len(values) != self._width:
            if len(values) == 1 and not text:
                values = []
            number = f"{len(values)} value{'s' * (len(values) != 1)}"
            raise Malformed(f"it has {number}, not {self._width}")
        quoted: Sequence[int] = ()
        if not self._nulls.isdisjoint(values):
            quoted = self._quoted(text)
        if self._at is not None:
            values = [values[i] for i in self._at]
            quoted = [i for i, at in enumerate(self._at) if at in quoted] if quoted else ()
        if self._nulls:
            nulls, texts = self._nulls, self._texts
            for i, value in enumerate(values):
                if value in nulls and not (i in texts and i in quoted):
                    values[i] = None
        if self._typed:
            try:
                convert_all(values, self._typed)
            except Malformed as error:
                raise Malformed(self._with_cure(text, str(error))) from None
        return values

    def _with_cure(self, text: str, said: str) -> str:
        """Say what a record may be that has a value of another type."""
        if self._cut(text) == list(self.fields):
            return _IS_HEADER
        has_cure = not re.search(r" is no \w+$", said)
        return said if has_cure else f"{said}. If it means null, name it in `nulls`"

    def names(self, data: bytes) -> list[str]:
        """The values of a record as they are.

        Raises:
            Malformed: It is none.
        """
        return self._cut(text_in(data, self._encoding))

    def _cut(self, text: str) -> list[str]:
        self._read.text = text
        try:
            return next(self._records)
        except csv.Error as error:
            said = str(error).partition(" - do you need to open")[0]  # not the reader's to do
            raise Malformed(f"it is not CSV: {said}") from error

    def _quoted(self, text: str) -> Sequence[int]:
        """The numbers of the values between quotes."""
        if '"' not in text:
            return ()
        return [i for i, matched in enumerate(self._value.finditer(text)) if matched[1] is not None]

    # ---- writing

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        names = self.fields or tuple(fields)
        at = positions(names, fields)
        lines: list[str] = []
        # Before Python 3.13 it quotes only those ends of lines that are in its own.
        write = csv.writer(_Lines(lines), delimiter=self._delimiter, lineterminator=_END).writerow

        text, writes_null = self._writer.text, not self._null and len(at) > 1
        encoding = self._encoding

        def encode(values: Sequence[Any]) -> bytes:
            picked = [values[i] for i in at]
            try:
                if not _AS_THEY_ARE.issuperset(map(type, picked)):
                    picked = [one if type(one) in _AS_THEY_ARE else text(one) for one in picked]
                if self._quoted_texts.isdisjoint(picked) and (writes_null or None not in picked):
                    write(picked)
                    line = lines.pop()[: -len(_END)]
                    if line[:1] != _MARK:
                        return line.encode(encoding)
                return self._delimiter.join(map(self._cell, picked)).encode(encoding)
            except (Malformed, ValueError) as error:
                lines.clear()
                said = error if isinstance(error, Malformed) else Malformed(str(error))
                raise refuse_field(names, picked, self._try, said) from None

        return encode

    @override
    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[bytes]]:
        encode, text = self.encoder(fields), self._writer.text
        pickers = [itemgetter(i) for i in positions(self.fields or tuple(fields), fields)]
        has_no_null = not self._null and len(pickers) == 1  # which the module would put in quotes

        def encode_many(rows: Rowlike) -> list[bytes]:
            others: set[int] = set()  # those that it would write otherwise
            columns: list[Sequence[Any]] = []
            for pick in pickers:
                column = list(map(pick, rows))
                kinds = set(map(type, column))
                if not kinds <= _AS_THEY_ARE and not (
                    kinds <= _NUMBERS and all(map(isfinite, filter(None, column)))
                ):
                    column = [one if type(one) in _AS_THEY_ARE else text(one) for one in column]
                if not self._quoted_texts.isdisjoint(column):
                    quoted = self._quoted_texts
                    others.update(i for i, value in enumerate(column) if value in quoted)
                if type(None) in kinds:
                    if has_no_null:
                        others.update(i for i, value in enumerate(column) if value is None)
                    column = [self._null if value is None else value for value in column]
                columns.append(column)
            lines: list[str] = []
            writer = csv.writer(_Lines(lines), delimiter=self._delimiter, lineterminator=_END)
            writer.writerows(zip(*columns, strict=True))
            written = "".join(lines)
            made = self._cut_lines(written, lines)
            if _MARK in written:
                others.update(i for i, line in enumerate(lines) if line[:1] == _MARK)
            for i in others:
                made[i] = encode(rows[i])
            if len(made) != len(rows):
                raise ValueError("there are no fields")
            return made

        return encode_many

    def _cut_lines(self, text: str, lines: Sequence[str]) -> list[bytes]:
        """The bytes of lines without their ends.

        Args:
            text: All of them, which are encoded at once where that can be cut.
            lines: Each of them.
        """
        if is_utf_8(self._encoding):
            made = text.encode().split(_END.encode())
            if len(made) == len(lines) + 1:  # else there are such ends in values
                return made[:-1]
        return [line[: -len(_END)].encode(self._encoding) for line in lines]

    def _cell(self, value: Any) -> str:
        """Write one value, where it matters whether it has quotes."""
        if value is None:
            return self._null
        text = str(value)
        if text in self._quoted_texts or text[:1] == _MARK or self._special.search(text):
            return '"' + text.replace('"', '""') + '"'
        return text

    def _try(self, value: Any) -> None:
        if value is not None:
            text = checked_text(self._writer.text(value))
            try:
                text.encode(self._encoding)
            except UnicodeError as error:
                raise Malformed(f"it can't be written in {self._encoding}: {error}") from None


class _One:
    """The input of a `csv` reader. One reader for all texts costs a quarter of one for each."""

    text: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text, self.text = self.text, None
        if text is None:
            raise StopIteration
        return text


class _Lines:
    """The output of a `csv` writer."""

    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append
