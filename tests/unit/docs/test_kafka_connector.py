"""The page about Kafka: its topologies are valid, and every option is there."""

import re

import pytest

from fulmen.connectors.kafka import KafkaSinkOptions, TransactionalKafkaSpoutOptions
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import validate
from support.pages import ROOT, blocks, write_files

PAGE = "docs/connectors/kafka.md"


def test_every_option_of_kafka_is_in_a_table():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    for model in (TransactionalKafkaSpoutOptions, KafkaSinkOptions):
        for field in model.model_fields.values():
            assert f"`{field.alias}`" in rows


@pytest.mark.parametrize("block", blocks(PAGE, "yaml"), ids=str)
def test_the_topologies_of_the_page_about_kafka_are_valid(tmp_path, block):
    write_files(PAGE, tmp_path)
    assert validate(parse_yaml(block.text), tmp_path) == []
