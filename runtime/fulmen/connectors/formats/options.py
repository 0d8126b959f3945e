"""Formats as a topology's file names them: `format: {type: json, fields: [url, user]}`."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.formats.base import Format, refused
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.encodings import UTF_8, Encoding, cuts_lines
from fulmen.connectors.formats.json_format import JsonFormat
from fulmen.connectors.formats.logs import LAYOUTS, LineLayout, LogfmtFormat, PatternFormat
from fulmen.connectors.formats.plain import BytesFormat, TextFormat
from fulmen.connectors.formats.types import Type
from fulmen.connectors.formats.values import ValueWriter
from fulmen.connectors.formats.written_types import WrittenType
from fulmen.connectors.options import Options
from fulmen.expressions.library import patterns

Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(max_length=1000)]
Types = Annotated[dict[Name, Type], Field(max_length=1000)]


class OneFormat(Options):
    """The base of all formats' options."""

    @abstractmethod
    def make(self) -> Format:
        """The format."""

    def mistakes(self, stream: Stream) -> Iterable[str]:
        """Yield the mistakes of a stream to be written: a field is missing, or of no use."""
        for name, kind in types_of(getattr(self, "fields", ())).items():
            if isinstance(kind, WrittenType):
                yield (
                    f"field {name!r}: a form is for sources, a sink writes as ISO 8601 says. Make a"
                    f" text of it in `select`, such as strftime({name}, '{kind.form}')"
                )
        yield from refused(lambda: self.make().encoder(stream.fields))

    def for_topic(self, topic: str | None, part: str = "value") -> Self:  # noqa: ARG002
        """Copy for one part of a topic's messages; it matters to formats with schemas."""
        return self


class TextOptions(OneFormat):
    """The whole message is one text."""

    type: Literal["text"] = "text"
    field: str = "value"
    """The name of the field with the text."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it."""

    @override
    def make(self) -> Format:
        return TextFormat(self.field, self.encoding)


class BytesOptions(OneFormat):
    """The whole message, as it is."""

    type: Literal["bytes"]
    field: str = "value"
    """The name of the field with the bytes."""

    @override
    def make(self) -> Format:
        return BytesFormat(self.field)


class JsonOptions(OneFormat):
    """The message is a JSON object, whose members are the fields; or any JSON value."""

    type: Literal["json"]
    fields: Names | Types = ()
    """The members that become fields: a list, or a mapping with their types, such as `{at:
    timestamp, amount: decimal}`. A member that is missing is null. Default: the whole JSON value is
    one field, `value`. In a sink: the fields that are written; default: all."""
    required: Names = ()
    """Members without which a message is malformed."""
    decimals: Literal["number", "text"] = "number"
    """In a sink, what a Decimal becomes: a number with all its digits, which most programs read as
    a float, or a text."""
    binary: Literal["text", "base64"] = "text"
    """In a sink, what bytes become: text where they are UTF-8, and else base64; or always
    base64."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it. In a sink, characters that it lacks are
    escaped."""

    @override
    def make(self) -> Format:
        writer = ValueWriter(self.decimals, self.binary)
        return JsonFormat(
            tuple(self.fields), self.required, types_of(self.fields), writer, self.encoding
        )


class CsvOptions(OneFormat):
    """The message is one record of values with separators between them."""

    type: Literal["csv"]
    fields: Names | Types = ()
    """The names of the values in their order: a list, if all are text, or a mapping with their
    types, such as `{city: string, year: int32}`. In a sink: the fields that are written; default:
    all."""
    nulls: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """Texts that mean null, such as `[NA, ""]`, unless they are between quotes. In a sink the first
    is written for null; default: nothing is between the separators."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """What is between two values."""
    binary: Literal["text", "base64"] = "text"
    """In a sink, what bytes become: text where they are UTF-8, and else base64; or always
    base64."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it, such as `latin-1` or `cp1252`."""

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        if self.delimiter in '"\r\n':
            raise ValueError(f"delimiter can't be {self.delimiter!r}: it has a meaning in CSV")
        for text in self.nulls:
            if any(special in text for special in ('"', "\r", "\n", self.delimiter)):
                raise ValueError(f"nulls: {text!r} would need quotes, and then is no null")
        return self

    @override
    def make(self) -> CsvFormat:
        return CsvFormat(
            tuple(self.fields),
            self.delimiter,
            types=types_of(self.fields),
            nulls=self.nulls,
            encoding=self.encoding,
            writer=ValueWriter(binary=self.binary),
        )


