"""The tables of values on their page are what formats and sinks do."""

import enum
import io
import json
import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import ip_address
from uuid import UUID

import fastavro
import numpy as np
import pytest
from fastavro.read import LOGICAL_READERS
from pydantic import BaseModel

from fulmen import JSON_NULL
from fulmen.connectors.files.columns import TYPES, column
from fulmen.connectors.formats import (
    DEFAULT,
    AvroOptions,
    CsvOptions,
    Malformed,
    TextOptions,
    checked_text,
)
from fulmen.connectors.formats.avro.bounds import BoundedSchema
from fulmen.connectors.formats.avro.coding import _writer
from fulmen.connectors.formats.avro.schemas import parsed
from fulmen.connectors.formats.types import Kind, converter
from fulmen.connectors.postgres.loading import _KINDS
from fulmen.connectors.sqlite.values import value_of
from support.docs.pages import ROOT

TEXT = (ROOT / "docs/connectors/values.md").read_text(encoding="utf-8")
TEXT_OF_AVRO = (ROOT / "docs/connectors/avro.md").read_text(encoding="utf-8")
TEXT_OF_POSTGRES = (ROOT / "docs/connectors/postgres.md").read_text(encoding="utf-8")


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model(BaseModel):
    x: int


NAMES = {one.__name__: one for one in (date, datetime, time, timedelta, Decimal, UUID, ip_address)}
NAMES |= {
    "JSON_NULL": JSON_NULL,
    "UTC": UTC,
    "np": np,
    "math": math,
    "Color": Color,
    "Point": Point,
    "Model": Model,
}


def cells_of(which, text):
    """The cells of a table, row by row."""
    [table] = re.findall(rf"<!-- values: {which} -->\n\n((?:\|.*\n)+)", text)
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def rows(which):
    """The cells of a table: the first is a Python expression."""
    for first, *others in cells_of(which, TEXT):
        yield pytest.param(re.match("`(.+?)`", first)[1], others, id=first.strip("`"))


def made(write, value):
    try:
        return write(value)
    except Malformed:
        return "refused"


def shown(found):
    return found if found == "refused" else f"`{found}`"


@pytest.mark.parametrize(("expression", "cells"), list(rows("json text")))
def test_a_value_is_in_json_and_in_text_as_the_page_says(expression, cells):
    value = eval(expression, NAMES)
    text = TextOptions().make().encoder(["v"])
    found = [
        made(lambda one: DEFAULT.dumps(one).decode(), value),
        made(lambda one: text([one]).decode(), value),
    ]
    assert list(map(shown, found)) == cells
    if value is not None:
        encode = CsvOptions(type="csv", fields=["v"]).make().encoder(["v"])
        line = made(lambda one: encode([one]).decode(), value)
        assert line.replace('""', '"').strip('"') == found[1].strip('"')


AVRO = {name: f'"{name}"' for name in ("null", "boolean", "int", "long", "float", "double")}
AVRO |= {name: f'"{name}"' for name in ("string", "bytes")}
LOGICAL = {"date": "int", "time-micros": "long", "timestamp-micros": "long", "uuid": "string"}
AVRO |= {n: f'{{"type": "{of}", "logicalType": "{n}"}}' for n, of in LOGICAL.items()}
AVRO |= {
    "decimal": '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}',
    "array": '{"type": "array", "items": ["null", "long"]}',
    "map": '{"type": "map", "values": "long"}',
    "record": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}',
}
NUMBERS_OF_LOGICAL = {"date", "time-micros", "timestamp-micros"}
"""A plain number is taken for a day, or microseconds: the page does not tell people to do that."""


@pytest.mark.parametrize(("expression", "cells"), list(rows("parquet avro sqlite")))
def test_a_value_goes_to_columns_with_types_as_the_page_says(expression, cells):
    value = eval(expression, NAMES)
    kinds = [*TYPES, "decimal(9,2)"]
    parquet = [kind for kind in kinds if made(column(kind), value) != "refused"]
    if cells[0] == "all":
        assert parquet == kinds
    else:
        assert sorted(parquet) == cells[0].replace("`", "").split(" ")

    avro = {n for n, s in AVRO.items() if made(_writer(1, parsed(s)), value) != "refused"}
    if isinstance(value, int | np.integer):
        avro -= NUMBERS_OF_LOGICAL
    if isinstance(value, bytes):
        avro -= {"decimal", "array"}
    assert sorted(avro) == cells[1].replace("`", "").split(" ")

    found = made(value_of, value)
    said = cells[2].strip("`")
    wanted = said if said == "refused" else eval(said, NAMES)
    assert found == wanted
    assert type(found) is type(wanted)


