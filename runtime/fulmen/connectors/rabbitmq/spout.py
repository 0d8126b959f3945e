"""A queue of RabbitMQ as a source.

The broker forgets a message when Fulmen has acked it, and hands it out again when the connection is
lost before. So this spout is pinned: acks belong to its connection, which the driver holds. What
the checkpoint has are the message ids of what is in flight and of what was acked lately. A message
that comes again is told by its id, and is not emitted again: it takes the place of the one that is
in flight, or is acked at once. A message without an id is emitted again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import MessageId
from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.declarer import Stream
from fulmen.connectors.base.redealing import heir_of, refuse_own_fields
from fulmen.connectors.base.source import MessageSource
from fulmen.connectors.formats import Malformed
from fulmen.connectors.options import Options
from fulmen.connectors.rabbitmq.consumer import Consumer, Delivery
from fulmen.connectors.rabbitmq.options import MOST_PREFETCHED, RabbitSpoutOptions
from fulmen.services.rabbitmq import Broker

PREFETCHED = 1000
"""If neither the spout's options nor the topology say how many."""
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


class RabbitSpout(MessageSource):
    """Emits the messages of a queue, and acks them when their trees were acked."""

    pinned = True
    config_model: ClassVar[type[Options]] = RabbitSpoutOptions
    durable = ("ended", "sequence")
    options: RabbitSpoutOptions

    def __init__(self) -> None:
        super().__init__()
        self.ended = 0
        self.sequence = 0

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        # the broker hands out to any task what it has not heard the ack of: so all of them know it
        refuse_own_fields(cls, kept, RabbitSpout.durable)
        acked = {key: at for one in kept for key, at in one.state.items() if at > 0}
        ended, sequence = (
            max((one.fields.get(name, 0) for one in kept), default=0)
            for name in ("ended", "sequence")
        )
        dealt = [
            Kept({"ended": ended, "sequence": sequence}, dict(acked), []) for _ in range(tasks)
        ]
        for task, one in enumerate(kept):
            heir, failed = dealt[heir_of(task, tasks)], {*one.failed}
            heir.state |= {key: at for key, at in one.state.items() if key in failed - acked.keys()}
            heir.failed += one.failed
        return dealt

    @override
    def stream(self, options: RabbitSpoutOptions) -> Stream:
        return options.format.make().stream(*options.properties)

    @override
    def connect(self) -> None:
        """Connect, and look at the queue. Messages come when there is a turn."""
        context = self.context
        title = f"{context.topology} {context.component} {context.task_index}"
        self._broker = Broker(self.options.url, self.options.heartbeat, title)
        self.format = self.options.format.make()
        self.format.connect()
        self._held: dict[MessageId, _Held] = {}
        self._retry = self.due(PAUSE_SECONDS)
        acked = sorted((number, key) for key, number in self.state.items() if number > 0)
        self._remembered = deque(key for _, key in acked)
        self._consumer: Consumer | None = self._new_consumer()

    def _new_consumer(self) -> Consumer:
        limit = min(self.context.max_spout_pending or PREFETCHED, MOST_PREFETCHED)
        return Consumer(self._broker, self.options, self.options.prefetch_count or limit)

    @override
    def begin_turn(self) -> bool:
        """Have a connection, perhaps a new one. False: it is too early for the next try."""
        consumer = self._consumer
        if consumer is not None and consumer.error is not None:
            self._consumer = None
            self._held.clear()  # all of it will come again
            self.failed.clear()
            self._retry.later()
            raise self._broker.unavailable(consumer.error)
        if consumer is None:
            if not self._retry.take():
                return False
            consumer = self._consumer = self._new_consumer()
        if consumer.ident is None:
            consumer.start()
        if self.lag_due.take():
            in_queue = consumer.ready if self.context.task_index == 0 else 0  # one for all of them
            self.context.lag(messages=in_queue + consumer.here)
        return True

    @override
    def emit_next(self) -> bool:
        """Emit the next message that the broker has handed out."""
        consumer = self._consumer
        while consumer is not None and (delivery := consumer.take()) is not None:
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

    @override
    def emit_again(self, msg_id: MessageId) -> None:
        self._emit(msg_id, self._held[msg_id].delivery)

    def _id_of(self, delivery: Delivery) -> MessageId:
        """A name for a message that it has again when it comes again, if it has a message id.

        The body is part of it: there are publishers whose ids are not unique.
        """
        own = delivery.properties.message_id
        if own:
            digest = hashlib.blake2b(delivery.body, digest_size=8).hexdigest()
            msg_id = f"{own} {digest}"
            is_known = msg_id in self.state
            if not is_known or delivery.method.redelivered or self.options.drop_repeats:
                return msg_id
        self.sequence += 1
        return self.sequence

    def _emit(self, msg_id: MessageId, delivery: Delivery) -> None:
        if isinstance(msg_id, str):
            self.state[msg_id] = IN_FLIGHT
        try:
            self.emit_message(msg_id, delivery)
        except ServiceUnavailable as error:  # its schema can't be had now
            self.fail(msg_id, str(error))
            raise

    @override
    def decode(self, msg_id: MessageId, message: Delivery) -> list[Any]:
        values = self.format.decode(message.body)
        for name in self.options.properties:
            source = message.method if name in OF_DELIVERY else message.properties
            value = getattr(source, name)
            if isinstance(value, Malformed):
                raise value
            values.append(value)
        return values

    @override
    def data_of(self, message: Delivery) -> bytes:
        return message.body

    @override
    def place_of(self, msg_id: MessageId, message: Delivery) -> str:
        return f"{self.options.queue}: {message.properties.message_id or msg_id}"

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
        while len(self._remembered) > self.options.remembered_ids:
            self.state.pop(self._remembered.popleft(), None)

    @override
    def fail(self, msg_id: MessageId, reason: str) -> None:
        """Emit the message again: now if it is here, or else when the broker hands it out."""
        if self.state.get(msg_id, IN_FLIGHT) > 0:
            return
        if isinstance(msg_id, str):
            self.state[msg_id] = AGAIN
        if msg_id in self._held:
            super().fail(msg_id, reason)

    @override
    def close(self) -> None:
        """Give back to the queue what is not acked."""
        if self._consumer is not None:
            self._consumer.close()
