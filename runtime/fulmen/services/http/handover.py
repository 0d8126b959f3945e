"""Hands the clients of a server that ends over to the one that follows it.

A topology that is replaced has to end before the next one may begin, in another process or, if only
its workers change, in this one. A server whose clients are handed over goes on to listen meanwhile:
it holds requests, and passes them on as soon as they can be answered.
"""

from __future__ import annotations

import threading
from typing import Protocol


class HandedOver(Protocol):
    """A server that has handed its clients over."""

    @property
    def waiting(self) -> int:
        """The requests that have no answer yet."""

    def end(self) -> None:
        """Serve no longer."""


class Handover:
    """The handover of this process. Any thread may use it.

    Attributes:
        to_next_process: Whether another process follows this one, and serves its clients.
        goes_on: Whether this process will serve them again.
        successor: The address of the next process, once it can be reached; "": not yet.
    """

    def __init__(self) -> None:
        self.to_next_process = self.goes_on = False
        self.successor = ""
        self._servers: dict[tuple[str, int], HandedOver] = {}
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether servers hand their clients over instead of sending them away."""
        return self.to_next_process or self.goes_on

    def keep(self, place: tuple[str, int], server: HandedOver) -> None:
        """Have a server go on after its owner has ended.

        Args:
            place: Where it listens: host and port.
            server: The server.
        """
        with self._lock:
            self._servers[place] = server

    def take(self, place: tuple[str, int]) -> HandedOver | None:
        """The server that listens there since another owner has ended; it is the caller's now."""
        with self._lock:
            return self._servers.pop(place, None)

    @property
    def has_servers(self) -> bool:
        """Whether there are clients to be handed over."""
        return bool(self._servers)

    @property
    def waiting(self) -> int:
        """The requests that have no answer yet."""
        return sum(server.waiting for server in list(self._servers.values()))

    def end(self) -> None:
        """End all servers."""
        with self._lock:
            servers, self._servers = self._servers, {}
        for server in servers.values():
            server.end()
        self.to_next_process, self.goes_on, self.successor = False, False, ""


HANDOVER = Handover()
"""That of this process."""
