"""The client of Redis that the tasks of a process share, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.sinks import ServiceUnavailable
from fulmen.errors import install
from fulmen.transactional.errors import StoreError

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import NoPermissionError
    from redis.retry import Retry

    from fulmen.transactional.stores.redis_connection import described, translated
except ImportError as error:
    raise ImportError(f"{error}. The client of Redis is an extra: {install('redis')}") from error

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
IDLE_SECONDS = 15
"""A connection that was not used for so long is tried before it is used."""
NO_GROUP = "NOGROUP"
_AWAY = "Redis is away ("


class Server:
    """A Redis.

    Attributes:
        client: Repeats nothing by itself: a read whose answer was lost must be known to have been
            lost, since it has moved messages.
        name: Which server and database, without its password.
    """

    def __init__(self, context: TopologyContext, url: str) -> None:
        """Raises ServiceUnavailable if the URL can't be understood. Does not connect yet."""
        try:
            self.name = f"Redis {described(context.component, url)}"
        except StoreError as error:
            raise ServiceUnavailable("Redis", f"{error.reason}. {error.cure}") from None
        self._url = url
        self.client: Any = context.shared(f"redis {url}", lambda: _client(url))

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn errors of redis-py into ServiceUnavailable, without the password."""
        try:
            with translated(self.name, self._url):
                yield
        except StoreError as error:
            reason = error.reason
            if reason.startswith(_AWAY):
                reason = reason.removeprefix(_AWAY).removesuffix(")")
                raise ServiceUnavailable(self.name, reason) from None
            raise self.unusable(reason) from None

    def is_cluster(self) -> bool:
        """Whether it is a node of a cluster. Not so if the user may not ask.

        Raises:
            redis.RedisError: It does not answer.
        """
        try:
            told = self.client.info("cluster")
        except NoPermissionError:
            return False
        return bool(told.get("cluster_enabled"))

    def unusable(self, reason: str) -> ServiceUnavailable:
        """What to raise while something is not there, or is not as it must be."""
        return ServiceUnavailable(self.name, reason, "can't be used")


def _client(url: str) -> Any:
    return redis.Redis.from_url(
        url,
        decode_responses=False,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        health_check_interval=IDLE_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
