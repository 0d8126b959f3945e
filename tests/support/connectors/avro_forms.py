"""Formats of Avro whose schema needs no registry, and schemas that are drawn with their values."""

import datetime
import json
from decimal import Decimal

from hypothesis import strategies as st

from fulmen.connectors.formats import AvroOptions
from fulmen.connectors.formats.avro.bounds import BoundedSchema
from fulmen.connectors.formats.avro.schemas import parsed

ID = 7
WHERE = {"type": "avro", "schema.registry.url": "http://127.0.0.1:1"}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def form(schema, /, kind=AvroOptions, **options):
    """A format that need not ask for schema 7: it is this one."""
    made = kind.model_validate(WHERE | options).make()
    written = parsed(json.dumps(schema))
    made._registry.schemas[ID] = BoundedSchema(written)
    made._written = ID, written
    return made


def record(name, **types):
    fields = [{"name": field, "type": kind} for field, kind in types.items()]
    return {"type": "record", "name": name, "fields": fields}


def timestamps(unit):
    """Times with so many microseconds as their unit."""
    most = 10**14 // unit
    return st.integers(-most, most).map(lambda n: EPOCH + datetime.timedelta(microseconds=n * unit))


LONGS = st.integers(-(2**63), 2**63 - 1)
LEAVES = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", LONGS),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary()),
    ("string", st.text()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 3},
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "timestamp-millis"}, timestamps(1000)),
    ({"type": "long", "logicalType": "timestamp-micros"}, timestamps(1)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
]


@st.composite
def types(draw, depth=2, name="T"):
    """A type of Avro, and a strategy for its values. Names of types begin with `name`."""
    kinds = ["leaf", "nullable", "array", "map", "record", "enum"] if depth else ["leaf"]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "record":
        fields = [draw(types(depth - 1, f"{name}{i}")) for i in range(draw(st.integers(1, 3)))]
        schema = record(name, **{f"f{i}": inner for i, (inner, _) in enumerate(fields)})
        return schema, st.fixed_dictionaries({f"f{i}": v for i, (_, v) in enumerate(fields)})
    inner, values = draw(types(depth - 1, f"{name}0"))
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(), values, max_size=3)
    if inner != "null" and not isinstance(inner, list):
        inner, values = ["null", inner], st.none() | values
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    return inner, values
