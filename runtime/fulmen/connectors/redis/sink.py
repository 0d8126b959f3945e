"""Writes rows to Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgpack  # type: ignore[import-untyped]
import orjson
from redis.crc import key_slot
from redis.exceptions import ClusterCrossSlotError, NoPermissionError
from typing_extensions import override

from fulmen.api.components.sinks import Mark, Rows
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.connectors.base.retractions import retraction_warnings
from fulmen.connectors.base.sink import MessageSink
from fulmen.connectors.formats import readable
from fulmen.connectors.formats.base import refused
from fulmen.connectors.options import Options
from fulmen.connectors.redis.commands import Command, commands, deletion
from fulmen.connectors.redis.options import RedisSinkOptions
from fulmen.connectors.redis.scripts import MAY_RUN, MAY_USE, WRITE
from fulmen.connectors.templates import has_fields, parts_of
from fulmen.errors import FulmenError
from fulmen.services.redis import Redis

AT_ONCE = 500
"""Rows that one script writes without a mark: others must not wait long for Redis."""
MARKS = "fulmen:mark:"


def fields_of_key(options: RedisSinkOptions) -> list[str]:
    """The fields by which a row takes the place of another; none: it takes none."""
    if options.type not in ("string", "hash"):
        return []
    parts = parts_of(options.key) + parts_of(options.field)
    return [name for _, name in parts if name is not None]


class RedisSink(MessageSink):
    """Adds to sets, hashes, streams and lists, or sets strings.

    A key of another type is never changed: its rows fail. With `exactly-once`, one script writes
    all rows of a batch and the mark, which is the hash `fulmen:mark:` and the sink's id.
    """

    config_model: ClassVar[type[Options]] = RedisSinkOptions
    _deletes: bool | None

    @override
    def check_input(self, options: Any, stream: Stream) -> Iterable[str | Warning]:
        fields = fields_of_key(options)
        return [
            *refused(lambda: commands(options, stream.fields)),
            *retraction_warnings(stream, fields, options.deleted_field),
        ]

    @property
    @override
    def appends(self) -> bool:
        return self._options.type in ("list", "stream")

    @property
    @override
    def key_fields(self) -> Sequence[str]:
        fields = fields_of_key(self._options)
        return fields if fields and self._may_delete() else ()

    def _may_delete(self) -> bool:
        """Whether the user may delete what rows have written."""
        if self._deletes is None:
            command = "HDEL" if self._options.type == "hash" else "DEL"
            key = "".join(text for text, _ in parts_of(self._options.key))
            with self._server.told():
                try:
                    self._deletes = bool(self._may_run(keys=[key], args=[command, key]))
                except NoPermissionError:
                    self._deletes = False
        return self._deletes

    @override
    def deletion(self, item: Command) -> Command:
        return deletion(self._options, next(iter(self._encoders), ()), item)

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Connect.

        Raises:
            ServiceUnavailable: Redis is away, or does not let us in.
            FulmenError: The options name a field that the sink does not receive, or exactly-once is
                wanted of a cluster.
        """
        self._options: RedisSinkOptions = context.options
        self._server = Redis(self._options.url)
        self._script = self._server.client.register_script(WRITE)
        self._may_use = self._server.client.register_script(MAY_USE)
        self._may_run = self._server.client.register_script(MAY_RUN)
        self._deletes = None  # it is asked for when it matters
        self.look_at_inputs(context)
        with self._server.told():
            self._server.client.ping()
            self._is_cluster = self._server.is_cluster()
        if self._is_cluster and self._options.guarantee == "exactly-once":
            raise FulmenError(
                f"bolt {context.component!r}: {self._server.name} is a node of a cluster, where no"
                " script may write rows and the mark: their keys are in several slots. Use"
                " guarantee: at-least-once, or a Redis that is no cluster"
            )

    @override
    def encoder(self, fields: tuple[str, ...]) -> Callable[[Sequence[Any]], Command]:
        return commands(self._options, fields)

    @override
    def describe(self, item: Command) -> Mapping[str, Any]:
        key, command, *rest = (readable(part) for part in item)
        return {"key": key, "command": command, "arguments": rest}

    @override
    def write(self, rows: Rows, mark: Mark | None) -> None:
        with self._server.told():
            if mark is not None:
                self._write_marked(rows, mark)
            else:
                self._write(rows)

    def _write_marked(self, rows: Rows, mark: Mark) -> None:
        everything = range(len(rows))
        try:
            answer = self._script(**self._call(rows, everything, mark))
        except NoPermissionError as error:
            forbidden = self._forbidden(rows, everything, error)
            allowed = [i for i in everything if i not in forbidden]
            answer = self._script(**self._call(rows, allowed, mark, forbidden))
        self._take(rows, answer, mark)

    def _write(self, rows: Rows) -> None:
        """Write by several scripts. In a cluster, each has the rows of one slot."""
        firsts = range(0, len(rows), AT_ONCE)
        parts: list[Sequence[int]] = [range(len(rows))[at : at + AT_ONCE] for at in firsts]
        if self._is_cluster:
            parts = [slot for part in parts for slot in _by_slot(rows, part)]
            self._see_that_all_are_here(rows, parts)
        while parts:
            with self._server.client.pipeline(transaction=False) as pipe:
                for part in parts:
                    self._script(client=pipe, **self._call(rows, part, None))
                answers = pipe.execute(raise_on_error=False)
            parts = [
                smaller
                for part, answer in zip(parts, answers, strict=True)
                for smaller in self._taken(rows, part, answer)
            ]

    def _see_that_all_are_here(self, rows: Rows, parts: Sequence[Sequence[int]]) -> None:
        """Write nothing if a key is at another node: rows before it would be written at each try.

        Raises:
            redis.ResponseError: One is.
        """
        with self._server.client.pipeline(transaction=False) as pipe:
            for part in parts:
                self._may_use(client=pipe, keys=list({rows[i][0]: None for i in part}))
            answers = pipe.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, NoPermissionError):
                raise answer

    def _taken(self, rows: Rows, part: Sequence[int], answer: Any) -> list[Sequence[int]]:
        """The rows of a part that are still to be written, after its script has answered."""
        if isinstance(answer, ClusterCrossSlotError):
            return _by_slot(rows, part)
        if isinstance(answer, NoPermissionError):
            forbidden = self._forbidden(rows, part, answer)
            self._fail(rows, forbidden.items())
            return [allowed] if (allowed := [i for i in part if i not in forbidden]) else []
        if isinstance(answer, Exception):
            raise answer
        self._take(rows, answer, None)
        return []

    def _forbidden(
        self, rows: Rows, places: Sequence[int], error: NoPermissionError
    ) -> dict[int, str]:
        """Find the rows whose keys the user may not use, and why: Redis refuses the whole script.

        Raises:
            NoPermissionError: It is not about the keys of some rows.
        """
        if not has_fields(self._options.key):
            raise error
        keys = list({rows[i][0]: None for i in places})
        with self._server.client.pipeline(transaction=False) as pipe:
            for key in keys:
                self._may_use(client=pipe, keys=[key])
            answers = pipe.execute(raise_on_error=False)
        said = dict(zip(keys, answers, strict=True))
        forbidden = {
            i: str(answer)
            for i in places
            if isinstance(answer := said[rows[i][0]], NoPermissionError)
        }
        if not forbidden:
            raise error
        return forbidden

    def _call(
        self,
        rows: Rows,
        places: Sequence[int],
        mark: Mark | None,
        refused: Mapping[int, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """The arguments of the script that writes the rows at `places`.

        Without a mark there is no key of it: a cluster takes none that is not of the same slot.
        """
        keys = [] if mark is None else [f"{MARKS}{mark.sink}"]
        first = len(keys) + 1  # Lua counts from 1
        numbers: dict[bytes, int] = {}
        packed = msgpack.packb(
            [
                (i, numbers.setdefault(rows[i][0], len(numbers) + first), *rows[i][1:])
                for i in places
            ],
            use_bin_type=False,
        )
        kind, seconds = self._options.type, self._options.ex or ""
        about: tuple[Any, ...] = ("",) * 5
        if mark is not None:
            about = (mark.number, mark.tag, mark.label, *(mark.previous or ("", "")))
        told = orjson.dumps(list(refused.items())) if refused else ""
        return {"keys": [*keys, *numbers], "args": [*about, kind, seconds, packed, told]}

    def _take(self, rows: Rows, answer: list[bytes], mark: Mark | None) -> None:
        """Fail the rows that the script has failed now, or had failed when it wrote them."""
        if answer[0] == b"other":
            assert mark is not None
            number = int(answer[1]) if answer[1] else None
            mark.is_written(number, answer[2].decode())  # raises
        self._fail(rows, orjson.loads(answer[1]) if answer[1] else ())

    def _fail(self, rows: Rows, failed: Iterable[tuple[int, str]]) -> None:
        for i, reason in failed:
            rows.fail(i, f"key {rows[i][0].decode(errors='replace')!r}: {reason}")


def _by_slot(rows: Rows, places: Sequence[int]) -> list[Sequence[int]]:
    """Rows whose keys are in one slot of a cluster, for each slot."""
    by_slot: dict[int, list[int]] = {}
    for i in places:
        by_slot.setdefault(key_slot(rows[i][0]), []).append(i)
    return list(by_slot.values())
