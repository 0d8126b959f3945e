"""Messages in Avro that would end the process, or fill its memory, are malformed."""

import io
import json
from contextlib import suppress

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.connectors.formats import AvroKeyOptions, Malformed
from fulmen.connectors.formats.avro.bounds import BoundedSchema
from fulmen.connectors.formats.avro.schemas import parsed
from support.connectors.avro_forms import ID, form, record, types

HEAD = b"\0" + ID.to_bytes(4, "big")
LIST = record("List", n="int", next=["null", "List"])
TREE = record("Tree", children={"type": "array", "items": "Tree"})
TREE_OF_NAMES = record("Names", children={"type": "map", "values": "Names"})
ENDLESS = record("Endless", next="Endless")
NULLS = record("Nulls", n="int", nulls={"type": "array", "items": "null"})
NOTHING = record("Nothing")
NOTHINGS = record("Row", all={"type": "array", "items": NOTHING})
FIXED = {"type": "fixed", "name": "F", "size": 0}
MANY = {f"n{i}": "null" for i in range(1000)}
WIDE = record("Row", all={"type": "array", "items": record("Wide", a="boolean", **MANY)})
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def number(n):
    n, found = (n << 1) ^ (n >> 63), b""
    while n > 127:
        found, n = found + bytes([n & 127 | 128]), n >> 7
    return found + bytes([n])


def doubled(times):
    """A record of two records of two records, and so on: 2**times nulls."""
    schema = record("R0", a="null", b="null")
    for i in range(1, times):
        schema = record(f"R{i}", a=schema, b=f"R{i - 1}")
    return schema


def read(schema, body, /, **options):
    return form(schema, kind=AvroKeyOptions, **options).decode(HEAD + body)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        pytest.param(LIST, (b"\2" * 2) * 5000 + b"\2\0", id="list"),
        pytest.param(TREE, b"\2" * 100_000 + b"\0" * 100_000, id="tree"),
        pytest.param(TREE, b"\1\2" * 100_000, id="tree-with-sizes"),
        pytest.param(TREE_OF_NAMES, b"\2\2a" * 100_000, id="tree-of-names"),
        pytest.param(ENDLESS, b"", id="endless"),
    ],
)
def test_what_is_nested_too_deeply_is_malformed(schema, body):
    with pytest.raises(Malformed, match="nested more than 250 levels deep"):
        read(schema, body)


def test_what_is_nested_less_deeply_is_read():
    [value] = read(LIST, b"\2\2" * 249 + b"\2\0")
    for _ in range(250):
        value = value["next"]
    assert value is None


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        pytest.param(NULLS, b"\2" + number(4_000_000_000) + b"\0", id="nulls"),
        pytest.param(NULLS, b"\2" + number(-(2**62)) + b"\0\0", id="nulls-with-size"),
        pytest.param(NULLS, b"\2" + number(6000) * 5 + b"\0", id="blocks-of-nulls"),
        pytest.param(NOTHINGS, number(10**9) + b"\0", id="records-without-fields"),
        pytest.param({"type": "array", "items": FIXED}, number(10**9) + b"\0", id="fixed"),
        pytest.param(WIDE, number(5000) + b"\1" * 5000 + b"\0", id="wide-records"),
        pytest.param(doubled(40), b"", id="doubled"),
    ],
)
def test_what_has_too_many_values_is_malformed(schema, body):
    with pytest.raises(Malformed, match="it says that it has more than"):
        read(schema, body)


def test_what_has_fewer_values_is_read():
    assert read(NULLS, b"\2" + number(9000) + b"\0") == [{"n": 1, "nulls": [None] * 9000}]
    [found] = read(WIDE, number(10) + b"\1" * 10 + b"\0")
    assert len(found["all"]) == 10
    assert len(read(doubled(12), b"")[0]) == 2


def test_fields_that_are_left_out_are_bounded_too():
    body = b"\2" + number(4_000_000_000) + b"\0"
    with pytest.raises(Malformed, match="it says that it has more than"):
        read(NULLS, body, schema=record("Nulls", n="int"))


def test_a_decimal_of_a_megabyte_is_malformed():
    with pytest.raises(Malformed, match="a decimal of 1,000,000 bytes"):
        read(DECIMAL, number(1_000_000) + b"\x7f" * 1_000_000)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\2" + b"\x82" + b"\x80" * 9 + b"\1", "more than 64 bits"),
        (b"\2" + b"\1", "a union has no type -1"),
    ],
)
def test_what_fastavro_would_take_for_something_else_is_malformed(body, reason):
    with pytest.raises(Malformed, match=reason):
        read(LIST, body)


@given(types(depth=3), st.data())
def test_what_is_written_keeps_to_the_bounds(kind, data):
    schema, values = kind
    body, schema = io.BytesIO(), parsed(json.dumps(schema))
    fastavro.schemaless_writer(body, schema, data.draw(values))
    BoundedSchema(schema).check(body.getvalue(), 0)


@given(st.sampled_from([LIST, TREE, TREE_OF_NAMES, NULLS, NOTHINGS]), st.binary(max_size=40))
def test_any_bytes_are_read_or_malformed(schema, body):
    with suppress(Malformed):
        read(schema, body)
