"""RabbitMQ: a queue as a source, an exchange as a sink.

`options` has what a topology's file may say; `consumer` is a thread that reads a queue, `spout`
what becomes of its messages; `publisher` sends messages and waits until they are confirmed, `sink`
makes them of rows. Uses `api`, `formats`, `templates` and `services.rabbitmq`. Used by topologies.
"""

import fulmen.services.rabbitmq  # noqa: F401 (says so if the client is missing)
from fulmen.connectors.rabbitmq.sink import RabbitSink
from fulmen.connectors.rabbitmq.spout import RabbitSpout

__all__ = ["RabbitSink", "RabbitSpout"]
