"""Sends messages to RabbitMQ, and waits until the broker has confirmed them.

pika's blocking connection waits for each confirm before it sends the next message. So this is its
asynchronous connection, whose loop runs here while there is something to wait for. Between batches
nobody answers heartbeats: a connection that the broker has closed meanwhile is made anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pika  # type: ignore[import-untyped]
from pika import exceptions

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.services.rabbitmq import SECONDS, Broker, reason_of

AT_ONCE = 1000
"""So many messages are sent before their confirms are waited for."""
CLOSE_SECONDS = 1.0
NO_EXCHANGE, NO_RIGHT = 404, 403
OF_MESSAGES = (NO_RIGHT, 311, 406)
"""Codes that a message may cause, by its routing key, its size or its properties."""
BESIDE_PROPERTIES = 20
"""Bytes of the frame that has the properties, without them. The broker closes the connection if it
is longer than a frame may be."""


class PublishedMessage(NamedTuple):
    """The message of one row. Its properties, pika's, have a message id."""

    exchange: str
    routing_key: str
    properties: Any
    body: bytes


class ChannelRefused(Exception):
    """The broker has closed the channel: for a message, or the exchange is not there.

    Nothing was confirmed.

    Attributes:
        code: Why, in AMQP's numbers.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason

    def __str__(self) -> str:
        return self.reason


class Publisher:
    """One connection, which is made when it is needed."""

    def __init__(self, broker: Broker, confirm_seconds: float, *, mandatory: bool) -> None:
        """Keep the broker. Nothing is connected yet. After so long without a confirm it is away.

        If `mandatory`, messages that reach no queue are refused.
        """
        self._broker, self._seconds, self._mandatory = broker, confirm_seconds, mandatory
        self._connection: Any = None
        self._loop: Any = None
        self._channel: Any = None
        self._error: BaseException | None = None
        self._blocked = ""
        self._sent = 0
        self._unconfirmed: dict[int, int] = {}
        self._refused: dict[int, str] = {}
        self._returned: list[tuple[PublishedMessage, str]] = []

    def connect(self, declare: Callable[[Any, Callable[[Any], None]], None] | None = None) -> None:
        """Connect anew, unless there is a connection that lives.

        Args:
            declare: Declares something on a channel, and calls what it gets as its second argument
                when it is there.

        Raises:
            ServiceUnavailable: The broker is away, or refuses us or what is to be declared.
        """
        if self._is_alive():
            return
        self.close()
        self._error, self._blocked = None, ""
        self._connection = pika.SelectConnection(
            self._broker.parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        self._loop = self._connection.ioloop
        self._connection.add_on_connection_blocked_callback(self._has_blocked)
        self._connection.add_on_connection_unblocked_callback(self._has_blocked)
        try:
            self._wait(lambda: self._channel is not None, 2 * SECONDS, "it does not answer")
            if declare is not None:
                done: list[Any] = []

                def declared(frame: Any) -> None:
                    done.append(frame)
                    self._loop.stop()

                declare(self._channel, declared)
                self._wait(lambda: bool(done), SECONDS, "it does not answer")
        except BaseException:
            self.close()
            raise

    def publish(self, messages: Sequence[PublishedMessage]) -> dict[int, str]:
        """Send messages to one exchange, and wait for their confirms.

        Returns:
            Why messages were refused, by their positions.

        Raises:
            ChannelRefused: There is no such exchange, or the broker takes one of the messages by no
                means.
            ServiceUnavailable: It is not known which messages have arrived.
        """
        self.connect()
        self._refused, self._returned = {}, []
        try:
            for first in range(0, len(messages), AT_ONCE):
                for i, message in enumerate(messages[first : first + AT_ONCE], first):
                    self._send(i, message)
                self._wait(lambda: not self._unconfirmed, self._seconds, "it confirms nothing")
        except exceptions.ChannelClosed as error:
            if error.reply_code == NO_EXCHANGE:
                raise ChannelRefused(NO_EXCHANGE, error.reply_text) from None
            if error.reply_code in OF_MESSAGES:
                raise ChannelRefused(error.reply_code, reason_of(error)) from None
            raise self._broker.unavailable(error) from None
        if self._returned:
            self._refused |= refused_of(messages, self._returned)
        return self._refused

    def _send(self, i: int, message: PublishedMessage) -> None:
        if self._error is not None:
            return
        if reason := self._too_large(message.properties):
            self._refused[i] = reason
        else:
            self._channel.basic_publish(
                message.exchange,
                message.routing_key,
                message.body,
                message.properties,
                mandatory=self._mandatory,
            )
            self._sent += 1
            self._unconfirmed[self._sent] = i

    def _too_large(self, properties: Any) -> str:
        """Why no frame takes the properties of a message; "": one does."""
        texts = [one for one in (properties.headers or {}).values() if isinstance(one, str | bytes)]
        most = self._connection.params.frame_max - BESIDE_PROPERTIES
        if sum(map(len, texts)) > most // 8:  # to encode them takes longer
            size = sum(map(len, properties.encode()))
            if size > most:
                return f"its properties have {size} bytes, and the broker takes {most} at most"
        return ""

    # What the loop calls

    def _opened(self, channel: Any) -> None:
        self._sent = 0
        self._unconfirmed = {}
        channel.add_on_close_callback(self._ended)
        channel.add_on_return_callback(self._has_returned)

        def usable(_frame: Any) -> None:
            self._channel = channel
            self._loop.stop()

        channel.confirm_delivery(self._confirmed, callback=usable)

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= method.delivery_tag]
        for tag in tags:
            i = self._unconfirmed.pop(tag, None)
            if i is not None and isinstance(method, pika.spec.Basic.Nack):
                self._refused[i] = "the broker could not keep the message"
        self._loop.stop()

    def _has_returned(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        reason = f"{method.reply_text}: exchange {method.exchange!r} has no queue for routing key"
        message = PublishedMessage(method.exchange, method.routing_key, properties, body)
        self._returned.append((message, f"{reason} {method.routing_key!r}"))

    def _has_blocked(self, _connection: Any, frame: Any) -> None:
        reason = getattr(frame.method, "reason", "")  # unblocked: it has none
        self._blocked = reason and f"it takes no messages for now ({reason})"

    def _ended(self, _of: Any, error: BaseException) -> None:
        """Note that a channel or the connection was closed. The first error tells why."""
        self._channel = None
        self._error = self._error or error
        self._loop.stop()

    # The loop

    def _wait(self, is_done: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Run the loop until something is done.

        Raises:
            ServiceUnavailable: The connection was lost, or too many seconds passed without news.
            ChannelClosed: The broker has closed the channel.
        """
        while not is_done() and self._error is None:
            if self._run(seconds):
                self.close()
                raise ServiceUnavailable(
                    self._broker.name, self._blocked or f"{otherwise} for {seconds:g} seconds"
                )
        if self._error is not None:
            if isinstance(self._error, exceptions.ChannelClosed):
                raise self._error
            raise self._broker.unavailable(self._error)

    def _is_alive(self) -> bool:
        """Whether there is a connection, after all that has arrived meanwhile."""
        if self._connection is None or self._channel is None:
            return False
        self._run(0)
        return self._channel is not None and self._error is None

    def _run(self, seconds: float) -> bool:
        """Run the loop until something stops it. Returns whether nothing did, for so long."""
        late: list[bool] = []

        def too_late() -> None:
            late.append(True)
            self._loop.stop()

        timer = self._loop.call_later(seconds, too_late)
        self._loop.start()
        self._loop.remove_timeout(timer)
        return bool(late)

    def close(self) -> None:
        """End the connection. What is not confirmed may have arrived, or not."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is None:
            return
        with contextlib.suppress(Exception):
            if connection.is_open:
                connection.close()
            while not connection.is_closed:
                if self._run(CLOSE_SECONDS):  # pika has no public method that does not wait
                    connection._adapter_disconnect_stream()  # noqa: SLF001
            self._run(0)  # only now is the socket closed
        with contextlib.suppress(Exception):
            self._loop.close()


def refused_of(
    messages: Sequence[PublishedMessage], returned: Sequence[tuple[PublishedMessage, str]]
) -> dict[int, str]:
    """Find which messages of one exchange were returned, and why, by their positions.

    Ids that rows name may be equal. Then the body tells which it was, and the headers, by which an
    exchange may decide as well.
    """
    alike: dict[tuple[str, str], list[int]] = {}
    for i, message in enumerate(messages):
        alike.setdefault((message.properties.message_id, message.routing_key), []).append(i)
    refused: dict[int, str] = {}
    for one, reason in returned:
        some = alike.get((one.properties.message_id, one.routing_key), ())
        content = one.body, one.properties.headers
        same = [i for i in some if (messages[i].body, messages[i].properties.headers) == content]
        refused |= dict.fromkeys(same or some, reason)
    return refused
