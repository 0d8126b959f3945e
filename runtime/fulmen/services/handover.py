"""Hands the clients of a process that ends over to the one that follows it.

A driver that is replaced has to end before the next one may begin, and that one takes a while to
start. A server whose clients are handed over goes on to listen meanwhile: it holds requests, and
passes them on as soon as the next process can be reached.
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
        is_on: Whether servers hand their clients over instead of sending them away.
        successor: The address of the next process, once it can be reached; "": not yet.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.successor = ""
        self._servers: list[HandedOver] = []
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Another process follows this one: keep clients for it from now on."""
        self.is_on = True

    def keep(self, server: HandedOver) -> None:
        """Have a server go on after its owner has ended."""
        with self._lock:
            self._servers.append(server)

    @property
    def has_servers(self) -> bool:
        """Whether there are clients to be handed over."""
        return bool(self._servers)

    @property
    def waiting(self) -> int:
        """The requests that have no answer yet."""
        return sum(server.waiting for server in self._servers)

    def end(self) -> None:
        """End all servers."""
        with self._lock:
            servers, self._servers = self._servers, []
        for server in servers:
            server.end()
        self.is_on, self.successor = False, ""


HANDOVER = Handover()
"""That of this process."""
