"""How messages are written down: as text, bytes, JSON or CSV. The same for all connectors."""

from fulmen.connectors.formats.base import Format, Malformed
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
]
