"""A stream of Redis as a source, read by a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, ClassVar

import orjson
from redis.exceptions import ResponseError
from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.base.redealing import heir_of
from fulmen.connectors.formats import Malformed
from fulmen.connectors.options import Options
from fulmen.connectors.redis.options import StreamSpoutOptions
from fulmen.connectors.redis.scripts import GROUP, READ
from fulmen.connectors.redis.source import RedisSource

PAGE = 1000
NO_GROUP = "NOGROUP"
_EARLIEST = 1e9
"""Seconds of time.time(): an id that begins with less was made up by whoever added the entry."""
_BEGINNINGS = {"0": "the first entry there is", "$": "those that come later"}
Entry = dict[bytes, bytes]


class RedisStreamSpout(RedisSource[Entry]):
    """Emits the entries of a stream. Each task is a consumer of the group.

    A task's consumer is called `topology-component-index`. An entry is acknowledged (XACK) when its
    tree was acked; until then it is pending in Redis. What is pending for tasks that are no more is
    claimed when tasks start, by one of them. Entries that are pending for other consumers, or come
    to be for such tasks later, are claimed when they have been idle for `minIdleTime`.
    """

    config_model: ClassVar[type[Options]] = StreamSpoutOptions

    options: StreamSpoutOptions

    @override
    def stream(self, options: StreamSpoutOptions) -> Stream:
        fields = (*options.fields, *((options.id_field,) if options.id_field else ()))
        as_text = dict.fromkeys(fields, "string")
        if options.fields:
            return Stream(fields, types=as_text)
        return options.format.make().stream(*fields, **as_text)

    @override
    def find(self) -> None:
        name = f"{self.context.topology}-{self.context.known_as}"
        self._name, self._consumer = name, f"{name}-{self.context.task_index}"
        self._consumers = {f"{name}-{index}" for index in range(self.tasks)}
        self.format = self.options.format.make()
        self._has_group = False
        self._read_new = self._server.client.register_script(READ)
        self._create = self._server.client.register_script(GROUP)
        self._find_group()
        with self._server.told():
            self._claim_inherited(0)  # those that the checkpoint knows must be this one's

    @property
    @override
    def look_seconds(self) -> float:
        return self.options.min_idle_time / 1000 or inf

    def _find_group(self) -> None:
        """Create the group if there is none."""
        options = self.options
        with self._server.told():
            try:
                how = [options.group, options.id, "MKSTREAM" if options.mkstream else ""]
                self._create(keys=[options.key], args=how)
            except ResponseError as error:
                if "requires the key to exist" in str(error):
                    raise self._server.unusable(
                        f"there is no stream {options.key!r}. Add an entry to it, or write"
                        " `mkstream: true`"
                    ) from None
                if "WRONGTYPE" in str(error):
                    raise self._server.unusable(
                        f"the key {options.key!r} is no stream. Name a stream as `key`"
                    ) from None
                if "BUSYGROUP" not in str(error):  # there is one
                    raise
        self._has_group = True

    @override
    def read(self) -> list[tuple[str, Entry]]:
        options = self.options
        if not self._has_group:
            self._find_group()
        with self._server.told():
            try:
                skipped, last, new = self._read_new(
                    keys=[options.key], args=[options.group, self._consumer, options.count]
                )
            except ResponseError as error:
                if NO_GROUP not in str(error):
                    raise
                return self._without_group()
        if skipped:
            entries = "1 entry was" if skipped == 1 else f"{skipped} entries were"
            text = f"{entries} removed from {options.key!r} before anybody had read them"
            self.tell(text, f"after {last.decode()}")
        return [
            (entry.decode(), dict(zip(values[::2], values[1::2], strict=True)))
            for entry, values in new
            if values is not None  # removed while it was read
        ]

    @override
    def kept(self) -> list[str]:
        if not self._has_group:
            self._find_group()
        idle = self.options.min_idle_time
        with self._server.told():
            try:
                if idle:
                    self._claim_inherited(idle)
                    self._claim_foreign(idle)
                return list(self._pending(self._consumer))
            except ResponseError as error:
                if NO_GROUP not in str(error):
                    raise
                return self._without_group()

    def _without_group(self) -> list[Any]:
        """Tell that the group, or the stream, was removed: the next turn creates it again."""
        self._has_group = False
        options = self.options
        text = f"group {options.group!r} of {options.key!r} was removed. It begins again"
        self.tell(f"{text} with {_BEGINNINGS.get(options.id, options.id)}", options.key)
        return []

    def _claim_inherited(self, idle: int) -> None:
        """Claim what has been pending for so long for tasks that are no more.

        With 0 at the start only: a task of before may live on for a while, for which those that
        have come since are no tasks.
        """
        for consumer in self._others():
            index = self._index_of(consumer)
            if index is not None and heir_of(index, self.tasks) == self.context.task_index:
                self._claim(consumer, idle)

    def _claim_foreign(self, idle: int) -> None:
        """Claim what has been pending for so long for consumers of other names."""
        for consumer in self._others():
            if self._index_of(consumer) is None:
                self._claim(consumer, idle)

    def _index_of(self, consumer: str) -> int | None:
        """The number of a task of this component; None: it is none."""
        begin, _, index = consumer.rpartition("-")
        return int(index) if begin == self._name and index.isdecimal() else None

    def _others(self) -> list[str]:
        """The consumers of the group that are no tasks of this component, and have entries."""
        summary = self._server.client.xpending(self.options.key, self.options.group)
        names = [consumer["name"].decode() for consumer in summary["consumers"]]
        return [name for name in names if name not in self._consumers]

    def _claim(self, consumer: str, idle: int) -> None:
        ids = list(self._pending(consumer, idle or None))
        for first in range(0, len(ids), PAGE):
            some = ids[first : first + PAGE]
            key, group = self.options.key, self.options.group
            self._server.client.xclaim(key, group, self._consumer, idle, some, justid=True)

    def _pending(self, consumer: str, idle: int | None = None) -> Iterator[str]:
        """The ids of the entries that are pending for a consumer."""
        begin = "-"
        while True:
            page = self._server.client.xpending_range(
                self.options.key, self.options.group, begin, "+", PAGE, consumer, idle
            )
            ids = [entry["message_id"].decode() for entry in page]
            yield from ids
            if len(ids) < PAGE:
                return
            begin = f"({ids[-1]}"

    @override
    def fetch(self, ids: Sequence[str]) -> dict[str, Entry]:
        with self._server.told(), self._server.client.pipeline(transaction=False) as pipe:
            for entry in ids:
                pipe.xrange(self.options.key, entry, entry)
            answers = pipe.execute()
        return {entry: rows[0][1] for entry, rows in zip(ids, answers, strict=True) if rows}

    @override
    def forget(self, ids: Sequence[str]) -> None:
        with self._server.told():
            self._server.client.xack(self.options.key, self.options.group, *ids)

    @override
    def left(self) -> int | None:
        """Redis tells it from version 7 on, unless entries were deleted in the middle."""
        with self._server.told():
            for group in self._server.client.xinfo_groups(self.options.key):
                if group["name"].decode() == self.options.group:
                    lag: int | None = group.get("lag")
                    return lag
        return None

    @override
    def seconds_behind(self) -> float | None:
        """The age by the ids of entries, which begin with the time that they were added at."""
        client, options = self._server.client, self.options
        with self._server.told():
            if self._read:
                first = self._read[0][0]
            else:
                groups = client.xinfo_groups(options.key)
                read = [
                    g["last-delivered-id"] for g in groups if g["name"] == options.group.encode()
                ]
                rest = client.xrange(options.key, f"({read[0].decode()}", count=1) if read else ()
                if not rest:
                    return 0.0 if read else None
                first = rest[0][0].decode()
            seconds, microseconds = client.time()
        added = int(first.partition("-")[0]) / 1000
        if added < _EARLIEST:
            return None
        return max(0.0, float(seconds + microseconds / 1e6 - added))

    @override
    def decode_each(
        self, ids: Sequence[str], messages: Sequence[Entry]
    ) -> list[list[Any] | Malformed]:
        options = self.options
        if options.fields:
            names = [name.encode() for name in options.fields]
            try:
                rows: list[Any] = [
                    [None if (value := find(name)) is None else value.decode() for name in names]
                    for find in [entry.get for entry in messages]
                ]
            except UnicodeDecodeError:  # of one of them
                return super().decode_each(ids, messages)
        else:
            try:
                field = options.field.encode()
                data = [entry[field] for entry in messages]
            except KeyError:
                return super().decode_each(ids, messages)
            rows = self.format.decode_each(data)
        if options.id_field:
            for values, msg_id in zip(rows, ids, strict=True):
                if type(values) is list:
                    values.append(msg_id)
        return rows

    @override
    def decode(self, msg_id: str, message: Entry) -> list[Any]:
        options = self.options
        if options.fields:
            try:
                values: list[Any] = [
                    None if (value := message.get(name.encode())) is None else value.decode()
                    for name in options.fields
                ]
            except UnicodeDecodeError as error:
                raise Malformed(f"a field is not text in utf-8: {error}") from error
        else:
            data = message.get(options.field.encode())
            if data is None:
                names = [name.decode(errors="replace") for name in message]
                raise Malformed(f"the entry has no field {options.field!r}, only {names}")
            values = self.format.decode(data)
        return [*values, msg_id] if options.id_field else values

    @override
    def data_of(self, message: Entry) -> bytes:
        shown = {
            name.decode(errors="backslashreplace"): value.decode(errors="backslashreplace")
            for name, value in message.items()
        }
        return message.get(self.options.field.encode()) or orjson.dumps(shown)
