"""The page about Kafka: its topology is valid, and every option is there."""

import re

from fulmen.connectors.kafka import KafkaSinkOptions, KafkaSpoutOptions
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import validate
from support.pages import ROOT, blocks

PAGE = "docs/connectors/kafka.md"


def test_every_option_of_kafka_is_in_a_table():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    for model in (KafkaSpoutOptions, KafkaSinkOptions):
        for field in model.model_fields.values():
            assert f"`{field.alias}`" in rows


def test_the_topology_of_the_page_about_kafka_is_valid(tmp_path):
    [block] = blocks(PAGE, "yaml")
    assert validate(parse_yaml(block.text), tmp_path) == []
