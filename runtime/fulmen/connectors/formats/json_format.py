"""Messages in JSON."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import orjson
from typing_extensions import override

from fulmen.connectors.formats import exact
from fulmen.connectors.formats.base import Format, Malformed, positions, refuse_field, text_in
from fulmen.connectors.formats.encodings import UTF_8, is_utf_8, without_mark
from fulmen.connectors.formats.types import convert_all, converters
from fulmen.connectors.formats.values import DEFAULT, OPTIONS, ValueWriter, have_unfinite
from fulmen.errors import PASSED_ON

_NONE: Mapping[str, str] = MappingProxyType({})


class JsonFormat(Format):
    """The message is a JSON object, whose members are the fields; or any JSON value."""

    def __init__(
        self,
        fields: Sequence[str] = (),
        required: Sequence[str] = (),
        types: Mapping[str, str] = _NONE,
        writer: ValueWriter = DEFAULT,
        encoding: str = UTF_8,
    ) -> None:
        """Know what is asked for.

        Args:
            fields: The members that become fields.
            required: Members without which a message is malformed.
            types: Of some of the fields.
            writer: How values are written.
            encoding: Of messages.
        """
        self.fields = tuple(fields) or ("value",)
        self._members = tuple(fields)
        self.types = types
        self._required = tuple(required)
        self._documents = [name for name in self._members if types.get(name) == "json"]
        others = {name: kind for name, kind in types.items() if kind != "json"}
        self._typed = converters(others, self._members)
        self._decimals = [i for i, name, _ in self._typed if types[name] == "decimal"]
        self._writer = writer
        self._other = None if is_utf_8(encoding) else encoding

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        is_plain = not (self._required or self._typed or self._documents or self._other)
        if self._members and is_plain:
            try:
                return self._at_once(messages)
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (one of them is another case)
                pass
        return super().decode_each(messages)

    def _at_once(self, messages: Sequence[bytes]) -> list[Any]:
        """The usual case, in a third of the time.

        Raises:
            BaseException: One of them is another case.
        """
        loads = orjson.loads
        if len(self._members) == 1:
            (name,) = self._members
            decoded = [[loads(data)[name]] for data in messages]
        else:
            pick = itemgetter(*self._members)
            decoded = [list(pick(loads(data))) for data in messages]
        if exact.may_have_large(messages):
            for i, values in enumerate(decoded):
                if exact.has_large(values):
                    decoded[i] = self.decode(messages[i])
        return decoded

    @override
    def decode(self, data: bytes) -> list[Any]:
        data = without_mark(data, self._other or UTF_8)
        if self._other:
            data = text_in(data, self._other).encode(errors="surrogatepass")
        value = self._loaded(data)
        if not self._members and not self._required:
            return [value]
        if not isinstance(value, dict):
            raise Malformed(f"it is {type(value).__name__} in JSON, not an object with members")
        for name in self._required:
            if value.get(name) is None:
                raise Malformed(f"the JSON object has no member {name!r}")
        if not self._members:
            return [value]
        values = [value.get(name) for name in self._members]
        if self._typed or self._documents:
            self._keep_digits(data, values)
            convert_all(values, self._typed)
        return values

    def _loaded(self, data: bytes) -> Any:
        try:
            try:
                return exact.loads(data)
            except orjson.JSONDecodeError:
                if not (self._decimals or self._documents):  # which may be beyond all floats
                    raise
                return exact.again(data, decimals=True)
        except ValueError as error:
            raise Malformed(f"it is not JSON: {error}") from error

    def _keep_digits(self, data: bytes, values: list[Any]) -> None:
        """Have the digits of decimals and in documents, which floats have not."""
        if self._documents and exact.may_be_inexact(data):
            try:
                whole = exact.document(data)
            except ValueError as error:
                raise Malformed(str(error)) from None
            for i, name in enumerate(self._members):
                if name in self._documents:
                    values[i] = whole.get(name)
        floats = [i for i in self._decimals if type(values[i]) is float]
        if floats:
            whole = exact.again(data, decimals=True)
            for i in floats:
                values[i] = whole[self._members[i]]

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        names = self._members or tuple(fields)
        at = positions(names, fields)
        if not names:  # all that there is was its topic or key
            return lambda _values: b"{}"
        pick = itemgetter(*at) if len(at) > 1 else lambda values: (values[at[0]],)
        dumps, writer, plain = orjson.dumps, self._writer, self._writer.plain

        def in_utf_8(values: Sequence[Any]) -> bytes:
            picked = pick(values)
            made = dict(zip(names, picked))  # noqa: B905 (as many, and strict takes as long as orjson)
            try:
                data = dumps(made, plain, OPTIONS)
                if data.find(b"null") < 0 or not have_unfinite(picked):  # `in` takes twice as long
                    return data
            except TypeError:
                pass  # said below, or written
            try:
                return writer.dumps(made)
            except Malformed as error:
                raise refuse_field(names, picked, writer.dumps, error) from None

        if (other := self._other) is None:
            return in_utf_8
        return lambda values: in_utf_8(values).decode().encode(other, _ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape the characters that an encoding lacks, as JSON does in ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join(f"\\u{unit}" for unit in pairs), error.end


_ESCAPED = "fulmen.json"
codecs.register_error(_ESCAPED, _escaped)
