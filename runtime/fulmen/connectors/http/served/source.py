"""The base of sources that serve HTTP: when they listen, and what they do at their end.

The driver hosts them, so connections outlive workers: a batch whose worker was lost is run again,
and a client only waits for it. One task serves; others have nothing to do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from aiohttp import web
from typing_extensions import override

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.source import MessageSource
from fulmen.connectors.http.served.listening.listener import Listener
from fulmen.connectors.http.served.listening.received import Received, Reply, later
from fulmen.connectors.http.served.options import ServingOptions
from fulmen.services.http.handover import HANDOVER

PAUSE_SECONDS = 1.0
"""Before the next try to listen."""
ENDED = "the topology has ended before it was done: it may be done later, or not"


class ServingSource(MessageSource):
    """A source whose messages are requests.

    Attributes:
        listener: Receives them.
        serves: Whether this task does.
    """

    pinned = True
    options: ServingOptions
    listener: Listener

    @override
    def connect(self) -> None:
        self._retry = self.due(PAUSE_SECONDS)
        self.serves = self.context.task_index == 0
        if self.serves:
            self.listener = Listener(self.options, self.context, self.read)

    @abstractmethod
    def read(self, request: web.BaseRequest, content: bytes) -> Received | Reply:
        """Make of a request what is to be emitted, or the answer. Called on the server's loop."""

    @abstractmethod
    def emit(self, request: Received) -> None:
        """Emit a request, or answer it."""

    @abstractmethod
    def unanswered(self) -> Iterable[Received]:
        """The requests that were taken, and not answered."""

    @override
    def begin_turn(self) -> bool:
        if not self.serves:
            return False
        if self._retry.is_now():
            try:
                self.listener.open()
            except ServiceUnavailable:
                self._retry.later()
                raise
        if self.lag_due.take():
            self.context.lag(messages=self.listener.queued)
        return True

    @override
    def emit_next(self) -> bool:
        request = self.listener.take()
        if request is None:
            return False
        self.emit(request)
        return True

    @override
    def deactivate(self) -> None:
        """Stop to listen, or leave what comes to the next driver, and emit what has come."""
        if self.serves:
            if not (HANDOVER.is_on and self.listener.hand_over(HANDOVER)):
                self.listener.stop()
            while self.emit_next():
                pass

    @override
    def close(self) -> None:
        """End the server, and tell those whose requests are not answered."""
        if self.serves:
            self.listener.answer(self.unanswered(), later(503, ENDED))
            while (request := self.listener.take()) is not None:
                self.listener.answer([request], later(503, "the topology has ended"))
            if not self.listener.keep(HANDOVER):
                self.listener.close()
