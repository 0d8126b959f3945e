"""How messages are written down: as text, bytes, JSON, CSV or Avro, and lines of logs.

A format turns the bytes of a message into the values of a tuple, and back. Uses `options`; used by
the rooms of all connectors, each of which has an option `format`. `avro` is for messages that may
be any bytes, and come one by one.
"""

from fulmen.connectors.formats.avro import AvroKeyOptions, AvroOptions, MessageFormatOptions
from fulmen.connectors.formats.base import (
    ERRORS,
    Format,
    Malformed,
    Rowlike,
    encode_each,
    named,
    readable,
    unread,
)
from fulmen.connectors.formats.options import (
    BytesOptions,
    CsvOptions,
    FormatOptions,
    JsonOptions,
    LineFormatOptions,
    LogfmtOptions,
    LogOptions,
    RegexOptions,
    TextOptions,
)
from fulmen.connectors.formats.values import (
    DEFAULT,
    ValueWriter,
    as_bytes,
    checked_text,
    natural,
)

__all__ = [
    "DEFAULT",
    "ERRORS",
    "AvroKeyOptions",
    "AvroOptions",
    "BytesOptions",
    "CsvOptions",
    "Format",
    "FormatOptions",
    "JsonOptions",
    "LineFormatOptions",
    "LogOptions",
    "LogfmtOptions",
    "Malformed",
    "MessageFormatOptions",
    "RegexOptions",
    "Rowlike",
    "TextOptions",
    "ValueWriter",
    "as_bytes",
    "checked_text",
    "encode_each",
    "named",
    "natural",
    "readable",
    "unread",
]
