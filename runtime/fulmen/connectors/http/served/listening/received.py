"""Requests that were read, and what they are answered with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fulmen.connectors.http.served.listening.values import ValueParts


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        status: Its status.
        body: What it says: JSON, or what becomes of it.
        headers: More of its headers.
    """

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, reason: str, **headers: str) -> Reply:
    """An answer that says what is wrong.

    Args:
        status: Its status.
        reason: What is wrong.
        headers: More of its headers, with "_" for "-".
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": reason}, named)


def later(status: int, reason: str) -> Reply:
    """A refusal that is about this moment alone."""
    return refusal(status, reason, Retry_After="1")


@dataclass(eq=False)
class Received:
    """A request that was read.

    Attributes:
        rows: The values of its messages.
        key: Its Idempotency-Key; "": it has none.
        digest: What it asks for.
        until: Of a call: till when its client waits, the time of day.
        values: Of a call: takes its values, if they are handed out as they come.
        is_taken: Whether the spout has it.
        is_gone: Whether it was answered before the spout took it.
    """

    rows: Sequence[Sequence[Any]]
    key: str = ""
    digest: bytes = b""
    until: float = 0.0
    values: ValueParts | None = None
    is_taken: bool = False
    is_gone: bool = False
    reply: asyncio.Future[Reply | ValueParts] | None = None

    def add(self, values: Sequence[bytes]) -> None:
        """Hand out more values. On the server's loop."""
        assert self.values is not None
        self.values.add(values)
        self._begin(self.values)

    def end(self, reply: Reply) -> None:
        """It is answered. On the server's loop."""
        values = self.values
        if values is None or (reply.status != 200 and not self._has_begun):
            self._begin(reply)
        else:
            values.end(reply.status, str(reply.body.get("error")) if reply.status != 200 else "")
            self._begin(values)

    @property
    def _has_begun(self) -> bool:
        return self.reply is not None and self.reply.done()

    def _begin(self, reply: Reply | ValueParts) -> None:
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(reply)
