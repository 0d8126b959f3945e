"""Keeps an operator that does not lead, or may not lead any more, from changing anything."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fulmen_operator.cluster.api import ApiServer, CallFailed, Form, Method
from fulmen_operator.model import Object


class FencedServer:
    """The API server, writable for as long as there is time left, then read-only.

    A call that was sent in time may be carried out too late. That is harmless: each write names the
    version or the uid of an object that was seen, or makes a new object under a unique name.

    Args:
        api: The API server.
        left: Seconds for which it may still be written to.
    """

    def __init__(self, api: ApiServer, left: Callable[[], float]) -> None:
        self._api = api
        self._left = left

    def now(self) -> datetime:
        """The time, as `ApiServer.now`."""
        return self._api.now()

    async def call(
        self,
        method: Method,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        form: Form = Form.WHOLE,
    ) -> dict[str, Any]:
        """Make one call, as `ApiServer.call`. CallFailed if it is no longer allowed."""
        if method == "GET":
            return await self._api.call(method, path, body, query, form)
        left, what = self._left(), f"{method} {path}"
        if left <= 0:
            raise CallFailed(0, "this operator does not lead any more", what)
        try:
            # Connecting may take long: nothing is to be sent after that time.
            async with asyncio.timeout(None if left == float("inf") else left):
                return await self._api.call(method, path, body, query, form)
        except TimeoutError as error:
            raise CallFailed(0, "not answered while this operator led", what) from error
