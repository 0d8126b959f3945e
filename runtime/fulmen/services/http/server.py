"""A server of HTTP whose answers may take their time, by aiohttp.

It has a thread and an event loop of its own, so it reads and answers whatever its owner's thread
does. A request has limits: of its head and its content in bytes, and of both in seconds. So has the
number of connections: at the limit the oldest one that waits for a request is closed for a new one,
so that a flood of idle ones keeps nobody out.

`fulmen.serving` is for the page and for probes, whose answers are there at once: it needs no client
library, since the operator has it too.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import override

from fulmen.services.service import no_client

try:
    from aiohttp import web
except ImportError as error:
    raise no_client(error, "HTTP", "http") from error

T = TypeVar("T")
HEAD_BYTES = 16 * 1024
"""The most of a request's first line, and of each header."""
HEADERS = 64
BACKLOG = 1024
PACKINGS = {"gzip": 31, "deflate": 15}
"""How contents may be packed, and zlib's window for that."""
MOST_PARTS = 100
"""Of which a packed content consists: to go on behind each costs a copy of the rest."""
LEAST_SECONDS = 0.01
LONG_BYTES = 64 * 1024
LOOK_SECONDS = 0.01
"""Between two looks at what a client has taken of a long answer."""


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server.

    Attributes:
        content_bytes: Of a request, after it is unpacked.
        held_bytes: Of the contents of all requests that are not answered yet.
        connections: How many there are at a time.
        request_seconds: In which the head has to come, and then the content; and some part of a
            long answer has to be taken.
        keep_seconds: How long a connection without a request stays open.
    """

    content_bytes: int = 1 << 20
    held_bytes: int = 64 << 20
    connections: int = 1000
    request_seconds: float = 10.0
    keep_seconds: float = 75.0


Answer = Callable[["web.BaseRequest", bytes], Awaitable["web.StreamResponse"]]
"""Answers a request, given its content. It is called on the server's loop."""


