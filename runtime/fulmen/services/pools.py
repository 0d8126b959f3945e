"""Connections that all maps of a process have in common, one for each thread that needs one.

A connection is lent to one thread at a time. After an error it is closed instead of being lent
again. A process that was forked begins with none: those of its parent are neither used nor closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar


class Connection(Protocol):
    """A connection that a pool can keep."""

    def is_usable(self) -> bool:
        """Whether it can be lent again, as far as can be told without asking the server."""
        ...

    def close(self) -> None:
        """Give it up. Raises nothing."""
        ...


C = TypeVar("C", bound=Connection)


class Pool(Generic[C]):
    """Connections to one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[C] = []

    @contextmanager
    def lent(self, connect: Callable[[], C]) -> Iterator[C]:
        """Lend a connection to this thread alone.

        Args:
            connect: Makes one if none is idle.
        """
        connection = self._take() or connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _take(self) -> C | None:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable():
                    return connection
                connection.close()
        return None

    def clear(self) -> None:
        """Close those that are idle: the store was away, so they are dead."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


_SHARED: dict[Hashable, Any] = {}
_OF_PARENT: list[Any] = []  # kept, since what is forgotten is closed
_LOCK = threading.Lock()
T = TypeVar("T")


def shared(key: Hashable, make: Callable[[], T]) -> T:
    """Share one object for a store within a process. A process that was forked makes its own."""
    with _LOCK:
        if key not in _SHARED:
            _SHARED[key] = make()
        one: T = _SHARED[key]
        return one


def pool_of(key: Hashable) -> Pool[Any]:
    """The pool of this process for a store."""
    made: Pool[Any] = shared(key, Pool)
    return made


def close_all() -> None:
    """Close all connections that are idle, as a test does at its end."""
    with _LOCK:
        pools = [value for value in _SHARED.values() if isinstance(value, Pool)]
    for pool in pools:
        pool.clear()


def _forked() -> None:
    global _SHARED, _LOCK
    _OF_PARENT.append(_SHARED)
    _SHARED, _LOCK = {}, threading.Lock()


os.register_at_fork(after_in_child=_forked)
