"""Messages in JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import orjson
from typing_extensions import override

from fulmen.connectors.formats.base import Format, Malformed, positions


class JsonFormat(Format):
    """The message is a JSON object, whose members are the fields; or any JSON value."""

    def __init__(self, fields: Sequence[str] = (), required: Sequence[str] = ()) -> None:
        self.fields = tuple(fields) or ("value",)
        self._members = tuple(fields)
        self._required = tuple(required)

    @override
    def decode_each(self, messages: Sequence[bytes]) -> list[list[Any] | Malformed]:
        loads, members = orjson.loads, self._members
        if members and not self._required:
            try:  # the usual case, in a third of the time
                if len(members) == 1:
                    (name,) = members
                    return [[loads(data)[name]] for data in messages]
                pick = itemgetter(*members)
                return [list(pick(loads(data))) for data in messages]
            except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
                pass  # one of them is another case
        return super().decode_each(messages)

    @override
    def decode(self, data: bytes) -> list[Any]:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise Malformed(f"it is not JSON: {error}") from error
        if not self._members and not self._required:
            return [value]
        if not isinstance(value, dict):
            raise Malformed(f"it is {type(value).__name__} in JSON, not an object with members")
        for name in self._required:
            if value.get(name) is None:
                raise Malformed(f"the JSON object has no member {name!r}")
        return [value.get(name) for name in self._members] if self._members else [value]

    @override
    def encoder(self, fields: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
        names = self._members or tuple(fields)
        at = positions(names, fields)
        pick = itemgetter(*at) if len(at) > 1 else lambda values: (values[at[0]],)

        def encode(values: Sequence[Any]) -> bytes:
            try:
                return orjson.dumps(
                    dict(zip(names, pick(values), strict=True)), option=orjson.OPT_SERIALIZE_NUMPY
                )
            except (TypeError, orjson.JSONEncodeError) as error:
                raise Malformed(f"it can't be written as JSON: {error}") from error

        return encode
