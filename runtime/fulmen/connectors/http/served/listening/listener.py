"""Receives requests for a spout, and sends the answers that it gives.

A request is read, and refused if it must be, on the server's own loop; it waits in a queue for the
spout's turn, and on the loop for its answer. A request that nobody has taken in its time was never
emitted, and is told so.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from aiohttp import web

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import milliseconds
from fulmen.connectors.formats.values import DEFAULT
from fulmen.connectors.http.served.listening.authentication import has_token
from fulmen.connectors.http.served.listening.passing_on import (
    CLOSE_SECONDS,
    HeldServer,
    PassingOn,
)
from fulmen.connectors.http.served.listening.received import Received, Reply, later, refusal
from fulmen.connectors.http.served.listening.values import ValueParts
from fulmen.connectors.http.served.options import ServingOptions
from fulmen.services.http.handover import HANDOVER, Handover
from fulmen.services.http.server import HttpServer, ServerLimits

T = TypeVar("T")
SECONDS = (
    *(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0),
)
"""Bounds of how long requests wait, close enough for quantiles."""
GONE = 499
"""Counted for a client that went away before it had its answer."""
MOST_WAITING = 10_000
"""Messages that are not processed yet, if the topology has no `maxSpoutPending`."""


Read = Callable[[web.BaseRequest, bytes], Received | Reply]
"""Makes of a request what the spout is to have, or the answer. Called on the server's loop."""


