"""Messages that are one value: a text, or bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from fulmen.connectors.formats.base import Format, Malformed, positions


class TextFormat(Format):
    """The whole message is one text."""

    def __init__(self, field: str = "value", encoding: str = "utf-8") -> None:
        self.fields = (field,)
        self._encoding = encoding

    @override
    def decode(self, data: bytes) -> list[Any]:
        try:
            return [data.decode(self._encoding)]
        except UnicodeDecodeError as error:
            raise Malformed(f"it is not text in {self._encoding}: {error}") from error

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        at = _only(self.fields[0], fields)

        def encode(values: Sequence[Any]) -> bytes:
            try:
                return str(values[at]).encode(self._encoding)
            except UnicodeEncodeError as error:
                raise Malformed(f"it can't be written in {self._encoding}: {error}") from error

        return encode


class BytesFormat(Format):
    """The whole message, as it is."""

    def __init__(self, field: str = "value") -> None:
        self.fields = (field,)

    @override
    def decode(self, data: bytes) -> list[Any]:
        return [data]

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        at = _only(self.fields[0], fields)

        def encode(values: Sequence[Any]) -> bytes:
            if not isinstance(values[at], bytes | bytearray | memoryview):
                raise Malformed(f"{type(values[at]).__name__} is not bytes")
            return bytes(values[at])

        return encode


def _only(wanted: str, fields: Sequence[str]) -> int:
    """Where the one value is: the field of that name, or the only one there is."""
    return 0 if len(fields) == 1 else positions([wanted], fields)[0]
