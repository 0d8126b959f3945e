"""Messages in Avro, as Confluent's clients write them: a schema's id, and then the values.

`options` is what a topology's file says, `registry` asks the schema registry, `coding` turns
messages into values and back, `schemas` knows Avro's schemas. Uses Confluent's client of the
registry and fastavro, which are the extra `avro`; only `schemas` and `registry` import them, and
are themselves imported when a topology says `type: avro`.
"""

from fulmen.connectors.formats.avro.options import (
    AvroKeyOptions,
    AvroOptions,
    MessageFormatOptions,
)

__all__ = ["AvroKeyOptions", "AvroOptions", "MessageFormatOptions"]