class _LineOptions(OneFormat):
    """The base of formats whose fields are the named groups of a pattern."""

    fields: Names | Types = ()
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it."""

    @abstractmethod
    def line_layout(self) -> LineLayout:
        """What lines look like."""

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        self.make()
        return self

    @override
    def make(self) -> Format:
        fields = tuple(self.fields)
        return PatternFormat(self.line_layout(), fields, types_of(self.fields), self.encoding)


class RegexOptions(_LineOptions):
    """The message is a text that a pattern matches as a whole. For sources."""

    type: Literal["regex"]
    pattern: Annotated[str, Field(min_length=1, max_length=patterns.LONGEST)]
    """A pattern of RE2, such as `(?P<user>\\S+) (?P<amount>\\d+)`: its named groups are the fields.
    What it does not match is malformed."""
    fields: Names | Types = ()
    """The groups that become fields: a list, or a mapping with their types, such as `{user: string,
    amount: int64}`. Default: all, as texts."""
    nulls: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """Texts that mean null, such as `["-"]`. A group that takes no part in the match is null."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it."""

    @override
    def line_layout(self) -> LineLayout:
        return LineLayout(self.pattern, {}, self.nulls)


class LogOptions(_LineOptions):
    """The message is a line of a log in a usual layout. For sources."""

    type: Literal["log"]
    layout: Literal["common", "combined", "syslog", "syslog-file"]
    """`common` and `combined` are those of web servers, `syslog` is RFC 5424, `syslog-file` what
    rsyslog writes to files."""
    fields: Names | Types = ()
    """The fields that are read: a list, or a mapping with other types. Default: all."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it."""

    @override
    def line_layout(self) -> LineLayout:
        return LAYOUTS[self.layout]


class LogfmtOptions(OneFormat):
    """The message is pairs such as `level=info msg="it runs"`. For sources."""

    type: Literal["logfmt"]
    fields: Names | Types = ()
    """The names that become fields: a list, or a mapping with their types. One that is missing is
    null. Default: the pairs are one field, `value`."""
    encoding: Encoding = UTF_8
    """The name of the encoding, as Python knows it."""

    @override
    def make(self) -> Format:
        return LogfmtFormat(tuple(self.fields), types_of(self.fields), self.encoding)


def types_of(fields: Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    """The types of fields, if they are given."""
    return fields if isinstance(fields, Mapping) else {}


def of_lines(chosen: OneFormat) -> OneFormat:
    """Refuse a format whose messages can't be lines of a file."""
    encoding = getattr(chosen, "encoding", UTF_8)
    if cuts_lines(encoding):
        return chosen
    if codecs.lookup(encoding).name == "utf-8-sig":
        raise ValueError(
            f"encoding {encoding!r} is not for lines. Write utf-8: a byte order mark at the"
            " beginning of a file is no data"
        )
    raise ValueError(
        f"lines can't be cut in the encoding {encoding!r}: a line feed or a quote is more than one"
        f" byte in it, or part of other characters. Use utf-8. `iconv -f {encoding} -t utf-8`"
        " converts a file"
    )


AnyFormat = (
    TextOptions
    | BytesOptions
    | JsonOptions
    | CsvOptions
    | RegexOptions
    | LogOptions
    | LogfmtOptions
)
FormatOptions = Annotated[AnyFormat, Field(discriminator="type")]
"""The `format` of a connector."""
LineFormatOptions = Annotated[FormatOptions, AfterValidator(of_lines)]
"""The `format` of a connector whose messages are lines."""
