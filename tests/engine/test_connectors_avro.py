"""Messages in Avro as a source, with a real schema registry, written by Confluent's clients."""

import datetime
import json
import uuid
from decimal import Decimal

from confluent_kafka.schema_registry import SchemaReference

from fulmen.connectors.formats.avro import registry as registry_module
from support.connectors.avro_topics import (
    AMOUNT,
    CUSTOMER,
    JSON_SCHEMA,
    NOTE,
    NOTED,
    ORDER,
    record,
    rows,
)

UTC = datetime.UTC


def test_fields_of_a_record_become_fields_with_the_types_of_python(avro):
    logical = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "exactly": {"type": "long", "logicalType": "timestamp-micros"},
        "id": {"type": "string", "logicalType": "uuid"},
    }
    plain = {
        "size": {"type": "enum", "name": "Size", "symbols": ["S", "M"]},
        "tags": {"type": "array", "items": "string"},
        "counts": {"type": "map", "values": "long"},
        "raw": "bytes",
        "buyer": record(CUSTOMER, name="Buyer"),
        "maybe": ["null", record(AMOUNT, name="Maybe")],
    }
    order = {
        "price": Decimal("12.50"),
        "day": datetime.date(2031, 2, 3),
        "at": datetime.datetime(2031, 2, 3, 4, 5, 6, 789_000, UTC),
        "exactly": datetime.datetime(2031, 2, 3, 4, 5, 6, 789_123, UTC),
        "id": uuid.UUID(int=7),
        "size": "M",
        "tags": ["a", "b"],
        "counts": {"x": 1},
        "raw": b"\0\xff",
        "buyer": {"customer": "ann"},
        "maybe": {"amount": 3},
    }
    types = logical | plain
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    avro.send(record(*fields), order, order | {"maybe": None})
    life = avro.spout(avro.form(fields=list(types)))
    life.until_emitted(2)
    nothing = list((order | {"maybe": None}).values())
    assert rows(life.emitted) == [list(order.values()), nothing]


def test_without_fields_the_whole_record_is_one(avro):
    avro.send(ORDER, {"customer": "ann", "amount": 1})
    life = avro.spout(avro.form(), include=["offset"])
    life.until_emitted(1)
    assert rows(life.emitted) == [[{"customer": "ann", "amount": 1}, 0]]


def test_a_writers_schema_may_change_while_the_spout_runs(avro):
    avro.send(ORDER, {"customer": "ann", "amount": 1})
    plain = avro.spout(avro.form(fields=["customer", "amount"]))
    with_schema = avro.spout(avro.form(schema=record(CUSTOMER, {**AMOUNT, "type": "long"}, NOTE)))
    for life in (plain, with_schema):
        life.until_emitted(1)
    avro.send(NOTED, {"customer": "bob", "amount": 2, "note": "soon"})
    avro.send(record(NOTE, AMOUNT, CUSTOMER), {"customer": "eve", "amount": 3, "note": None})
    for life in (plain, with_schema):
        life.until_emitted(3)
    assert rows(plain.emitted) == [["ann", 1], ["bob", 2], ["eve", 3]]
    assert rows(with_schema.emitted) == [["ann", 1, None], ["bob", 2, "soon"], ["eve", 3, None]]


def test_what_cannot_be_read_goes_to_errors_with_the_reason(kafka, avro, registry):
    other = registry.register(f"{avro.name}-json", JSON_SCHEMA, "JSON")
    ids = [bytes([0, *number.to_bytes(4, "big")]) for number in (2**31, 2**31 - 1, other)]
    kafka.produce(avro.name, [b'{"a": 1}', b"\0", *ids])
    avro.send(record(AMOUNT, name="Nobody"), {"amount": 7})
    avro.send({"type": "string"}, "ann")
    avro.send(ORDER, {"customer": "ann", "amount": 1})
    life = avro.spout(avro.form(fields=["customer"]))
    life.until_emitted(8)
    assert rows(life.emitted) == [["ann"]]
    wire = "it does not begin with 0 and a schema's id, as Confluent's clients do"
    reasons = [reason for _, reason, _ in rows(life.emitted, "errors")]
    assert reasons[:2] == [wire, wire]
    assert reasons[2] == f"there can be no schema {2**31}"
    assert reasons[3] == f"its schema {2**31 - 1} is not in the schema registry at {registry.url}"
    assert reasons[4] == f"its schema {other} is of the type JSON, not AVRO"
    assert "has no field 'customer', only ['amount']: give a `schema` that has a" in reasons[5]
    assert reasons[6].startswith("it is str in schema ")
    positions = [position for _, _, position in rows(life.emitted, "errors")]
    assert positions == [f"{avro.name}[0]@{offset}" for offset in range(7)]


