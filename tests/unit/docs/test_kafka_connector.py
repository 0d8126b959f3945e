"""The page about Kafka: every option is there."""

import re

from fulmen.connectors.kafka import KafkaSinkOptions, TransactionalKafkaSpoutOptions
from support.docs.pages import ROOT

PAGE = "docs/connectors/kafka.md"


def test_every_option_of_kafka_is_in_a_table():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    for model in (TransactionalKafkaSpoutOptions, KafkaSinkOptions):
        for field in model.model_fields.values():
            assert f"`{field.alias}`" in rows
