"""Values in Avro: what is written can be read, and what can't be is told."""

import datetime
import io
import struct
import time
import uuid
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.connectors.formats import AvroKeyOptions, Malformed
from support.connectors.avro_forms import EPOCH, ID, form, record, types


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("timestamp-micros", datetime.datetime(2026, 1, 31, 17), "2026-01-31 17:00:00+00:00"),  # noqa: DTZ001 (has none)
        ("local-timestamp-micros", datetime.datetime(2026, 1, 31, 17), "2026-01-31 17:00:00"),  # noqa: DTZ001 (has none)
        ("local-timestamp-micros", EPOCH, "its time zone would be lost"),
        ("time-micros", datetime.time(12, tzinfo=datetime.UTC), "its time zone would be lost"),
        ("timestamp-millis", EPOCH.replace(microsecond=1), "round it, or give the schema micros"),
        ("time-millis", datetime.time(12, 0, 0, 1000), "12:00:00.001000"),
        ("time-millis", datetime.time(12, 0, 0, 1), "round it, or give the schema micros"),
    ],
)
def test_a_time_keeps_its_moment_or_is_refused(kind, value, found, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        integer = "int" if kind == "time-millis" else "long"
        made = form(record("T", v=["null", {"type": integer, "logicalType": kind}]), fields=["v"])
        try:
            [read] = made.decode(made.encoder(["v"])([value]))
        except Malformed as error:
            read = str(error).rpartition(": ")[2]
        assert str(read) == found
    finally:
        monkeypatch.undo()
        time.tzset()


# ---- round trips ---------------------------------------------------------------------------------


@given(types(), st.data())
def test_what_is_written_is_read(kind, data):
    schema, values = kind
    value = data.draw(values)
    made = form(record("Row", n="int", value=schema), fields=["value", "n"])
    message = made.encoder(("value", "n"))([value, 3])
    assert message[:5] == struct.pack(">BI", 0, ID)
    assert made.decode(message) == [value, 3]


@given(types(), st.data())
def test_other_programs_read_what_is_written_and_write_what_is_read(kind, data):
    schema, values = kind
    value = data.draw(values)
    row, written = record("Row", value=schema, n="int"), io.BytesIO()
    made = form(row, fields=["value", "n"])
    message = made.encoder(("n", "value"))([3, value])
    found = fastavro.schemaless_reader(io.BytesIO(message[5:]), row, None)
    assert found == {"value": value, "n": 3}
    fastavro.schemaless_writer(written, row, found)
    assert message == message[:5] + written.getvalue()
    assert made.decode(message) == [value, 3]


@given(types(), st.data())
def test_a_whole_value_is_written_and_read(kind, data):
    schema, values = kind
    value = data.draw(values)
    made = form(schema, kind=AvroKeyOptions)
    assert made.decode(made.encoder(("key",))([value])) == [value]


def test_a_message_with_bytes_behind_its_record_is_malformed():
    made = form(record("Order", n="int"))
    message = made.encoder(("n",))([5])
    assert made.decode(message) == [{"n": 5}]
    with pytest.raises(Malformed, match="read with schema 7: 2 bytes are left over"):
        made.decode(message + b"ab")


@given(types(), st.binary(max_size=60))
def test_whatever_bytes_there_are_they_are_read_or_malformed(kind, body):
    made = form(record("Row", value=kind[0]), fields=["value"])
    with suppress(Malformed):
        assert len(made.decode(struct.pack(">BI", 0, ID) + body)) == 1


ANYTHING = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    *(st.decimals(), st.datetimes(), st.dates(), st.just(object())),
)


