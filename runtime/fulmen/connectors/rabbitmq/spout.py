"""A queue of RabbitMQ as a source.

The broker forgets a message when Fulmen has acked it, and hands it out again when the connection is
lost before. So this spout is pinned: acks belong to its connection, which the driver holds. What
the checkpoint has are the message ids of what is in flight and of what was acked lately. A message
that comes again is told by its id, and is not emitted again: it takes the place of the one that is
in flight, or is acked at once. A message without an id is emitted again.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import MessageId, SpoutOutputCollector
from fulmen.api.components import Outputs, Spout
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.connectors.formats import ERRORS, Malformed, unread
from fulmen.connectors.options import Options
from fulmen.connectors.rabbitmq.consumer import Consumer, Delivery
from fulmen.connectors.rabbitmq.options import MOST_PREFETCHED, RabbitSpoutOptions
from fulmen.services.rabbitmq import Broker

PREFETCHED = 1000
"""If neither the spout's options nor the topology say how many."""
LAG_SECONDS = 1.0
PAUSE_SECONDS = 1.0
"""Before the next try to connect."""
IN_FLIGHT, AGAIN = 0, -1
"""What the state has of a message id; or a number from 1: it was acked as that one."""
OF_DELIVERY = ("exchange", "redelivered", "routing_key")


@dataclass
class _Held:
    """A message that the broker waits for acks of.

    Attributes:
        delivery: As it came last.
        tags: Of all copies that came on this connection.
    """

    delivery: Delivery
    tags: list[int] = field(default_factory=list)


class RabbitSpout(Spout):
    """Emits the messages of a queue, and acks them when their trees were acked."""

    pinned = True
    backoff = True
    config_model: ClassVar[type[Options]] = RabbitSpoutOptions
    durable = ("ended", "sequence")
    now = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.ended = 0
        self.sequence = 0

    @override
    def outputs_for(self, options: RabbitSpoutOptions) -> Outputs:
        stream = options.format.make().stream(*options.properties)
        return {"default": stream, ERRORS_STREAM: ERRORS}

    @override
    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Connect, and look at the queue. Messages come when there is a turn.

        Raises:
            ServiceUnavailable: The broker is away, or the queue is not as it must be.
        """
        self.collector, self._context = collector, context
        self._lag_at = self.now()
        self._options: RabbitSpoutOptions = context.options
        self._consumer: Consumer | None = None
        title = f"{context.topology} {context.component} {context.task_index}"
        self._broker = Broker(self._options.url, self._options.heartbeat, title)
        self._formatter = self._options.format.make()
        self._formatter.connect()
        self._held: dict[MessageId, _Held] = {}
        self._again: deque[MessageId] = deque()
        self._not_before = self.now()
        acked = sorted((number, key) for key, number in self.state.items() if number > 0)
        self._remembered = deque(key for _, key in acked)
        self._consumer = self._new_consumer()

    def _new_consumer(self) -> Consumer:
        limit = min(self._context.max_spout_pending or PREFETCHED, MOST_PREFETCHED)
        return Consumer(self._broker, self._options, self._options.prefetch_count or limit)

    @override
    def next_tuple(self) -> bool:
        """Emit a message that has failed, or the next one that the broker has handed out."""
        consumer = self._connected()
        if consumer is None:
            return False
        if self.now() >= self._lag_at:
            self._lag_at = self.now() + LAG_SECONDS
            in_queue = consumer.ready if self._context.task_index == 0 else 0  # one for all of them
            self._context.lag(messages=in_queue + consumer.here)
        if self._again:
            msg_id = self._again.popleft()
            self._emit(msg_id, self._held[msg_id].delivery)
            return True
        while (delivery := consumer.take()) is not None:
            msg_id = self._id_of(delivery)
            state = self.state.get(msg_id)
            held = self._held.get(msg_id)
            if state is not None and state > 0:  # acked, and the broker has not heard it
                consumer.ack([delivery.method.delivery_tag])
                continue
            if held is None:
                held = self._held[msg_id] = _Held(delivery)
            held.tags.append(delivery.method.delivery_tag)
            if state is None or (state == AGAIN and len(held.tags) == 1):
                self._emit(msg_id, delivery)
                return True
        return False

    def _connected(self) -> Consumer | None:
        """The consumer, perhaps a new one; None: it is too early for the next try."""
        consumer = self._consumer
        if consumer is not None and consumer.error is not None:
            self._consumer = None
            self._held.clear()  # all of it will come again
            self._again.clear()
            self._not_before = self.now() + PAUSE_SECONDS
            raise self._broker.unavailable(consumer.error)
        if consumer is None:
            if self.now() < self._not_before:
                return None
            self._not_before = self.now() + PAUSE_SECONDS
            consumer = self._consumer = self._new_consumer()
        if consumer.ident is None:
            consumer.start()
        return consumer

    def _id_of(self, delivery: Delivery) -> MessageId:
        """A name for a message that it has again when it comes again, if it has a message id.

        The body is part of it: there are publishers whose ids are not unique.
        """
        own = delivery.properties.message_id
        if own:
            digest = hashlib.blake2b(delivery.body, digest_size=8).hexdigest()
            msg_id = f"{own} {digest}"
            is_known = msg_id in self.state
            if not is_known or delivery.method.redelivered or self._options.drop_repeats:
                return msg_id
        self.sequence += 1
        return self.sequence

    def _emit(self, msg_id: MessageId, delivery: Delivery) -> None:
        if isinstance(msg_id, str):
            self.state[msg_id] = IN_FLIGHT
        try:
            values, stream = self._values(delivery), DEFAULT_STREAM
        except ServiceUnavailable as error:  # its schema can't be had now
            self.fail(msg_id, str(error))
            raise
        except BaseException as error:  # noqa: BLE001 (of any decoder)
            place = f"{self._options.queue}: {delivery.properties.message_id or msg_id}"
            values, stream = [delivery.body, str(unread(error)), place], ERRORS_STREAM
        self.collector.emit(values, stream, msg_id)

    def _values(self, delivery: Delivery) -> list[Any]:
        values: list[Any] = self._formatter.decode(delivery.body)
        for name in self._options.properties:
            source = delivery.method if name in OF_DELIVERY else delivery.properties
            value = getattr(source, name)
            if isinstance(value, Malformed):
                raise value
            values.append(value)
        return values

    @override
    def ack(self, msg_id: MessageId) -> None:
        """Ack the message at the broker."""
        held = self._held.pop(msg_id, None)
        if held is not None and self._consumer is not None:
            self._consumer.ack(held.tags)
        if not isinstance(msg_id, str) or self.state.get(msg_id, IN_FLIGHT) > 0:
            return
        self.ended += 1
        self.state[msg_id] = self.ended
        self._remembered.append(msg_id)
        while len(self._remembered) > self._options.remembered_ids:
            self.state.pop(self._remembered.popleft(), None)

    @override
    def fail(self, msg_id: MessageId, reason: str) -> None:
        """Emit the message again: now if it is here, or else when the broker hands it out."""
        if self.state.get(msg_id, IN_FLIGHT) > 0:
            return
        if isinstance(msg_id, str):
            self.state[msg_id] = AGAIN
        if msg_id in self._held:
            self._again.append(msg_id)

    @override
    def close(self) -> None:
        """Give back to the queue what is not acked."""
        if self._consumer is not None:
            self._consumer.close()
