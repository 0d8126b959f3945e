"""The writes to Redis for a row: the key, the command, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from fulmen.connectors.formats import Format, Malformed, Rowlike, as_bytes, named
from fulmen.connectors.formats.base import is_deletion, positions
from fulmen.connectors.redis.options import RedisSinkOptions
from fulmen.connectors.templates import filler

Command = tuple[bytes, ...]
"""The key, the name of the command, and its other arguments."""
OF_VALUES = {"set": b"SADD", "list": b"RPUSH", "string": b"SET"}


def commands(
    options: RedisSinkOptions, fields: Sequence[str]
) -> Callable[[Sequence[Any]], Command]:
    """A function that makes the command for a row. It raises Malformed for rows it can't write.

    Args:
        options: What the topology's file says.
        fields: The names of a row's values, in their order.

    Raises:
        Malformed: A field is named that is not among them.
    """
    key = filler(options.key, fields)
    if (name := options.deleted_field) is None:
        if options.type in OF_VALUES:
            return _OfValues(key, OF_VALUES[options.type], options.format.make(), fields)
        rest = _rest(options, fields)
        return lambda values: (key(values).encode(), *rest(values))
    [at] = positions([name], fields)
    others = [i for i in range(len(fields)) if i != at]
    rest = _rest(options, [fields[i] for i in others])
    field = filler(options.field, fields) if options.field else None

    def command(values: Sequence[Any]) -> Command:
        encoded = key(values).encode()
        if not is_deletion(name, values[at]):
            return (encoded, *rest([values[i] for i in others]))
        return (encoded, b"DEL") if field is None else (encoded, b"HDEL", field(values).encode())

    return command


class _OfValues:
    """Makes the commands whose only argument is the row in a format."""

    def __init__(
        self,
        key: Callable[[Sequence[Any]], str],
        name: bytes,
        form: Format,
        fields: Sequence[str],
    ) -> None:
        self._key, self._name = key, name
        self._value, self._values = form.encoder(fields), form.encoder_of_many(fields)

    def __call__(self, values: Sequence[Any]) -> Command:
        """The command for a row.

        Raises:
            Malformed: It can't be written.
        """
        return self._key(values).encode(), self._name, self._value(values)

    def each(self, rows: Rowlike) -> list[Command]:
        """The commands for all rows.

        Raises:
            BaseException: One of them is another case.
        """
        keys = [text.encode() for text in map(self._key, rows)]
        return list(zip(keys, repeat(self._name), self._values(rows), strict=False))


def deletion(options: RedisSinkOptions, fields: Sequence[str], command: Command) -> Command:
    """The command that deletes what a row's command has written to a string or hash.

    Args:
        options: What the topology's file says.
        fields: The names of the row's values.
        command: The row's, or what deletes it already.
    """
    key, _, *rest = command
    if options.type == "string":
        return (key, b"DEL")
    if options.field:
        return (key, b"HDEL", rest[0])
    names = [name for name in options.fields or fields if name != options.deleted_field]
    return (key, b"HDEL", *(name.encode() for name in names))


def _rest(options: RedisSinkOptions, fields: Sequence[str]) -> Callable[[Sequence[Any]], Command]:
    if options.type in OF_VALUES:
        name, value = OF_VALUES[options.type], options.format.make().encoder(fields)
        return lambda values: (name, value(values))
    if options.type == "hash" and options.field:
        field, value = filler(options.field, fields), options.format.make().encoder(fields)
        return lambda values: (b"HSET", field(values).encode(), value(values))
    pairs = _pairs(options.fields or fields, fields)
    if options.type == "hash":
        return lambda values: (b"HSET", *pairs(values))
    trim = (b"MAXLEN", b"~", b"%d" % options.maxlen) if options.maxlen else ()
    return lambda values: (b"XADD", *trim, b"*", *pairs(values))


def _pairs(wanted: Sequence[str], fields: Sequence[str]) -> Callable[[Sequence[Any]], list[bytes]]:
    places = [
        (name.encode(), at, named(f"field {name!r}", as_bytes))
        for name, at in zip(wanted, positions(wanted, fields), strict=True)
    ]

    def pairs(values: Sequence[Any]) -> list[bytes]:
        arguments = []
        for name, at, made in places:
            if values[at] is not None:
                arguments += [name, made(values[at])]
        if not arguments:
            raise Malformed("all fields that are to be written are null")
        return arguments

    return pairs
