"""Answers of several values, which are handed out one after another, as they come.

A client can tell an answer that is whole from one that was cut off: the last part says that it is
the end, or why there is none.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import ClassVar

from typing_extensions import override

from fulmen.connectors.formats.values import DEFAULT
from fulmen.connectors.http.served.options import EVENTS, LINES


class PartForm(ABC):
    """How the parts of such an answer are written down."""

    content_type: ClassVar[str]

    @abstractmethod
    def value(self, value: bytes) -> bytes:
        """The part with a value, which is JSON."""

    @abstractmethod
    def end(self, count: int) -> bytes:
        """The last part: so many values were all."""

    @abstractmethod
    def error(self, status: int, reason: str) -> bytes:
        """The last part: the call has failed.

        Args:
            status: That of an answer which is not handed out in parts.
            reason: Why.
        """


class _Lines(PartForm):
    """NDJSON: each line is an object, whose member says what it is."""

    content_type = LINES

    @override
    def value(self, value: bytes) -> bytes:
        return b'{"value":' + value + b"}\n"

    @override
    def end(self, count: int) -> bytes:
        return b'{"end":%d}\n' % count

    @override
    def error(self, status: int, reason: str) -> bytes:
        return DEFAULT.dumps({"error": reason, "status": status}) + b"\n"


class _Events(PartForm):
    """Server-sent events: a value is a message, the last part an event of a type of its own."""

    content_type = EVENTS

    @override
    def value(self, value: bytes) -> bytes:
        return b"data: " + value + b"\n\n"

    @override
    def end(self, count: int) -> bytes:
        return b"event: end\ndata: %d\n\n" % count

    @override
    def error(self, status: int, reason: str) -> bytes:
        return b"event: error\n" + self.value(DEFAULT.dumps({"error": reason, "status": status}))


FORMS: Mapping[str, PartForm] = {form.content_type: form for form in (_Lines(), _Events())}
"""By content type."""


class ValueParts:
    """The parts of one answer that are there and not sent yet. On the server's loop.

    Attributes:
        form: How they are written down.
        status: 200; once it has failed, what an answer would have that is not handed out in parts.
    """

    def __init__(self, form: PartForm) -> None:
        self.form = form
        self.status = 200
        self._count = 0
        self._parts: deque[bytes] = deque()
        self._is_over = False
        self._changed = asyncio.Event()

    def add(self, values: Iterable[bytes]) -> None:
        """More values have come. Those that come after the end are nobody's."""
        if not self._is_over:
            before = len(self._parts)
            self._parts.extend(map(self.form.value, values))
            self._count += len(self._parts) - before
            self._changed.set()

    def end(self, status: int = 200, reason: str = "") -> None:
        """There are no more, or the call has failed. Only the first end counts."""
        if not self._is_over:
            self._is_over, self.status = True, status
            form = self.form
            last = form.end(self._count) if status == 200 else form.error(status, reason)
            self._parts.append(last)
            self._changed.set()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield what is there, and wait for more until the end."""
        while self._parts or not self._is_over:
            self._changed.clear()
            if self._parts:
                parts = b"".join(self._parts)
                self._parts.clear()
                yield parts
            else:
                await self._changed.wait()
