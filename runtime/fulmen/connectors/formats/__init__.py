"""How messages are written down: as text, bytes, JSON, CSV or Avro, and lines of logs.

A format turns the bytes of a message into the values of a tuple, and back. Uses `options`; used by
the rooms of all connectors, each of which has an option `format`. `avro` is for messages that may
be any bytes, and come one by one.

Each worker imports `base` and `values`, which others use as well; models of options only when a
connector asks for them, since making them takes a tenth of a worker's start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from fulmen.connectors.formats.values import (
    DEFAULT,
    ValueWriter,
    as_bytes,
    checked_text,
    natural,
)

if TYPE_CHECKING:
    from fulmen.connectors.formats.avro import AvroKeyOptions, AvroOptions, MessageFormatOptions
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

_OF_AVRO = frozenset({"AvroKeyOptions", "AvroOptions", "MessageFormatOptions"})


def __getattr__(name: str) -> Any:
    """Import a model of options when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{'avro' if name in _OF_AVRO else 'options'}")
    return getattr(module, name)
