"""Asks an endpoint many things at a time, and again what may go well later.

One event loop for each object, which runs only while somebody waits for answers.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import aiohttp
from yarl import URL

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.http.request_options import RequestOptions
from fulmen.services.http.endpoint import Endpoint, UnexpectedAnswer
from fulmen.services.pools import shared
from fulmen.services.service import ErrorKind

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between a try and the next one; twice as long each time, and less by chance."""
IDLE_SECONDS = 15.0
"""After which a connection is not used again: many servers close theirs soon."""
CLOSE_SECONDS = 1.0
_BLOCK = 64 * 1024


class HttpRequest(NamedTuple):
    """What the client sends."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


class HttpAnswer(NamedTuple):
    """What came back, with at most so much of the content as was asked for."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    is_whole: bool


@dataclass
class Pause:
    """Until when an endpoint does not want to be asked, by the monotonic clock."""

    until: float = 0.0


class Asker:
    """One client. It is used on one event loop.

    Attributes:
        retried: How many requests were made again.
    """

    def __init__(
        self,
        options: RequestOptions,
        endpoint: Endpoint,
        kind_of_status: Callable[[int], ErrorKind | None],
        chance: Callable[[], float],
    ) -> None:
        """Keep what is needed. It connects when it asks.

        Args:
            options: How requests are made.
            endpoint: Whom.
            kind_of_status: What can be done after an answer; None: it is a good one.
            chance: Gives numbers from 0 to 1.
        """
        self._options, self._endpoint = options, endpoint
        self._kind_of_status, self._chance = kind_of_status, chance
        is_secure = options.url.startswith("https:")
        self._tls = options.tls().context(endpoint.name) if is_secure else True
        self._pause = shared(("http", endpoint.name), Pause)
        self._session: aiohttp.ClientSession | None = None
        self._next_at = 0.0
        self.retried = 0

    async def ask(self, request: HttpRequest, most_bytes: int) -> HttpAnswer:
        """Ask, and again if it may go well later.

        Raises:
            UnexpectedAnswer: The request is refused.
            ServiceUnavailable: It is away, or asks to come later, or somebody has to mend it.
        """
        pause = FIRST_PAUSE
        for left in range(self._options.retries, -1, -1):
            await self._may_ask()
            try:
                answer = await self._ask_once(request, most_bytes)
                kind = self._kind_of_status(answer.status)
                if kind is None:
                    return answer
                raise self._endpoint.unexpected(answer.status, answer.content, answer.headers, kind)
            except self._endpoint.errors as error:
                wait = self._wait_of(error)
                if wait > LONGEST_PAUSE:  # others need not ask before
                    self._pause.until = max(self._pause.until, monotonic() + wait)
                if left == 0 or wait > LONGEST_PAUSE:
                    raise self._endpoint.unavailable(error) from None
            self.retried += 1
            await sleep(max(wait, pause * (0.5 + self._chance() / 2)))
            pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    def _wait_of(self, error: BaseException) -> float:
        """The seconds that an endpoint asks to wait before another try.

        Raises:
            UnexpectedAnswer: Another try is of no use, since it refuses the request.
            ServiceUnavailable: So it is, since somebody has to mend something.
        """
        kind = self._endpoint.kind_of(error)
        if kind is ErrorKind.ROW:
            raise error
        if kind is ErrorKind.LACKING:
            raise self._endpoint.unavailable(error) from None
        return error.wait if isinstance(error, UnexpectedAnswer) else 0.0

    async def _may_ask(self) -> None:
        """Wait for one's turn.

        Raises:
            ServiceUnavailable: The endpoint has asked to wait for longer.
        """
        left = self._pause.until - monotonic()
        if left > LONGEST_PAUSE:
            reason = f"it has asked to wait another {left:.0f} seconds"
            raise ServiceUnavailable(self._endpoint.name, reason, ErrorKind.BUSY.value)
        if left > 0:
            await sleep(left)
        if self._options.max_per_second is not None:
            at = max(self._next_at, monotonic())
            self._next_at = at + 1 / self._options.max_per_second
            await sleep(at - monotonic())

    async def _ask_once(self, request: HttpRequest, most_bytes: int) -> HttpAnswer:
        if self._session is None:
            self._session = self._connected()
        async with self._session.request(
            request.method,
            URL(request.url, encoded=True),  # values are escaped already
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
        ) as response:
            content = bytearray()
            while len(content) <= most_bytes:
                part = await response.content.read(_BLOCK)
                if not part:
                    break
                content += part
            is_whole = len(content) <= most_bytes
            if not is_whole:  # the rest may be of any length
                response.close()
            return HttpAnswer(
                response.status, response.headers, bytes(content[:most_bytes]), is_whole
            )

    def _connected(self) -> aiohttp.ClientSession:
        seconds = self._options.timeout_seconds
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._options.concurrency, ssl=self._tls, keepalive_timeout=IDLE_SECONDS
            ),
            timeout=aiohttp.ClientTimeout(total=seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "fulmen"},
        )

    async def close(self) -> None:
        """End all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def in_lanes(
    chains: Sequence[Sequence[T]], lanes: int, call: Callable[[T], Coroutine[Any, Any, None]]
) -> None:
    """Call it for each item; those of a chain one after another, and so many chains at a time.

    After the first exception nothing more is begun, and it is raised when the others have ended.
    Lanes begin a turn of the loop later: by then it knows which connections a server has closed.
    """
    left: Iterator[Sequence[T]] = iter(chains)
    ends: list[BaseException] = []

    async def lane() -> None:
        try:
            for chain in left:
                for item in chain:
                    if ends:
                        return
                    await call(item)
        except BaseException as error:  # noqa: BLE001 (the others are to end first)
            ends.append(error)

    await asyncio.gather(*(lane() for _ in range(min(lanes, len(chains)))))
    if ends:
        raise ends[0]


class OwnLoop:
    """An event loop that runs in whichever thread waits for it, one at a time."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it to its end.

        Raises:
            BaseException: What it raises; or what has ended the thread meanwhile: then what it did
                is cancelled.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            return self._loop.run_until_complete(work)
        except BaseException:
            self._cancel()
            raise

    def _cancel(self) -> None:
        if self._loop is None:
            return
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            with suppress(Exception):
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_SECONDS))

    def close(self) -> None:
        """Let go of it."""
        if self._loop is not None:
            self._cancel()
            self._loop.close()
            self._loop = None