class Listener:
    """The requests of one spout.

    Attributes:
        pending: Messages that the spout has taken, and that are not processed yet.
        at_once: What requests without a key get as soon as they wait; None: the spout answers them.
    """

    def __init__(self, options: ServingOptions, context: TopologyContext, read: Read) -> None:
        """Prepare. Nothing is served yet.

        Args:
            options: Where to listen, and how long to wait.
            context: Of the spout.
            read: Understands requests.

        Raises:
            ServiceUnavailable: The address can't be had, or a file of `tls` can't be read.
        """
        self._options, self._context, self._read = options, context, read
        self._seconds = milliseconds(options.timeout) / 1000
        self._most = context.max_spout_pending or MOST_WAITING
        self._lock = threading.Lock()
        self._queue: deque[Received] = deque()
        self._queued = 0  # messages
        self._is_open = False
        self._next: PassingOn | None = None
        self.pending = 0
        self.at_once: Reply | None = None
        self._waiting = 0
        self._open_requests = context.gauge("http_open_requests", "Requests that wait for answers")
        self._histogram = context.histogram(
            "http_request_seconds", "How long requests waited for their answers", SECONDS
        )
        self._tls = self._made_tls()
        limits = ServerLimits(
            content_bytes=options.max_content_bytes,
            held_bytes=options.max_held_bytes,
            connections=options.max_connections,
        )
        held = HANDOVER.take(self._place)
        self._server: HttpServer
        if isinstance(held, HeldServer):  # of the topology as it was
            self._server, self._next = held.server, held.requests
            self._server.stay(self._answer)
            return
        self._server = HttpServer(f"fulmen-http-{context.component}", self._answer, limits)
        try:
            self._bind()
        except ServiceUnavailable:
            self._server.close(0)
            raise

    @property
    def _place(self) -> tuple[str, int]:
        return self._options.host, self._options.port

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"HTTP at {self._options.host}:{self._server.port or self._options.port}"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def _made_tls(self) -> ssl.SSLContext | None:
        tls = self._options.tls
        if tls is None:
            return None
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            made.load_cert_chain(tls.certificate, tls.key, password=_no_password)
            if tls.client_authority is not None:
                made.load_verify_locations(tls.client_authority)
                made.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            what = f"its certificate, key or authorities can't be read: {error}"
            raise ServiceUnavailable(
                f"HTTPS at {self._options.host}:{self._options.port}", what, "can't be used"
            ) from None
        return made

    def _bind(self) -> None:
        try:
            self._server.bind(self._options.host, self._options.port)
        except (OSError, OverflowError) as error:
            why = f"{getattr(error, 'strerror', None) or error}"
            raise ServiceUnavailable(
                f"HTTP at {self._options.host}:{self._options.port}", why, "can't be used"
            ) from None

    # On the spout's thread

    def open(self) -> None:
        """Listen, unless it does.

        Raises:
            ServiceUnavailable: The address can't be had.
        """
        if self._is_open:
            return
        if self._next is not None:
            self._is_open = True
            self._next.lead_to(self._answer)
            self._next = None
            return
        if not self._server.is_bound:
            self._bind()
        self._is_open = True  # before the first one comes
        self._server.listen(self._tls)

    def stop(self) -> None:
        """Take no more requests. Those that wait can still be taken, and answered."""
        with self._lock:
            self._is_open = False
        self._server.stop()

    def hand_over(self, handover: Handover) -> bool:
        """Take no more requests, and pass those that still come on to the next driver.

        Where clients show certificates, only this process can be the next one: nobody but the
        client can show its own.

        Returns:
            Whether they are passed on.
        """
        tls = self._options.tls
        if not self._is_open or (
            handover.to_next_process and tls is not None and tls.client_authority is not None
        ):
            return False
        with self._lock:
            certificate = None if tls is None else tls.certificate
            self._next = PassingOn(handover, self._server.port, self._seconds, certificate)
            self._is_open = False
        if handover.to_next_process:
            self._server.leave()
        return True

    def keep(self, handover: Handover) -> bool:
        """Go on without the spout, if what comes is passed on. Returns whether it does."""
        if self._next is None or not handover.is_on:
            return False
        if handover.to_next_process:
            self._server.leave()
        handover.keep(self._place, HeldServer(self._server, self._next))
        return True

    def close(self) -> None:
        """End. What was not answered is told so."""
        with self._lock:
            self._is_open = False
        self._server.close(CLOSE_SECONDS)

    def take(self) -> Received | None:
        """The next request; None: none waits."""
        with self._lock:
            while self._queue:
                request = self._queue.popleft()
                self._queued -= len(request.rows)
                if not request.is_gone:
                    request.is_taken = True
                    return request
        return None

    @property
    def queued(self) -> int:
        """Messages that wait for the spout."""
        return self._queued

    def answer(self, requests: Iterable[Received], reply: Reply) -> None:
        """Answer requests that were taken."""
        if ended := list(requests):
            self._server.call(_for_each, ended, Received.end, reply)

    def hand_out(self, requests: Iterable[Received], values: Sequence[bytes]) -> None:
        """Hand out values to those of some requests that want them as they come. On any thread."""
        if values and (served := [one for one in requests if one.values is not None]):
            self._server.call(_for_each, served, Received.add, values)

    # On the server's loop

    async def _answer(self, request: web.BaseRequest, content: bytes) -> web.StreamResponse:
        started, status = time.monotonic(), GONE
        try:
            reply = None if self._next is not None else await self._reply_to(request, content)
            if reply is None and self._next is not None:
                status = 0
                return await self._next.answer(request, content)
            reply = reply or later(503, "the topology takes no requests now")
            response: web.StreamResponse
            if isinstance(reply, ValueParts):
                response = await self._hand_out(request, reply, started + self._seconds)
            else:
                headers = {"Content-Type": "application/json", **reply.headers}
                body = reply.body if isinstance(reply.body, bytes) else DEFAULT.dumps(reply.body)
                response = web.Response(body=body, status=reply.status, headers=headers)
            status = reply.status
            return response
        finally:
            if status:
                self._histogram.observe(time.monotonic() - started)
                labels = {"status": str(status)}
                self._context.counter("http_answers", "Requests that were answered", labels).inc()

    async def _hand_out(
        self, request: web.BaseRequest, values: ValueParts, until: float
    ) -> web.StreamResponse:
        """Send values as they come. The connection ends with them.

        Args:
            request: That of the client.
            values: The values.
            until: How long the client waits, on the steady clock.
        """
        headers = {"Content-Type": values.form.content_type, "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        response.force_close()
        self._counts_open(1)
        try:
            await response.prepare(request)
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    async for parts in values.parts():
                        await response.write(parts)
            except TimeoutError:
                values.end(504, self._not_done)
            async with asyncio.timeout(CLOSE_SECONDS):
                async for parts in values.parts():
                    await response.write(parts)
                await response.write_eof()
        except (TimeoutError, ConnectionError):  # of a client that reads no more
            if request.transport is not None:
                request.transport.abort()
        finally:
            values.end(GONE)
            self._counts_open(-1)
        return response

    async def _reply_to(
        self, request: web.BaseRequest, content: bytes
    ) -> Reply | ValueParts | None:
        """What a request is answered with; None: none is taken any more."""
        token = self._options.token
        if token is not None and not has_token(request.headers, token):
            return refusal(401, "the bearer token is missing or wrong", WWW_Authenticate="Bearer")
        received = self._read(request, content)
        if isinstance(received, Reply):
            return received
        if not received.rows:
            return Reply(200, {"messages": 0})
        reply = received.reply = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._is_open:
                return None
            waiting = self._queued + self.pending
            if waiting and waiting + len(received.rows) > self._most:
                return later(429, f"{waiting} messages are not processed yet")
            self._queued += len(received.rows)
            self._queue.append(received)
        if self.at_once is not None and not received.key:
            return self.at_once
        self._context.want_batch()
        self._counts_open(1)
        try:
            async with asyncio.timeout(self._seconds):
                answered: Reply | ValueParts = await reply
                return answered
        except TimeoutError:
            if self._gives_up(received):
                return refusal(504, self._not_done)
            return later(503, f"the topology did not take it within {self._options.timeout}")
        except asyncio.CancelledError:  # its client has gone
            self._gives_up(received)
            raise
        finally:
            self._counts_open(-1)

    def _counts_open(self, more: int) -> None:
        self._waiting += more
        self._open_requests.set(self._waiting)

    def _gives_up(self, received: Received) -> bool:
        """Nobody waits any more. Returns whether the spout has taken it; else it never will."""
        if received.values is not None:
            received.values.end(GONE)
        with self._lock:
            received.is_gone = not received.is_taken
            return received.is_taken

    @property
    def _not_done(self) -> str:
        return f"it was not done within {self._options.timeout}, and goes on"


def _for_each(requests: Sequence[Received], do: Callable[[Received, T], None], what: T) -> None:
    for one in requests:
        do(one, what)


def _no_password() -> str:
    raise ValueError("the key has a password")
