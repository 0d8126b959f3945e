"""A thread that holds a connection to RabbitMQ and reads a queue.

It answers heartbeats, whatever pauses batches make. Messages are handed over in a queue of its
own, which holds no more than the prefetch count; acks come back by a call that is made here.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import pika  # type: ignore[import-untyped]
from pika import exceptions

from fulmen.connectors.rabbitmq.headers import LenientConnection
from fulmen.connectors.rabbitmq.options import RabbitSpoutOptions
from fulmen.services.rabbitmq import Broker

TURN_SECONDS = 1.0
LAST_SECONDS = 0.01
COUNT_SECONDS = 5.0
"""How often the broker is asked how many messages are left."""


class Delivery(NamedTuple):
    """A message that the broker has handed out.

    Attributes:
        method: pika's Basic.Deliver.
        properties: pika's BasicProperties.
        body: The message.
    """

    method: Any
    properties: Any
    body: bytes


class Consumer(threading.Thread):
    """One connection, from its beginning to its end.

    Attributes:
        error: Why there is no connection any more; None: there is one.
    """

    def __init__(self, broker: Broker, options: RabbitSpoutOptions, prefetch_count: int) -> None:
        """Connect, and look at the queue. No message is taken before `start`.

        Args:
            broker: Where the queue is.
            options: Which one it is.
            prefetch_count: How many messages the broker may hand out before it has acks for them.

        Raises:
            ServiceUnavailable: The broker is away, or the queue is not as it must be.
        """
        super().__init__(name=f"fulmen-rabbitmq-{options.queue}", daemon=True)
        self._options, self._prefetch_count = options, prefetch_count
        self._deliveries: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._is_closing = False
        self.error: BaseException | None = None
        with broker.told():
            self._connection: Any = pika.BlockingConnection(
                broker.parameters, _impl_class=LenientConnection
            )
            try:
                self._channel: Any = self._connection.channel()
                self._ready = self._look_at_queue()
            except BaseException:
                self._end()
                raise

    def _look_at_queue(self) -> int:
        options = self._options
        if options.declare:
            answer = self._channel.queue_declare(
                options.queue, durable=options.durable, arguments=options.arguments
            )
        else:
            answer = self._channel.queue_declare(options.queue, passive=True)
        return int(answer.method.message_count)

    # On the thread of its own

    def run(self) -> None:
        """Consume until there is no connection any more."""
        try:
            self._channel.basic_qos(prefetch_count=self._prefetch_count)
            self._channel.add_on_cancel_callback(self._cancelled)
            self._channel.basic_consume(self._options.queue, self._received)
            self._connection.call_later(COUNT_SECONDS, self._count)
            while not self._is_closing and self.error is None and self._channel.is_open:
                self._connection.process_data_events(time_limit=TURN_SECONDS)
            self._connection.process_data_events(time_limit=LAST_SECONDS)  # acks come meanwhile
        except Exception as error:  # noqa: BLE001 (whatever it is, `error` tells of it)
            self.error = error
        if not self._channel.is_open and not self._is_closing:
            # what is done with a channel after that says only that it is closed
            why = self._channel._closing_reason  # noqa: SLF001 (pika tells it nowhere else)
            self.error = why or self.error or exceptions.ChannelClosed(0, "the channel was closed")
        self._end()

    def _received(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._deliveries.put(Delivery(method, properties, body))

    def _cancelled(self, _frame: Any) -> None:
        self.error = exceptions.ConsumerCancelled(404, "the queue was deleted")

    def _count(self) -> None:
        answer = self._channel.queue_declare(self._options.queue, passive=True)
        self._ready = int(answer.method.message_count)
        self._connection.call_later(COUNT_SECONDS, self._count)

    def _ack(self, tags: Iterable[int]) -> None:
        for tag in tags:
            self._channel.basic_ack(tag)

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    # On the thread of the task

    def take(self) -> Delivery | None:
        """A message, if there is one."""
        try:
            return self._deliveries.get_nowait()
        except queue.Empty:
            return None

    @property
    def ready(self) -> int:
        """How many messages the queue had when the broker was asked last."""
        return self._ready

    @property
    def here(self) -> int:
        """How many messages were handed out and are not taken yet."""
        return self._deliveries.qsize()

    def ack(self, tags: list[int]) -> None:
        """Tell the broker that messages are processed. If it does not hear it, they come again."""
        with contextlib.suppress(Exception):
            self._connection.add_callback_threadsafe(lambda: self._ack(tags))

    def close(self) -> None:
        """Give back what is not acked, and end."""
        self._is_closing = True
        if self.is_alive():
            with contextlib.suppress(Exception):
                self._connection.add_callback_threadsafe(lambda: None)  # wakes it up
            self.join(TURN_SECONDS * 5)
        else:
            self._end()
