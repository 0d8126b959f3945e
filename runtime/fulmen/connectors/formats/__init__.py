"""How messages are written down: as text, bytes, JSON or CSV.

A format turns the bytes of a message into the values of a tuple, and back. Uses `options`; used by
the rooms of all connectors, each of which has an option `format`.
"""

from fulmen.connectors.formats.base import Format, Malformed, encode_each
from fulmen.connectors.formats.options import (
    BytesOptions,
    CsvOptions,
    FormatOptions,
    JsonOptions,
    TextOptions,
)

__all__ = [
    "BytesOptions",
    "CsvOptions",
    "Format",
    "FormatOptions",
    "JsonOptions",
    "Malformed",
    "TextOptions",
    "encode_each",
]
