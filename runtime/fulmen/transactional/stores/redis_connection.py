"""Clients of Redis, one for each process and URL, and what their errors mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from fulmen.secrets import is_clear, without
from fulmen.transactional.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.transactional.owners import Owner
from fulmen.transactional.stores.pools import shared
from fulmen.transactional.stores.redis_scripts import OWN, WRITE

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
SCHEMES = ("redis", "rediss", "unix")


@dataclass
class RedisConnection:
    """A client, which several threads may use, and what was found there.

    Attributes:
        client: Tries again once, on a new connection, as the old one may have died long ago. That
            is safe for all that we do: a script that has run already finds its own mark.
        own: The script that takes a new map.
        write: The script that writes.
        known: Whose each map is that was looked at.
    """

    client: Any
    own: Callable[..., Any]
    write: Callable[..., Any]
    known: dict[str, Owner] = field(default_factory=dict)


def connection(url: str) -> RedisConnection:
    """This process's client for a URL."""
    return shared(("redis", url), lambda: _connect(url))


def _connect(url: str) -> RedisConnection:
    client = redis.Redis.from_url(
        url,
        decode_responses=False,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 1),
    )
    return RedisConnection(client, client.register_script(OWN), client.register_script(WRITE))


def described(name: str, url: str) -> str:
    """Which server and database a URL is about, without its password.

    Raises:
        StoreRefused: It can't be understood. What is wrong with it may contain the password.
    """
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in SCHEMES and bool(parts.hostname or parts.scheme == "unix")
        is_good = is_good and is_clear(url)
        place = (
            f"at {parts.hostname}:{parts.port or 6379}" if parts.hostname else f"at {parts.path}"
        )
        database = parts.path.strip("/") if parts.hostname else ""
    except ValueError:
        is_good, place, database = False, "", ""
    if not is_good or (database and not database.isdigit()):
        raise StoreRefused(
            f"map {name!r}",
            "its URL can't be understood",
            "Write 'redis://user:password@host:6379/0', with %40 for @ and %2F for / in a"
            " password.",
        )
    return f"{place}, database {database or 0}"


# ---- errors --------------------------------------------------------------------------------------

AWAY = "The transaction is tried again: whether this attempt was written shows then."
KEPT = "Nothing was changed."
MEANINGS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    (
        r"WRONGPASS|NOAUTH|invalid username-password|Authentication required|AUTH .*called without"
        r"|Client sent AUTH",
        StoreUnavailable,
        "the server does not let us in",
        "Check user and password.",
    ),
    (
        r"NOPERM|no permissions|has no permissions|No permissions|can't run this command",
        StoreUnavailable,
        "a right is missing",
        f"{KEPT} The user needs EVALSHA, SCRIPT LOAD, MULTI, EXEC, EXISTS, HGET, HMGET, HGETALL,"
        " HSET and HDEL on the map's keys.",
    ),
    (
        r"READONLY|read only replica",
        StoreUnavailable,
        "the server is a read-only replica",
        f"{KEPT} Connect to the primary.",
    ),
    (r"OOM|maxmemory", StoreUnavailable, "the server's memory is full", f"{KEPT} Raise maxmemory."),
    (
        r"MISCONF",
        StoreUnavailable,
        "the server can't write to its disk",
        f"{KEPT} Make room, or see its log: it goes on then.",
    ),
    (
        r"WRONGTYPE",
        StoreRefused,
        "a key of the map is of another type than Fulmen makes",
        "Use another name for this bolt's map.",
    ),
    (
        r"MovedError|AskError",
        StoreUnavailable,
        "a key is at another node of the cluster, and Fulmen uses one node alone",
        f"{KEPT} Use names whose keys are all at the node of the URL, or a Redis without cluster.",
    ),
    (r"LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN", StoreUnavailable, "the server is busy", AWAY),
)


@contextmanager
def translated(where: str, url: str) -> Iterator[None]:
    """Turn errors of redis-py into ours, without the password."""
    try:
        yield
    except exceptions.RedisError as error:
        said = " ".join(str(error).split())
        text = without_password(said, url)
        raise _meant(where, error, text) from (error if text == said else None)


def without_password(text: str, url: str) -> str:
    """The text, with `***` for the URL's password."""
    parts = urlsplit(url)
    for password in (parts.password, *dict(parse_qsl(parts.query)).values()):
        text = without(text, unquote(password or ""))
    return text


def _meant(where: str, error: exceptions.RedisError, text: str) -> StoreError:
    told = f"{type(error).__name__}: {text}"
    for pattern, kind, reason, cure in MEANINGS:
        if re.search(pattern, told):
            return kind(where, f"{reason} ({text})", cure)
    if isinstance(error, exceptions.NoPermissionError):
        return StoreUnavailable(where, f"a right is missing ({text})", KEPT)
    if isinstance(error, exceptions.AuthenticationError):
        return StoreUnavailable(
            where, f"the server does not let us in ({text})", "Check user and password."
        )
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return StoreUnavailable(where, f"Redis is away ({text})", AWAY)
    return StoreRefused(where, f"Redis refuses it ({text})", KEPT)
