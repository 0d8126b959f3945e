"""Messages that are one value: a text, or bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from fulmen.connectors.formats.base import Format, Malformed, positions, text_in
from fulmen.connectors.formats.values import DEFAULT, checked_text


class TextFormat(Format):
    """The whole message is one text."""

    def __init__(self, field: str = "value", encoding: str = "utf-8") -> None:
        self.fields = (field,)
        self.types = {field: "string"}
        self._encoding = encoding

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        return self.by_halves(messages, self._at_once)

    def _at_once(self, messages: Sequence[bytes]) -> list[list[Any]]:
        encoding = self._encoding
        return [[data.decode(encoding)] for data in messages]

    @override
    def decode(self, data: bytes) -> list[Any]:
        return [text_in(data, self._encoding)]

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        at = _only(self.fields[0], fields)

        name, text = fields[at], DEFAULT.text

        def encode(values: Sequence[Any]) -> bytes:
            value = values[at]
            if value is None:
                raise Malformed(f"field {name!r} is null, which is no text. Write json, or csv")
            try:
                return text(value).encode(self._encoding)
            except UnicodeError as error:
                said = f"it can't be written in {self._encoding}: {error}"
                raise Malformed(f"field {name!r}: {said}") from error
            except Malformed as error:
                raise Malformed(f"field {name!r}: {error}") from None

        return encode


class BytesFormat(Format):
    """The whole message, as it is."""

    def __init__(self, field: str = "value") -> None:
        self.fields = (field,)
        self.types = {field: "binary"}

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        return [[data] for data in messages]

    @override
    def decode(self, data: bytes) -> list[Any]:
        return [data]

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        at = _only(self.fields[0], fields)

        name = fields[at]

        def encode(values: Sequence[Any]) -> bytes:
            value = values[at]
            if isinstance(value, str):
                return checked_text(value).encode()
            if not isinstance(value, bytes | bytearray | memoryview):
                kind = type(value).__name__
                raise Malformed(f"field {name!r}: {kind} is not bytes. Write text, json or csv")
            return bytes(value)

        return encode


def _only(wanted: str, fields: Sequence[str]) -> int:
    """The position of the one value: the field of that name, or the only one there is."""
    return 0 if len(fields) == 1 else positions([wanted], fields)[0]
