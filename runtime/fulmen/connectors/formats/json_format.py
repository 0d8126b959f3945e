"""Messages in JSON."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import orjson
from typing_extensions import override

from fulmen.connectors.formats import exact
from fulmen.connectors.formats.base import (
    Format,
    Malformed,
    Rowlike,
    positions,
    refuse_field,
    text_in,
)
from fulmen.connectors.formats.encodings import UTF_8, is_utf_8, without_mark
from fulmen.connectors.formats.json_members import MembersReader, members_reader
from fulmen.connectors.formats.types import convert_all, convert_column, converters
from fulmen.connectors.formats.values import (
    DEFAULT,
    OPTIONS,
    ValueWriter,
    have_unfinite,
    rows_have_unfinite,
)
from fulmen.errors import PASSED_ON

_NONE: Mapping[str, str] = MappingProxyType({})
_AT_ONCE = 256
"""So many rows are written together: more take no less time, and have to fit into memory twice."""


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
        self._is_by_member = bool(self._members) and not (
            self._decimals or self._documents or self._other
        )

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        if self._is_by_member:
            return self.by_halves(messages, self._at_once)
        return super().decode_each(messages)

    def _at_once(self, messages: Sequence[bytes]) -> list[list[Any]]:
        """The values of each, by columns.

        Raises:
            BaseException: One of them is another case.
        """
        found = self._columns(messages)
        if any(value is None for i in self._required_at for value in found[i]):
            raise ValueError("a member is missing")
        columns: list[Sequence[Any]] = [*found[: len(self._members)]]
        for i, name, convert in self._typed:
            columns[i] = convert_column(columns[i], self.types[name], convert)
        return list(map(list, zip(*columns, strict=True)))

    @cached_property
    def _columns(self) -> MembersReader:
        """Only made if messages come: sinks have formats, too."""
        return members_reader(self._names)

    @cached_property
    def _names(self) -> Sequence[str]:
        """The names of all members that are looked at, fields first."""
        return [*dict.fromkeys([*self._members, *self._required])]

    @cached_property
    def _required_at(self) -> Sequence[int]:
        return [self._names.index(name) for name in self._required]

    @override
    def decode(self, data: bytes) -> list[Any]:
        data = without_mark(data, self._other or UTF_8)
        if self._is_by_member:
            try:
                return self._at_once([data])[0]
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (of any decoder)
                pass
        return self._decoded(data)

    def _decoded(self, data: bytes) -> list[Any]:
        """The values of a message that may be any case.

        Raises:
            Malformed: It is not JSON, or not as it has to be.
        """
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
                return exact.with_decimals(data)
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
            whole = exact.with_decimals(data)
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

    @override
    def encoder_of_many(self, fields: Sequence[str]) -> Callable[[Rowlike], list[bytes]]:
        """Write rows together as one list, and cut it: in a third of the time of one by one.

        It is cut where an object ends and the next one begins with the first name. In a text each
        quote has a backslash before it, and behind its last one comes no letter: so this can't be
        in a text. It can be in a value with objects of its own, and then there are too many cuts.
        """
        names = self._members or tuple(fields)
        if self._other or not names or not (names[0].isascii() and names[0].isidentifier()):
            return super().encoder_of_many(fields)
        at = positions(names, fields)
        pickers = None if at == [*range(len(fields))] else [itemgetter(i) for i in at]
        plain, first = self._writer.plain, b'{"' + names[0].encode() + b'":'
        between = b"}," + first

        def some_of(rows: Rowlike) -> list[bytes]:
            data = orjson.dumps([dict(zip(names, row)) for row in rows], plain, OPTIONS)  # noqa: B905 (as above)
            if b"null" in data and rows_have_unfinite(rows):
                raise ValueError("there is NaN or an infinity, which have names")
            made = data[1 + len(first) : -2].split(between)
            if len(made) != len(rows):
                raise ValueError("a value has such objects, too")
            return [first + one + b"}" for one in made]

        def encode_many(rows: Rowlike) -> list[bytes]:
            if pickers is not None:
                rows = list(zip(*(map(pick, rows) for pick in pickers), strict=True))
            made: list[bytes] = []
            for start in range(0, len(rows), _AT_ONCE):
                made += some_of(rows[start : start + _AT_ONCE])
            return made

        return encode_many


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape the characters that an encoding lacks, as JSON does in ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join(f"\\u{unit}" for unit in pairs), error.end


_ESCAPED = "fulmen.json"
codecs.register_error(_ESCAPED, _escaped)
