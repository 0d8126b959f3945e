"""Topics with messages in Avro, written and read by Confluent's own serializers."""

import json

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fulmen.connectors.kafka import KafkaSink, KafkaSinkOptions, KafkaSpout, KafkaSpoutOptions
from support.lives.sink_lives import SinkLife
from support.lives.spout_lives import SpoutLife


def record(*fields, name="Order"):
    """The schema of one."""
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


CUSTOMER = {"name": "customer", "type": "string"}
AMOUNT = {"name": "amount", "type": "int"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
ORDER = record(CUSTOMER, AMOUNT)
NOTED = record(CUSTOMER, AMOUNT, NOTE)
FIELDS = ("customer", "amount")
JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
"""One that is not of Avro."""


class AvroTopic:
    """A topic of a real broker, and what a test does with it.

    Attributes:
        name: The topic's.
        subject: Of the schemas of its values.
    """

    def __init__(self, kafka, registry, name):
        self._kafka, self._registry, self._lives = kafka, registry, []
        self.name, self.subject = name, f"{name}-value"
        kafka.make_topic(name)

    def form(self, **more):
        """The `format` of a connector."""
        return {"type": "avro", "schema.registry.url": self._registry.url} | more

    def encoded(self, schema, *values):
        """Messages, as users of Confluent's client make them."""
        with self._registry.client() as client:
            serializer = AvroSerializer(client, json.dumps(schema))
            context = SerializationContext(self.name, MessageField.VALUE)
            return [serializer(value, context) for value in values]

    def send(self, schema, *values):
        """Append messages."""
        self._kafka.produce(self.name, self.encoded(schema, *values))

    def read(self, part="value"):
        """The keys or values that users of Confluent's client get."""
        field = MessageField.KEY if part == "key" else MessageField.VALUE
        context = SerializationContext(self.name, field)
        with self._registry.client() as client:
            deserializer = AvroDeserializer(client)
            return [
                deserializer(getattr(message, part)(), context)
                for message in self._kafka.read(self.name)
            ]

    def config(self, form, **more):
        """The `config` of a component that reads or writes it."""
        given = {"bootstrap.servers": self._kafka.address, "topic": self.name}
        return given | {"format": form} | more

    def spout(self, form, **more):
        """A task of a spout."""
        options = KafkaSpoutOptions.model_validate(self.config(form, **more))
        life = SpoutLife(KafkaSpout, options)
        self._lives.append(life.close)
        return life

    def sink_options(self, form, **more):
        """The options of a sink."""
        return KafkaSinkOptions.model_validate(self.config(form, **more))

    def sink(self, form, fields=FIELDS, **more):
        """A task of a sink that has started."""
        life = SinkLife(KafkaSink, self.sink_options(form, **more), fields, name=self.name)
        self._lives.append(lambda: life.sink.cleanup())
        return life

    def close(self):
        """End what was made."""
        for end in self._lives:
            end()


def rows(emitted, stream="default"):
    """The values that were emitted on a stream."""
    return [row for row, on, _ in emitted if on == stream]