def test_the_page_lists_all_types_and_their_texts_are_of_them():
    [table] = re.findall(r"\| type \| what it makes .*\n\|.*\n((?:\|.*\n)+)", TEXT)
    found = []
    for line in table.splitlines():
        kinds, _, texts = (cell.strip() for cell in line.strip("|").split(" | "))
        kinds = re.findall("`(.+?)`", kinds)
        found += kinds
        for kind in kinds:
            for text in re.findall("`(.+?)`", texts):
                assert converter(kind)(text) is not None
    assert sorted(found) == sorted(Kind.__args__)


def test_text_is_checked_for_halves_of_pairs():
    with pytest.raises(Malformed, match="lone surrogate"):
        checked_text("\ud800")


OF_AVRO = {
    name: ({"type": kind, "logicalType": name}, number)
    for name, kind, number in [
        ("date", "int", 20_000),
        ("time-millis", "int", 1500),
        ("time-micros", "long", 1500),
        *(
            (f"{where}timestamp-{unit}", "long", 10**12)
            for where in ("", "local-")
            for unit in ("millis", "micros", "nanos")
        ),
    ]
}
OF_AVRO |= {
    "null": ("null", None),
    "boolean": ("boolean", True),
    "int": ("int", 7),
    "long": ("long", 7),
    "float": ("float", 1.5),
    "double": ("double", 1.5),
    "string": ("string", "a"),
    "bytes": ("bytes", b"a"),
    "fixed": ({"type": "fixed", "name": "F", "size": 1}, b"a"),
    "record": (
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]},
        {"x": 1},
    ),
    "map": ({"type": "map", "values": "int"}, {"x": 1}),
    "array": ({"type": "array", "items": "int"}, [1]),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3}, b"\x07"),
    "uuid in string": ({"type": "string", "logicalType": "uuid"}, str(UUID(int=7))),
    "uuid in fixed": (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        UUID(int=7).bytes,
    ),
    "duration": (
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        bytes(12),
    ),
}
"""Types of Avro by their names on the page, each with a value of the type that holds it."""


def read_from_avro():
    """Each type that the page names, with what the page says of it."""
    for names, said in cells_of("read from avro", TEXT_OF_AVRO):
        for name in [" in ".join(re.findall("`(.+?)`", one)) for one in names.split(", ")]:
            if name:
                yield pytest.param(name, said, id=name)


def without_logical(schema):
    """The type that holds the values of a logical one."""
    if isinstance(schema, dict):
        return {key: value for key, value in schema.items() if key != "logicalType"}
    return schema


@pytest.mark.parametrize(("name", "said"), list(read_from_avro()))
def test_a_source_makes_of_a_type_of_avro_what_its_page_says(name, said):
    schema, held = OF_AVRO[name]
    body = io.BytesIO(struct.pack(">BI", 0, 1))
    body.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(body, parsed(json.dumps(without_logical(schema))), held)
    options = AvroOptions.model_validate({"type": "avro", "schema.registry.url": "http://r"})
    reader = options.make()
    reader._registry.schemas[1] = BoundedSchema(parsed(json.dumps(schema)))
    [value] = reader.decode(body.getvalue())
    kind, *rest = said.partition("`")[2].partition("`")
    if value is None:
        assert kind == "None"
    else:
        assert type(value).__name__ == kind.rpartition(".")[2]
    if isinstance(value, datetime):
        zone = {UTC: "in UTC", None: "without a time zone"}[value.tzinfo]
        assert zone in rest[-1]


def test_the_page_names_each_type_of_avro():
    named = {param.values[0] for param in read_from_avro()}
    assert named == OF_AVRO.keys()
    own = [name for name, reader in LOGICAL_READERS.items() if "fastavro" in reader.__module__]
    readers = {name.partition("-")[2] for name in own}  # Kafka's client may have added some
    assert readers <= {name.partition(" ")[0] for name in named}


def test_columns_of_postgres_have_the_types_that_its_page_says():
    found = {
        name: tuple(re.findall("`(.+?)`", re.sub(r"\(.+?\)(?= |$)", "", columns)))
        for names, columns in cells_of("columns of postgres", TEXT_OF_POSTGRES)
        for name in re.findall("`(.+?)`", names)
    }
    assert found == _KINDS