def test_a_message_that_a_given_schema_cannot_read_goes_to_errors(avro):
    avro.send(record(CUSTOMER), {"customer": "ann"})
    avro.send(ORDER, {"customer": "bob", "amount": 2})
    life = avro.spout(avro.form(schema=ORDER))
    life.until_emitted(2)
    assert rows(life.emitted) == [["bob", 2]]
    [(_, reason, _)] = rows(life.emitted, "errors")
    assert reason.startswith("it can't be read with schema ")
    assert "amount" in reason


def test_a_schema_may_refer_to_others(avro, registry):
    buyer = record(CUSTOMER, name="Buyer")
    registry.register(f"{avro.name}-buyer", buyer)
    reference = SchemaReference("shop.Buyer", f"{avro.name}-buyer", 1)
    order = record({"name": "buyer", "type": "shop.Buyer"}, AMOUNT)
    registry.register(avro.subject, order, references=[reference])
    assert avro.sink(avro.form(), fields=("buyer", "amount")).write(({"customer": "ann"}, 1)) == {}
    life = avro.spout(avro.form(fields=["amount", "buyer"]))
    life.until_emitted(1)
    assert rows(life.emitted) == [[1, {"customer": "ann"}]]


def test_keys_may_be_avro_too(kafka, avro, registry):
    key = {"keyField": "customer", "keyFormat": avro.form(schema="string")}
    life = avro.sink(avro.form(schema=record(AMOUNT), fields=["amount"]), **key)
    assert life.write(("ann", 1), (None, 2)) == {}
    assert (avro.read("key"), avro.read()) == (["ann", None], [{"amount": 1}, {"amount": 2}])
    assert life.encoded((7, 1))[1] == {0: "the key: int 7 is not string"}
    kafka.produce(avro.name, [b""], key=b"ann")
    source = avro.spout(avro.form(fields=["amount"]), include=["key"], keyFormat=avro.form())
    source.until_emitted(3)
    assert rows(source.emitted) == [[1, "ann"], [2, None]]
    with registry.client() as client:
        assert {f"{avro.name}-key", avro.subject} <= set(client.get_subjects())


def test_deep_messages_and_keys_go_to_errors_and_the_next_ones_are_read(kafka, avro, registry):
    list_of = record({"name": "next", "type": ["null", "shop.List"]}, name="List")
    number = registry.register(f"{avro.name}-list", json.dumps(list_of), "AVRO")
    deep = bytes([0, *number.to_bytes(4, "big")]) + b"\2" * 5000 + b"\0"
    [good] = avro.encoded(ORDER, {"customer": "ann", "amount": 1})
    kafka.produce(avro.name, [deep, good], key=good)
    kafka.produce(avro.name, [good], key=deep)
    kafka.produce(avro.name, [good], key=good)
    form = avro.form(fields=["amount"])
    life = avro.spout(form, include=["key"], keyFormat=avro.form())
    life.until_emitted(4)
    assert [(at, stream) for _, stream, (_, at) in life.emitted] == [
        *((0, "errors"), (1, "default"), (2, "errors"), (3, "default"))
    ]
    told = [reason for _, reason, _ in rows(life.emitted, "errors")]
    what = "it is nested more than 250 levels deep"
    assert told == [what, f"its key: {what}"]


def test_the_registry_is_asked_by_one_client_and_only_so_often_for_what_it_has_not(
    kafka, avro, registry, monkeypatch
):
    made, plain = [], registry_module.SchemaRegistryClient

    def client(settings):
        made.append(plain(settings))
        return made[-1]

    monkeypatch.setattr(registry_module, "SchemaRegistryClient", client)
    monkeypatch.setattr(registry_module, "ASKED_AT_ONCE", 20)
    monkeypatch.setattr(registry_module, "MOST_UNKNOWN", 60)
    unknown = [bytes([0, *(10**9 + i).to_bytes(4, "big")]) for i in range(50)]
    avro.send(NOTED, {"customer": "ann", "amount": 1})
    kafka.produce(avro.name, [*unknown, *unknown])
    avro.send(ORDER, {"customer": "ann", "amount": 2})
    life = avro.spout(avro.form(fields=["amount"]))
    life.until_emitted(102)
    assert rows(life.emitted) == [[1], [2]]
    assert len(made) == 1
    assert any("it has none of the many schemas" in report for report in life.reports)
    held = life.spout._reader._formats[0]._registry
    assert len(held._unknown) == 50
    kafka.produce(avro.name, [bytes([0, *(10**8 + i).to_bytes(4, "big")]) for i in range(15)])
    life.until_emitted(117)
    assert len(held._unknown) == 60
