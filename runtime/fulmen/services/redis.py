"""Redis, by redis-py."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.secrets import is_clear
from fulmen.services.pools import shared
from fulmen.services.service import ErrorKind, Service, no_client

try:
    import redis
except ImportError as error:
    raise no_client(error, "Redis", "redis") from error

from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
IDLE_SECONDS = 15
"""A connection that was not used for so long is tried before it is used."""
SCHEMES = ("redis", "rediss", "unix")
URL_CURE = (
    "its URL can't be understood. Write 'redis://user:password@host:6379/0', with %40 for @ and %2F"
    " for / in a password"
)
NO_RIGHT, NOT_LET_IN = "a right is missing", "the server does not let us in"
MEANINGS: tuple[tuple[str, ErrorKind, str], ...] = (
    (
        r"WRONGPASS|NOAUTH|invalid username-password|Authentication required|AUTH .*called without"
        r"|Client sent AUTH",
        ErrorKind.LACKING,
        NOT_LET_IN,
    ),
    (
        r"NOPERM|no permissions|has no permissions|No permissions|can't run this command"
        r"|^NoPermissionError",
        ErrorKind.LACKING,
        NO_RIGHT,
    ),
    (r"READONLY|read only replica", ErrorKind.LACKING, "the server is a read-only replica"),
    (r"OOM|maxmemory", ErrorKind.LACKING, "the server's memory is full"),
    (r"MISCONF", ErrorKind.LACKING, "the server can't write to its disk"),
    (r"WRONGTYPE", ErrorKind.REFUSED, "a key is of another type than Fulmen makes"),
    (
        r"MovedError|AskError",
        ErrorKind.LACKING,
        "a key is at another node of the cluster, and Fulmen uses one node alone",
    ),
    (r"LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN", ErrorKind.BUSY, "the server is busy"),
    (r"^Authentication", ErrorKind.LACKING, NOT_LET_IN),
    (r"", ErrorKind.REFUSED, "Redis refuses it"),
)
"""The meanings of errors, by a pattern in their class's name and their text."""
AWAY = (exceptions.ConnectionError, exceptions.TimeoutError)


class Redis(Service):
    """A server and one of its databases.

    Attributes:
        client: All components of a process share it, and several threads may use it.
    """

    errors = (exceptions.RedisError,)

    def __init__(self, url: str, *, retries: int = 0) -> None:
        """Understand a URL. Does not connect.

        Args:
            url: How to connect, as redis-py takes it.
            retries: How often the client repeats by itself what got no answer. 0 where a read moves
                messages: it must be known that its answer was lost.

        Raises:
            ServiceUnavailable: It can't be understood. What is wrong with it may contain the
                password.
        """
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in SCHEMES and bool(parts.hostname or parts.scheme == "unix")
            at = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
            database = parts.path.strip("/") if parts.hostname else ""
        except ValueError:
            is_good = False
        if not is_good or not is_clear(url) or (database and not database.isdigit()):
            raise ServiceUnavailable("Redis", URL_CURE)
        passwords = (parts.password, *dict(parse_qsl(parts.query)).values())
        super().__init__(f"Redis at {at}, database {database or 0}", *(p or "" for p in passwords))
        self.client: Any = shared(("redis", url, retries), lambda: _client(url, retries))

    def kind_of(self, error: exceptions.RedisError) -> ErrorKind:
        """Classify an error by `MEANINGS`."""
        return self.meaning(error)[0]

    def meaning(self, error: exceptions.RedisError) -> tuple[ErrorKind, str]:
        """Classify an error, and say it in words."""
        told = f"{type(error).__name__}: {error}"
        kind, reason = next((k, r) for pattern, k, r in MEANINGS if re.search(pattern, told))
        if isinstance(error, AWAY) and kind is ErrorKind.REFUSED:
            return ErrorKind.AWAY, "Redis is away"
        return kind, reason

    def unavailable(self, error: exceptions.RedisError) -> ServiceUnavailable:
        """The error that a sink or a source raises: it is tried again until the service is back."""
        kind, reason = self.meaning(error)
        if kind is ErrorKind.AWAY:
            return super().unavailable(error)
        return self.unusable(f"{reason} ({self.said(error)})")

    def is_cluster(self) -> bool:
        """Whether it is a node of a cluster. Not so if the user may not ask.

        Raises:
            redis.RedisError: It does not answer.
        """
        try:
            return bool(self.client.info("cluster").get("cluster_enabled"))
        except exceptions.NoPermissionError:
            return False


def _client(url: str, retries: int) -> Any:
    return redis.Redis.from_url(
        url,
        decode_responses=False,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        health_check_interval=IDLE_SECONDS,
        retry=Retry(NoBackoff(), retries),
    )
