"""Writes rows to Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgpack  # type: ignore[import-untyped]
import orjson
from typing_extensions import override

from fulmen.api.context import TopologyContext
from fulmen.api.sinks import Guarantee, Mark, Rows, Sink
from fulmen.connectors.formats import Malformed, encode_each
from fulmen.connectors.options import Options
from fulmen.connectors.redis.commands import Command, commands
from fulmen.connectors.redis.connection import Server
from fulmen.connectors.redis.options import RedisSinkOptions
from fulmen.connectors.redis.scripts import WRITE

AT_ONCE = 500
"""Rows that one script writes without a mark: others must not wait long for Redis."""
MARKS = "fulmen:mark:"


class RedisSink(Sink):
    """Adds to sets, hashes, streams and lists, or sets strings.

    A key of another type is never changed: its rows fail. With `exactly-once`, one script writes
    all rows of a batch and the mark, which is the hash `fulmen:mark:` and the sink's id.
    """

    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once", "exactly-once")
    config_model: ClassVar[type[Options]] = RedisSinkOptions
    transient: ClassVar[Sequence[str]] = ("_options", "_server", "_script", "_fields", "_command")

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Connect.

        Raises:
            ServiceUnavailable: Redis is away, or does not let us in.
            ValueError: The options name a field that the sink does not receive.
        """
        self._options: RedisSinkOptions = context.options
        self._server = Server(context, self._options.url)
        self._script = self._server.client.register_script(WRITE)
        self._fields: tuple[str, ...] | None = None
        for component, stream in context.sources:
            fields = context.streams[component][stream].fields
            try:
                commands(self._options, fields)
            except Malformed as error:
                raise ValueError(
                    f"bolt {context.component!r}: in what it receives from {component!r}, {error}"
                ) from error
        with self._server.told():
            self._server.client.ping()

    @override
    def encode(self, rows: Rows) -> Sequence[Any]:
        if rows.fields != self._fields:
            self._fields, self._command = rows.fields, commands(self._options, rows.fields)
        return encode_each(rows, self._command)

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        with self._server.told():
            if mark is not None:
                found = self._script(**self._call(list(rows), mark))
                self._take(rows, 0, found, mark)
                return
            with self._server.client.pipeline(transaction=False) as pipe:
                for first in range(0, len(rows), AT_ONCE):
                    self._script(client=pipe, **self._call(rows[first : first + AT_ONCE], None))
                answers = pipe.execute()
        for number, answer in enumerate(answers):
            self._take(rows, number * AT_ONCE, answer, None)

    def _call(self, rows: Sequence[Command], mark: Mark | None) -> dict[str, Any]:
        """The arguments of the script."""
        numbers: dict[bytes, int] = {}
        for key, *_ in rows:
            numbers.setdefault(key, len(numbers) + 2)  # Lua counts from 1; 1 is the mark's
        packed = msgpack.packb([(numbers[key], *rest) for key, *rest in rows], use_bin_type=False)
        kind, seconds = self._options.type, self._options.ex or ""
        about = ("", "", "") if mark is None else (mark.number, mark.tag, mark.label)
        first = MARKS if mark is None else f"{MARKS}{mark.sink}"
        return {"keys": [first, *numbers], "args": [*about, kind, seconds, packed]}

    def _take(self, rows: Rows, first: int, answer: list[bytes], mark: Mark | None) -> None:
        """Fail the rows that the script has failed now, or had failed when it wrote them."""
        if answer[0] == b"ahead":
            assert mark is not None
            mark.is_written(int(answer[1]), answer[2].decode())  # raises
        for i, reason in orjson.loads(answer[1]) if answer[1] else ():
            key = rows[first + i][0].decode(errors="replace")
            rows.fail(first + i, f"key {key!r}: {reason}")