class HttpServer:
    """One address that is served.

    Attributes:
        port: That of the address, once it is bound.
    """

    def __init__(self, name: str, answer: Answer, limits: ServerLimits) -> None:
        """Begin a thread. Nothing is served yet.

        Args:
            name: Of the thread.
            answer: Answers requests.
            limits: What clients may take.
        """
        self._answer, self._limits = answer, limits
        self._socket: socket.socket | None = None
        self._serving: asyncio.Server | None = None
        self._is_leaving = False
        self._held_bytes = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._manager = self._do(self._made())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done on the server's loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, callback: Callable[..., object], *args: object) -> None:
        """Have a function called on the server's loop, from another thread."""
        self._loop.call_soon_threadsafe(callback, *args)

    async def _made(self) -> _Connections:
        return _Connections(self._respond, self._limits)

    # Its address

    def bind(self, host: str, port: int) -> None:
        """Take the address. Clients are refused until `listen`.

        Raises:
            OSError: It can't be had.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, port))
        except BaseException:
            made.close()
            raise
        made.settimeout(0)
        self._socket, self.port = made, made.getsockname()[1]

    @property
    def is_bound(self) -> bool:
        """Whether it has its address."""
        return self._socket is not None

    def listen(self, tls: ssl.SSLContext | None = None) -> None:
        """Serve from now on."""
        self._is_leaving = False
        self._do(self._listen(tls))

    async def _listen(self, tls: ssl.SSLContext | None) -> None:
        assert self._socket is not None
        self._serving = await self._loop.create_server(
            self._manager,
            sock=self._socket,
            ssl=tls,
            ssl_handshake_timeout=self._limits.request_seconds if tls else None,
            backlog=BACKLOG,
        )

    def stop(self) -> None:
        """Let go of the address. A request that is here is the last one of its connection."""
        self._is_leaving = True
        self._do(self._stop())

    def leave(self) -> None:
        """Go on to serve, but have each answer be the last one of its connection."""
        self._is_leaving = True

    def stay(self, answer: Answer) -> None:
        """Have requests answered by somebody else from now on, and keep their connections again."""
        self._answer, self._is_leaving = answer, False

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        busy: set[Any] = self._manager.busy
        return len(busy)

    async def _stop(self) -> None:
        if self._serving is not None:
            self._serving.close()
        elif self._socket is not None:
            self._socket.close()
        self._serving = self._socket = None
        self._manager.close_idle()

    def close(self, seconds: float) -> None:
        """End. Answers that are being sent have so many seconds."""
        self.stop()
        self._do(self._manager.shutdown(max(seconds, LEAST_SECONDS)))  # 0 is for ever
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # A request

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        busy = self._manager.busy
        protocol = request.protocol
        self._manager.begins(protocol)
        try:
            response = await self._answer_to(request)
            if self._is_leaving:
                response.force_close()
            await self._send(request, response)
        finally:
            busy.discard(protocol)
        return response

    async def _send(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Send a long answer, to a client that takes some of it every `request_seconds`.

        A short one fits into what the system keeps for a connection.
        """
        transport = request.transport
        is_short = (
            isinstance(response, web.Response) and (response.content_length or 0) < LONG_BYTES
        )
        if is_short or transport is None:
            return
        await response.prepare(request)
        sending = self._loop.create_task(response.write_eof())
        try:
            least, due = math.inf, 0.0
            while not sending.done() or transport.get_write_buffer_size():
                left, now = transport.get_write_buffer_size(), self._loop.time()
                if left < least:
                    least, due = left, now + self._limits.request_seconds
                elif now > due:
                    transport.abort()
                    return
                await asyncio.wait([sending], timeout=0)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            sending.cancel()
            with suppress(ConnectionError, asyncio.CancelledError):
                await sending

    async def _answer_to(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer, with room for the content held until that is done."""
        most, is_packed = self._limits.content_bytes, "Content-Encoding" in request.headers
        size = request.content_length
        if size is not None and size > most:
            return closing(413, f"the content has {size} bytes, and at most {most} are taken")
        room = most if size is None or is_packed else size
        if self._held_bytes + room > self._limits.held_bytes:
            response = closing(503, "the contents of other requests take all the memory there is")
            response.headers["Retry-After"] = "1"
            return response
        self._held_bytes += room
        try:
            return await self._read_and_answer(request)
        finally:
            self._held_bytes -= room

    async def _read_and_answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                content = await request.read()
        except TimeoutError:
            return closing(408, f"the content did not come in {self._limits.request_seconds:g} s")
        except web.HTTPRequestEntityTooLarge:
            return closing(413, f"the content has more than {self._limits.content_bytes} bytes")
        packing = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packing != "identity":
            if packing not in PACKINGS:
                return closing(415, f"contents are packed by {', '.join(PACKINGS)} or not at all")
            try:
                content = unpacked(content, PACKINGS[packing], self._limits.content_bytes)
            except (ValueError, zlib.error) as error:
                return closing(400, f"the content can't be unpacked: {error}")
            except OverflowError as error:
                return closing(413, str(error))
        return await self._answer(request, content)


def unpacked(data: bytes, window: int, most: int) -> bytes:
    """Unpack a content.

    Args:
        data: The whole of it, of one part or of several.
        window: Of zlib, which says the kind.
        most: Bytes that it may have.

    Raises:
        OverflowError: It has more.
        ValueError: Its end is missing, or it has too many parts.
        zlib.error: It is something else.
    """
    parts: list[bytes] = []
    left = most
    while data:
        if len(parts) == MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS} parts")
        packed = zlib.decompressobj(window)
        parts.append(packed.decompress(data, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise OverflowError(f"the content has more than {most} bytes, once it is unpacked")
        if not packed.eof:
            raise ValueError("its end is missing")
        data = packed.unused_data
    return b"".join(parts)


def closing(status: int, reason: str) -> web.Response:
    """A refusal, after which the connection ends: nobody knows where a next request begins."""
    response = web.json_response({"error": reason}, status=status)
    response.force_close()
    return response


class _Connections(web.Server):
    """The connections of a server.

    Attributes:
        busy: Those whose request is being answered.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: ServerLimits,
    ) -> None:
        loop = asyncio.get_running_loop()

        def request(*made_of: Any) -> web.BaseRequest:
            message, payload, protocol, writer, task = made_of
            most = limits.content_bytes
            return web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=most
            )

        super().__init__(
            handler,
            request_factory=request,
            handler_cancellation=True,  # nothing more is done for a client that has gone
            access_log=None,
            keepalive_timeout=limits.keep_seconds,
            lingering_time=0,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            max_headers=HEADERS,
            auto_decompress=False,  # aiohttp takes what is cut off
        )
        self._limits = limits
        self.busy: set[Any] = set()
        self._begun: set[Any] = set()

    @override
    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > self._limits.connections:
            # in the order in which they were made; the new one, if all others are answered
            next(one for one in self.connections if one not in self.busy).force_close()
        # aiohttp's own timer is that of a connection that was used before
        asyncio.get_running_loop().call_later(
            self._limits.request_seconds, self._first_is_due, handler
        )

    def _first_is_due(self, handler: Any) -> None:
        if handler not in self._begun and handler not in self.busy:
            handler.force_close()

    def begins(self, handler: Any) -> None:
        """A request has come on a connection."""
        self._begun.add(handler)
        self.busy.add(handler)

    @override
    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._begun.discard(handler)

    def close_idle(self) -> None:
        """End the connections that wait for a request."""
        for one in self.connections:
            if one not in self.busy:
                with suppress(RuntimeError):
                    one.force_close()
