"""Passes requests on to the spout that follows, in this process or in the next driver's."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    TCPConnector,
    web,
)
from yarl import URL

from fulmen.services.http.handover import Handover
from fulmen.services.http.server import Answer, HttpServer

CLOSE_SECONDS = 2.0
"""For answers that are being sent when a server ends."""
LOOK_SECONDS = 0.1
"""Between two looks whether the next driver can be reached."""
HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-encoding",  # contents were unpacked
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are about this connection, and this form of the content."""


class PassingOn:
    """The requests that have come since the spout was told to stop."""

    def __init__(
        self, handover: Handover, port: int, seconds: float, certificate: str | None = None
    ) -> None:
        """Prepare.

        Args:
            handover: Knows the next driver.
            port: Where that listens.
            seconds: How long a request waits for its answer.
            certificate: The file with that of both drivers. None: they serve HTTP.
        """
        self._certificate = certificate
        self._handover, self._port, self._seconds = handover, port, seconds
        self._session: ClientSession | None = None
        self._here: Answer | None = None

    def lead_to(self, answer: Answer) -> None:
        """The spout is in this process, and answers them."""
        self._here = answer

    async def answer(self, request: web.BaseRequest, content: bytes) -> web.StreamResponse:
        """The next driver's answer. Nothing of a request that gets 503 was emitted, but as said."""
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            if self._here is not None:
                return await self._here(request, content)
            if self._handover.successor:
                try:
                    seconds = deadline - time.monotonic()
                    return await self._ask(request, content, seconds, self._trusted())
                except ClientConnectorError:
                    pass  # it was not sent
                except TimeoutError:
                    return _refusal(504, "the next driver did not answer in time, and goes on")
                except ClientError as error:
                    text = (
                        f"the connection to the next driver broke: it may be done, or not: {error}"
                    )
                    return _refusal(503, text)
            await asyncio.sleep(LOOK_SECONDS)
        return _refusal(503, "the topology is being replaced, and the next driver is not ready yet")

    def _trusted(self) -> ssl.SSLContext | None:
        """Trusts who shows the certificate of this driver, or one of its authorities.

        The file is read each time: it may have been renewed for the next driver.
        """
        if self._certificate is None:
            return None
        made = ssl.create_default_context(cafile=self._certificate)
        made.check_hostname = False  # pods are asked by addresses, which no certificate is of
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return made

    async def _ask(
        self,
        request: web.BaseRequest,
        content: bytes,
        seconds: float,
        trusted: ssl.SSLContext | None,
    ) -> web.StreamResponse:
        if self._session is None:  # a connection for each: none breaks because it was idle
            self._session = ClientSession(connector=TCPConnector(limit=0, force_close=True))
        host = self._handover.successor
        host = f"[{host}]" if ":" in host else host
        scheme = "http" if trusted is None else "https"
        url = URL(f"{scheme}://{host}:{self._port}{request.path_qs}", encoded=True)
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP]
        timeout = ClientTimeout(total=seconds)
        async with self._session.request(
            request.method,
            url,
            headers=headers,
            data=content,
            timeout=timeout,
            allow_redirects=False,
            ssl=trusted or True,
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
            if answer.content_length is not None:
                body = await answer.read()
                return web.Response(body=body, status=answer.status, headers=kept)
            handed_out = web.StreamResponse(status=answer.status, headers=kept)
            handed_out.force_close()
            await handed_out.prepare(request)
            try:
                async for part in answer.content.iter_any():
                    await handed_out.write(part)
            except (TimeoutError, ClientError, ConnectionError):
                if request.transport is not None:  # so that its client sees that there is more
                    request.transport.abort()
            return handed_out

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()


@dataclass(frozen=True)
class HeldServer:
    """A server whose spout has ended, with the requests that come meanwhile."""

    server: HttpServer
    requests: PassingOn

    @property
    def waiting(self) -> int:
        """The requests that have no answer yet."""
        return self.server.busy

    def end(self) -> None:
        """Serve no longer."""
        self.server.submit(self.requests.close()).result()
        self.server.close(CLOSE_SECONDS)


def _refusal(status: int, reason: str) -> web.Response:
    headers = {"Retry-After": "1"} if status == 503 else {}
    return web.json_response({"error": reason}, status=status, headers=headers)
