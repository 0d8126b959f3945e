"""A list of Redis as a source: a queue of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.connectors.base.redealing import heir_of
from fulmen.connectors.formats import Malformed
from fulmen.connectors.options import Options
from fulmen.connectors.redis.options import ListSpoutOptions
from fulmen.connectors.redis.scripts import OWN, TAKE
from fulmen.connectors.redis.source import RedisSource


class RedisListSpout(RedisSource[bytes]):
    """Emits the elements of a list, and takes them from it.

    One script moves elements from the list into a hash, where each has an id of its own, so that
    equal ones are told apart. They stay there until they are acked. An id begins with the number of
    the task; if there is no such task any more, another one has its elements.
    """

    config_model: ClassVar[type[Options]] = ListSpoutOptions

    options: ListSpoutOptions

    @override
    def find(self) -> None:
        options, context = self.options, self.context
        self.format = options.format.make()
        own = f"{options.key}:processing:{context.topology}:{context.known_as}"
        self._processing = options.processing or own
        self._index = context.task_index
        self._take = self._server.client.register_script(TAKE)
        self._own = self._server.client.register_script(OWN)
        with self._server.told():
            for key, kind in ((options.key, b"list"), (self._processing, b"hash")):
                actual = self._server.client.type(key)
                if actual not in (b"none", kind):
                    raise self._server.unusable(
                        f"the key {key!r} is a {actual.decode()}, not a {kind.decode()}. Nothing"
                        " was changed. Name another key"
                    )

    @override
    def read(self) -> list[tuple[str, bytes]]:
        options = self.options
        with self._server.told():
            taken = self._take(
                keys=[options.key, self._processing],
                args=[self._index, options.count, "LPOP" if options.src == "LEFT" else "RPOP"],
            )
        return [(name.decode(), value) for name, value in zip(taken[::2], taken[1::2], strict=True)]

    @override
    def decode_each(
        self, ids: Sequence[str], messages: Sequence[bytes]
    ) -> list[list[Any] | Malformed]:
        return self.format.decode_each(messages)

    @override
    @staticmethod
    def heir(task: int, msg_id: str, tasks: int) -> int:
        return heir_of(int(msg_id.partition(":")[0]), tasks)

    @override
    def kept(self) -> list[str]:
        with self._server.told():
            args = [self._index, self.tasks]
            return [name.decode() for name in self._own(keys=[self._processing], args=args)]

    @override
    def fetch(self, ids: Sequence[str]) -> dict[str, bytes]:
        with self._server.told():
            values = self._server.client.hmget(self._processing, list(ids))
        return {name: value for name, value in zip(ids, values, strict=True) if value is not None}

    @override
    def forget(self, ids: Sequence[str]) -> None:
        with self._server.told():
            self._server.client.hdel(self._processing, *ids)

    @override
    def left(self) -> int | None:
        with self._server.told():
            return int(self._server.client.llen(self.options.key))
