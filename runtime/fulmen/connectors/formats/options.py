"""Formats as a topology's file names them: `format: {type: json, fields: [url, user]}`."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from fulmen.connectors.formats.base import Format
from fulmen.connectors.formats.csv_format import CsvFormat
from fulmen.connectors.formats.json_format import JsonFormat
from fulmen.connectors.formats.plain import BytesFormat, TextFormat
from fulmen.connectors.options import Options

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=1000)]


def _encoding(name: str) -> str:
    with suppress(LookupError):  # unknown, or not of text, such as hex
        "".encode(name)
        return name
    raise ValueError(f"Python knows no encoding {name!r} of text. Usual ones are utf-8 and latin-1")


class OneFormat(Options):
    """What all formats have."""

    @abstractmethod
    def make(self) -> Format:
        """The format."""

    def for_topic(self, topic: str | None, part: str = "value") -> Self:  # noqa: ARG002
        """The same for one part of a topic's messages; it matters to formats with schemas."""
        return self


class TextOptions(OneFormat):
    """The whole message is one text."""

    type: Literal["text"] = "text"
    field: str = "value"
    """The name of the field with the text."""
    encoding: Annotated[str, AfterValidator(_encoding)] = "utf-8"
    """The name of the encoding, as Python knows it."""

    def make(self) -> Format:
        """The format."""
        return TextFormat(self.field, self.encoding)


class BytesOptions(OneFormat):
    """The whole message, as it is."""

    type: Literal["bytes"]
    field: str = "value"
    """The name of the field with the bytes."""

    def make(self) -> Format:
        """The format."""
        return BytesFormat(self.field)


class JsonOptions(OneFormat):
    """The message is a JSON object, whose members are the fields; or any JSON value."""

    type: Literal["json"]
    fields: Names = ()
    """The members that become fields. A member that is missing is null. Default: the whole JSON
    value is one field, `value`. In a sink: the fields that are written; default: all."""
    required: Names = ()
    """Members without which a message is malformed."""

    def make(self) -> Format:
        """The format."""
        return JsonFormat(self.fields, self.required)


class CsvOptions(OneFormat):
    """The message is one record of values with separators between them."""

    type: Literal["csv"]
    fields: Names = ()
    """The names of the values in their order. In a sink: the fields that are written; default:
    all."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """What is between two values."""

    def make(self) -> Format:
        """The format."""
        return CsvFormat(self.fields, self.delimiter)


FormatOptions = Annotated[
    TextOptions | BytesOptions | JsonOptions | CsvOptions, Field(discriminator="type")
]
"""The `format` of a connector."""
