"""Rows written in Avro, with a real schema registry, and read by Confluent's clients."""

import zlib

import pytest

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.kafka import KafkaSink
from fulmen.errors import FulmenError
from support.connectors.avro_topics import (
    AMOUNT,
    CUSTOMER,
    FIELDS,
    JSON_SCHEMA,
    NOTED,
    ORDER,
    record,
)
from support.lives.sink_lives import prepared


def test_rows_are_written_as_confluents_clients_read_them(avro):
    life = avro.sink(avro.form(schema=NOTED))
    assert life.write(("ann", 1), ("bob", -2)) == {}
    assert life.write(("eve", 3), number=1) == {}
    assert avro.read() == [
        {"customer": "ann", "amount": 1, "note": None},
        {"customer": "bob", "amount": -2, "note": None},
        {"customer": "eve", "amount": 3, "note": None},
    ]


def test_without_a_schema_rows_are_written_with_the_subjects_latest(avro, registry):
    for schema in (record(AMOUNT), ORDER):
        registry.register(avro.subject, schema)
    assert avro.sink(avro.form()).write(("ann", 1)) == {}
    assert avro.read() == [{"customer": "ann", "amount": 1}]


def test_rows_that_do_not_fit_are_refused_with_field_and_reason(avro):
    life = avro.sink(avro.form(schema=NOTED), fields=("customer", "amount", "note"))
    wrong = [("ann", "many", None), (None, 1, None), ("bob", 2**31, None), ("eve", 1, 7)]
    items, refused = life.encoded(*wrong, ("ann", 1, "n"))
    assert len(items) == 1
    assert refused == {
        0: "field 'shop.Order.amount': str 'many' is not int",
        1: "field 'shop.Order.customer': null is not string",
        2: f"field 'shop.Order.amount': int {2**31} is not int",
        3: "field 'shop.Order.note': int 7 is not null or string",
    }


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"schema": record(CUSTOMER)}, "the schema shop.Order has no field 'amount', only"),
        (
            {"schema": record(CUSTOMER, AMOUNT, {"name": "n", "type": "int"})},
            "the schema shop.Order has the field 'n' without a default, but the fields are",
        ),
        ({"schema": ORDER, "fields": ["customer", "amount", "x"]}, "there is no field 'x', only"),
    ],
)
def test_a_sink_whose_rows_cannot_fit_its_schema_does_not_start(avro, form, text):
    who = f"bolt 'sink': in what it receives from 'source', {text}"
    with pytest.raises(FulmenError, match=who):
        avro.sink(avro.form(**form))


def test_a_subject_is_named_as_the_strategy_says(kafka, avro, registry):
    kafka.make_topic(f"{avro.name}-2")
    by_record = {"subject.name.strategy": "RecordNameStrategy"}
    schema = record(CUSTOMER, AMOUNT, name=f"Of{zlib.crc32(avro.name.encode())}")
    avro.sink(avro.form(schema=schema, **{"subject.name.strategy": "TopicRecordNameStrategy"}))
    avro.sink(avro.form(schema=schema, subject=f"{avro.name}-own"))
    fields = ("customer", "amount", "to")
    several = avro.sink(avro.form(schema=schema, **by_record), fields=fields, topicField="to")
    assert several.write(("ann", 1, None), ("bob", 2, f"{avro.name}-2")) == {}
    assert len(kafka.read(f"{avro.name}-2")) == 1
    with registry.client() as client:
        found = set(client.get_subjects())
    name = f"shop.{schema['name']}"
    assert {f"{avro.name}-{name}", f"{avro.name}-own", name} <= found
    assert avro.subject not in found


def test_a_schema_is_registered_only_if_it_may_be(avro, registry):
    careful = avro.sink_options(avro.form(schema=ORDER, **{"auto.register.schemas": False}))
    with pytest.raises(ServiceUnavailable) as raised:
        prepared(KafkaSink, careful, FIELDS)
    assert raised.value.reason == (
        f"subject '{avro.subject}' has no such schema as `schema`: register it, or write"
        " `auto.register.schemas: true`"
    )
    registry.register(avro.subject, ORDER)
    prepared(KafkaSink, careful, FIELDS).cleanup()
    registry.compatible(avro.subject)
    other = avro.sink_options(avro.form(schema=record(CUSTOMER, {**AMOUNT, "type": "string"})))
    with pytest.raises(
        ValueError, match=f"compatible with those that subject '{avro.subject}' has"
    ):
        prepared(KafkaSink, other, FIELDS)


def test_a_subject_that_is_not_there_or_not_of_avro_is_told(avro, registry):
    with pytest.raises(ServiceUnavailable) as raised:
        prepared(KafkaSink, avro.sink_options(avro.form()), FIELDS)
    assert str(raised.value) == (
        f"the schema registry at {registry.url} is away: there is no subject '{avro.subject}':"
        " register a schema, give one as `schema`, or mend `subject`"
    )
    registry.register(avro.subject, JSON_SCHEMA, "JSON")
    text = f"the latest schema of subject '{avro.subject}' is of the type JSON, not AVRO"
    with pytest.raises(ValueError, match=text):
        prepared(KafkaSink, avro.sink_options(avro.form()), FIELDS)
