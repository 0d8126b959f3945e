"""An endpoint of HTTP in a thread of the test's process: it answers as it is told."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web

SECONDS = 20


class ScriptedEndpoint:
    """Notes each request, and answers with what `answers` gives, or with 200.

    Attributes:
        answers: A function of a `Seen`, which gives the arguments of a response; None: 200.
        seen: All requests, in the order of their ends.
        most: How many were under way at a time at most.
    """

    def __init__(self, tls=None):
        self._tls = tls
        self.forget()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def forget(self):
        """Answer with 200, and have seen nothing."""
        self.answers, self.seen, self.most, self._under_way = None, [], 0, []

    @property
    def url(self):
        """Where it listens, without a path."""
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}"

    async def _answer(self, request):
        # A client that does not wait any more leaves its request to the next test's time: it
        # counts only where it began.
        answers, seen, under_way = self.answers, self.seen, self._under_way
        under_way.append(request)
        self.most = max(self.most, len(under_way))
        try:
            one = Seen(request.method, request.path_qs, request.headers, await request.read())
            seen.append(one)
            made = answers(one) if answers else None
            if asyncio.iscoroutine(made):
                made = await made
            return web.Response(**(made or {}))
        finally:
            under_way.pop()

    async def _start(self):
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "localhost", 0, ssl_context=self._tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    def start(self):
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(SECONDS)

    def cut(self):
        """Close the connections that are there, as a server does that nobody has used for long."""

        async def close():
            for connection in self._runner.server.connections:
                if connection.transport is not None:  # it has gone by itself
                    connection.transport.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(SECONDS)

    def stop(self):
        """End it."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Seen:
    """A request."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    @property
    def key(self):
        return self.headers.get("Idempotency-Key")


@contextmanager
def scripted_endpoint(tls=None):
    endpoint = ScriptedEndpoint(tls)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()