@given(
    st.recursive(ANYTHING, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    types(),
)
def test_whatever_value_there_is_it_is_written_so_that_it_can_be_read_or_malformed(value, kind):
    made = form(record("Row", value=kind[0]))
    with suppress(Malformed):
        message = made.encoder(("value",))([value])
        try:
            made.decode(message)
        except Malformed as error:
            pytest.fail(str(error))


NUMBERS = st.integers(-(10**9), 10**9) | st.builds(  # of the latter, many end with zeros
    lambda n, zeros, places: Decimal(n * 10**zeros).scaleb(-places),
    st.integers(-(10**9), 10**9) | st.integers(-99, 99),
    st.integers(0, 5),
    st.integers(-4, 8),
)


@example(Decimal("1.2500"), (4, 3))
@given(
    NUMBERS | st.decimals(),
    st.integers(1, 9).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
)
def test_a_decimal_is_written_with_all_its_digits_or_refused(number, digits):
    precision, scale = digits
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    inner = record("Inner", all={"type": "map", "values": ["null", "boolean", kind]})
    made = form(record("Row", value={"type": "array", "items": inner}), fields=["value"])
    unscaled = Fraction(number) * 10**scale if Decimal(number).is_finite() else Fraction(1, 2)
    may_be = unscaled.denominator == 1 and abs(unscaled) < 10**precision
    try:
        message = made.encoder(("value",))([[{"all": {"a": number, "b": None}}]])
    except Malformed:
        assert not may_be
    else:
        assert may_be
        assert made.decode(message) == [[{"all": {"a": number, "b": None}}]]


# ---- reading -------------------------------------------------------------------------------------


def test_fields_are_those_that_are_named_or_those_of_the_schema_or_one():
    order = record("Order", customer="string", amount="int")
    assert form(order, fields=["amount"]).fields == ("amount",)
    assert form(order, schema=order).fields == ("customer", "amount")
    assert form(order).fields == form(order, schema="string").fields == ("value",)
    assert form(order, schema=order, kind=AvroKeyOptions).fields == ("value",)


def test_a_schema_that_is_given_has_defaults_for_what_a_message_does_not_have():
    written = form(record("Order", customer="string", amount="int"))
    message = written.encoder(("customer", "amount"))(["ann", 1])
    fields = [{"name": "amount", "type": "double"}, {"name": "n", "type": "int", "default": 5}]
    given = {"type": "record", "name": "Order", "fields": fields}
    made = form(record("Order", customer="string", amount="int"), schema=given)
    assert (made.fields, made.decode(message)) == (("amount", "n"), [1.0, 5])


def test_without_its_field_a_message_is_malformed():
    made = form(record("Order", amount="int"), fields=["amount", "note"])
    with pytest.raises(Malformed) as raised:
        made.decode(b"\0\0\0\0\7\2")
    assert str(raised.value) == (
        "schema 7 has no field 'note', only ['amount']: give a `schema` that has a default for it"
    )


# ---- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("boolean", "no", "field 'Row.value': str 'no' is not boolean"),
        ("double", True, "field 'Row.value': bool True is not double"),
        ("int", 1.5, "field 'Row.value': float 1.5 is not int"),
        (
            ["null", "int", "string"],
            0.5,
            "field 'Row.value': float 0.5 is not null or int or string",
        ),
        (record("Inner", n="int"), {"n": "x"}, "field 'Row.value.Inner.n': str 'x' is not int"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            Decimal("1.234"),
            "field 'value': Decimal 1.234 is no decimal(4,2): round it, or give",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3},
            Decimal("1E+3"),
            "field 'value': Decimal 1E+3 is no decimal(4,3): it has too many digits for it",
        ),
        (
            ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3}],
            Decimal("NaN"),
            "field 'value': Decimal NaN is no decimal(4,3): Avro has numbers alone there",
        ),
        (
            {"type": "string", "logicalType": "uuid"},
            "x",
            "field 'value': badly formed hexadecimal UUID string",
        ),
        ({"type": "int", "logicalType": "date"}, "x", "field 'value': Invalid isoformat string"),
        ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=1), None),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_field(kind, value, reason):
    encode = form(record("Row", n="int", value=kind)).encoder(("n", "value"))
    if reason is None:
        assert encode([1, value])
        return
    with pytest.raises(Malformed) as raised:
        encode([1, value])
    assert str(raised.value).startswith(reason)


def test_a_schema_that_is_no_record_takes_the_only_field():
    made = form("string")
    assert made.decode(made.encoder(("customer",))(["ann"])) == ["ann"]
    with pytest.raises(Malformed, match="there is no field 'value', only"):
        made.encoder(("customer", "amount"))


def test_a_row_may_leave_out_what_has_a_default():
    order = record("Order", customer="string")
    order["fields"].append({"name": "n", "type": "int", "default": 5})
    made = form(order)
    assert made.decode(made.encoder(("customer",))(["ann"])) == [{"customer": "ann", "n": 5}]
