"""What a topology's file may say of Kafka."""

import pytest
from pydantic import ValidationError

from fulmen.api import Stream
from fulmen.connectors.kafka import (
    KafkaSink,
    KafkaSinkOptions,
    KafkaSpout,
    KafkaSpoutOptions,
    OpaqueTransactionalKafkaSpout,
    TransactionalKafkaSpout,
    TransactionalKafkaSpoutOptions,
)

LEAST = {"bootstrap.servers": "broker:9092", "topic": "orders"}
CSV = {"type": "csv", "fields": ["offset"]}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"start": "timestamp"}, "`start: timestamp` needs `startTimestamp`"),
        ({"startTimestamp": "2030-01-31T12:00:00Z"}, "`startTimestamp` needs `start: timestamp`"),
        ({"start": "group"}, "`start: group` needs `group.id`"),
        ({"format": {"type": "csv"}}, "`format` has no fields: name those of the CSV"),
        ({"include": ["offset"], "format": CSV}, "there are two fields 'offset'"),
        ({"tombstones": "deleted"}, r"needs the key of what is deleted: write `include: \[key\]`"),
        ({"topic": "or ders"}, "String should match pattern"),
        ({"refreshSeconds": 0}, "greater than 0"),
        ({"properties": {"enable.auto.commit": True}}, "'enable.auto.commit' can't be set: pos"),
        ({"properties": {"auto.offset.reset": "latest"}}, "`start` says where to begin"),
        ({"properties": {"group.id": "g"}}, "'group.id' is an option of its own"),
        ({"bootstrap.servers": "app:hunter2@broker"}, "A login goes into `sasl.username`"),
    ],
)
def test_options_of_a_spout_must_fit_together(config, text):
    with pytest.raises(ValidationError, match=text):
        KafkaSpoutOptions.model_validate(LEAST | config)


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "transactional.id"])
def test_what_a_sinks_guarantee_rests_on_cannot_be_set(name):
    with pytest.raises(ValidationError, match=f"'{name}' can't be set"):
        KafkaSinkOptions.model_validate(LEAST | {"properties": {name: "all"}})


def test_fields_are_those_of_the_format_and_then_the_included_ones():
    json = {"type": "json", "fields": ["user", "url"]}
    options = KafkaSpoutOptions.model_validate(LEAST | {"format": json, "include": ["key"]})
    assert KafkaSpout().outputs_for(options) == {
        "default": Stream(("user", "url", "key")),
        "errors": Stream(("data", "reason", "position")),
    }


def test_the_last_field_tells_tombstones_if_that_is_asked_for():
    config = {"include": ["key"], "tombstones": "deleted"}
    options = KafkaSpoutOptions.model_validate(LEAST | config)
    assert options.fields == ("value", "key", "deleted")
    assert KafkaSpout().outputs_for(options)["default"] == Stream(("value", "key", "deleted"))


def test_a_sink_that_deletes_needs_keys():
    with pytest.raises(ValidationError, match="`deletedField` needs `keyField`"):
        KafkaSinkOptions.model_validate(LEAST | {"deletedField": "deleted"})


def test_a_spout_reads_all_that_is_committed_unless_it_is_told_otherwise():
    options = KafkaSpoutOptions.model_validate(LEAST)
    assert (options.start, options.isolation_level) == ("earliest", "read_committed")
    assert options.fields == ("value",)


@pytest.mark.parametrize("kind", [TransactionalKafkaSpout, OpaqueTransactionalKafkaSpout])
def test_the_first_field_of_a_transactional_spout_is_the_attempt(kind):
    json = {"type": "json", "fields": ["user", "url"]}
    options = kind.config_model.model_validate(LEAST | {"format": json, "include": ["key"]})
    outputs = kind().outputs_for(options)
    assert {name: stream.fields for name, stream in outputs.items()} == {
        "default": ("tx", "user", "url", "key"),
        "errors": ("tx", "data", "reason", "position"),
    }
    assert options.max_messages == 1_000


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"format": {"type": "json", "fields": ["tx"]}}, "the field 'tx' is the attempt of"),
        ({"maxMessages": 0}, "greater than or equal to 1"),
        ({"start": "group"}, "`start: group` needs `group.id`"),
    ],
)
def test_options_of_a_transactional_spout_must_fit_together(config, text):
    with pytest.raises(ValidationError, match=text):
        TransactionalKafkaSpoutOptions.model_validate(LEAST | config)


def test_passwords_are_in_no_text():
    secret = {"sasl.password": "s3cret", "properties": {"ssl.key.password": "s3cret"}}
    for kind in (TransactionalKafkaSpoutOptions, KafkaSinkOptions):
        assert "s3cret" not in repr(kind.model_validate(LEAST | secret))
        with pytest.raises(ValidationError) as raised:
            kind.model_validate(LEAST | secret | {"topic": 7})
        assert "s3cret" not in str(raised.value)


def test_a_sink_writes_at_least_once_unless_it_is_told_otherwise():
    assert KafkaSinkOptions.model_validate(LEAST).guarantee == KafkaSink.guarantees[0]
