"""What a worker remembers of an endpoint: answers, and that it is away. On one event loop only."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from fulmen.connectors.base.lookup.recent import RecentAnswers
from fulmen.connectors.http.lookup_options import BreakerOptions, CacheOptions

Content = bytes | None
"""What an answer has; None: there is nothing."""


class AnswerCache:
    """Answers by what was asked. What is being asked for is not asked for twice.

    Without options, nothing is kept once it was answered.
    """

    def __init__(self, options: CacheOptions | None, now: Callable[[], float]) -> None:
        self._options, self._now = options, now
        self._answers: RecentAnswers[Content] = RecentAnswers(
            0 if options is None else options.most
        )
        self._asked: dict[Hashable, Future[Content]] = {}

    async def get(
        self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, Content]]
    ) -> tuple[Content, bool]:
        """The answer, and whether it was there without asking.

        Args:
            key: What is asked.
            ask: Asks. What it raises is raised to all who wait for this answer.
        """
        if (kept := self._answers.get(key, self._now())) is not None:
            return kept[0], True
        if key in self._asked:
            return await self._asked[key], True
        future: Future[Content] = get_running_loop().create_future()
        self._asked[key] = future
        try:
            content = await ask()
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # perhaps nobody else waits for it
            else:
                future.cancel()
            raise
        finally:
            del self._asked[key]
        future.set_result(content)
        self._keep(key, content)
        return content, False

    def _keep(self, key: Hashable, content: Content) -> None:
        options = self._options
        if options is None:
            return
        seconds = options.missing_seconds if content is None else options.seconds
        if seconds > 0:
            self._answers.keep(key, content, self._now() + seconds)


class CircuitBreaker:
    """Whether an endpoint may be asked.

    Attributes:
        reason: Why it counts as away.
    """

    def __init__(self, options: BreakerOptions | None, now: Callable[[], float]) -> None:
        self._options, self._now = options, now
        self._failures, self._open_until = 0, 0.0
        self.reason = ""

    def lets_ask(self) -> bool:
        """Whether it may be asked now. After a pause the first one may, and its answer decides."""
        if self._options is None or self._failures < self._options.failures:
            return True
        if self._now() < self._open_until:
            return False
        self._open_until = self._now() + self._options.seconds
        return True

    def answered(self) -> None:
        """It has answered."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """It has not."""
        self.reason = reason
        self._failures += 1
        if self._options is not None:
            self._open_until = self._now() + self._options.seconds
