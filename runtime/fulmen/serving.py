"""HTTP for people and probes: a server whose clients can take no more than it can spare.

Python's own `http.server` reads a hundred headers of 64 KiB, waits for each of them anew, and
starts a thread for every connection. Servers of frameworks bound the headers and not the time, or
neither. Here a request has a size and a time, and connections a number: the oldest one whose
request has not come is closed for a new one, so that whoever sends a request at once, as probes do,
is answered during any flood.

Uses nothing of Fulmen; used by `metrics`, and by the operator.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from time import monotonic
from typing import Any

from typing_extensions import override

MOST_CONNECTIONS = 64
MOST_HEAD_BYTES = 32 * 1024
"""Of a request's first line and its headers."""
REQUEST_SECONDS = 10
"""In which a request has to come, also on a connection that was used before, and each part of an
answer has to be taken."""
_BLOCK = 4096
_CONTENT_BLOCK = 64 * 1024


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection, of which there are few."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Callable[..., BoundedHandler]) -> None:
        """Listen.

        Args:
            address: The host, which may be one of IPv6, and the port; 0: a free one.
            handler: The class that answers.

        Raises:
            OSError: It can't listen there.
            OverflowError: There is no such port.
        """
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, None] = {}  # in the order in which they began to
        self._answered: set[socket.socket] = set()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    @override
    def server_bind(self) -> None:
        """Without asking the name service for this host's name, which may take seconds."""
        TCPServer.server_bind(self)

    @contextmanager
    def running(self, look_seconds: float = 0.1) -> Iterator[int]:
        """Answer, in threads of its own. Gives the port, and closes it at the end.

        Args:
            look_seconds: How often it looks whether it is to end.
        """
        thread = threading.Thread(
            target=self.serve_forever, args=(look_seconds,), name="fulmen-http", daemon=True
        )
        thread.start()
        try:
            yield self.server_address[1]
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    @override
    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Make room for a connection. False: all others are being answered."""
        with self._lock:
            if len(self._waiting) + len(self._answered) >= MOST_CONNECTIONS:
                if not self._waiting:
                    return False
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                _cut(oldest)
            self._waiting[request] = None
        return True

    def answers(self, connection: socket.socket) -> bool:
        """A request has come. Returns whether its connection was not given up meanwhile."""
        with self._lock:
            if connection not in self._waiting:
                return False
            del self._waiting[connection]
            self._answered.add(connection)
        return True

    def waits(self, connection: socket.socket) -> None:
        """A request was answered, and the connection is open for another one."""
        with self._lock:
            self._answered.discard(connection)
            self._waiting[connection] = None

    @override
    def shutdown_request(self, request: Any) -> None:
        """The connection has ended."""
        with self._lock:
            self._waiting.pop(request, None)
            self._answered.discard(request)
        super().shutdown_request(request)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers requests, each within its bounds. Content is read only where an answer needs it."""

    server: BoundedServer
    timeout = REQUEST_SECONDS
    disable_nagle_algorithm = True  # else a content waits 40 ms for the client's word on the head
    protocol_version = "HTTP/1.1"
    server_version = "fulmen"
    sys_version = ""
    _more = b""

    def content(self, most: int) -> bytes | None:
        """Read the content of a request, once; None: it has more bytes, or does not come in time.

        The connection ends with the answer.
        """
        self.close_connection = True
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length) > most:
            return None
        parts, left, until = [self._more], int(length) - len(self._more), monotonic()
        until += REQUEST_SECONDS
        try:
            while left > 0:
                self.connection.settimeout(max(0.01, until - monotonic()))
                part = self.connection.recv(min(left, _CONTENT_BLOCK))
                if not part:
                    return None
                parts.append(part)
                left -= len(part)
        except TimeoutError:
            return None
        self.connection.settimeout(REQUEST_SECONDS)
        return b"".join(parts)[: int(length)]

    @override
    def handle_one_request(self) -> None:
        """Read the head as a whole, then answer. What follows a head ends the connection."""
        head, is_last = self._head()
        if not head or not self.server.answers(self.connection):
            self.close_connection = True
            return
        self.rfile = io.BufferedReader(io.BytesIO(head))
        super().handle_one_request()
        self.close_connection |= is_last
        if not self.close_connection:
            self.server.waits(self.connection)

    def _head(self) -> tuple[bytes, bool]:
        """The first line and the headers; nothing: they have not come. Whether more has come."""
        head, until = b"", monotonic() + REQUEST_SECONDS
        try:
            while len(head) <= MOST_HEAD_BYTES:
                self.connection.settimeout(max(0.01, until - monotonic()))
                part = self.connection.recv(_BLOCK)
                if not part:
                    return b"", True
                head += part
                for end in (b"\r\n\r\n", b"\n\n"):
                    found = head.find(end)
                    if found >= 0:
                        rest = found + len(end)
                        self.connection.settimeout(REQUEST_SECONDS)
                        self._more = head[rest:]
                        return head[:rest], rest < len(head)
        except TimeoutError:
            return b"", True
        self.requestline, self.request_version, self.command = "", self.protocol_version, ""
        self.send_error(431)
        return b"", True

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a scrape is no news."""


def _cut(connection: socket.socket) -> None:
    """Have whoever reads from it see its end."""
    with suppress(OSError):  # it has gone by itself
        connection.shutdown(socket.SHUT_RDWR)
