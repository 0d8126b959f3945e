"""What a source reads and a sink can't write is a mistake in the topology's file."""

import pytest

from fulmen.api import Stream
from fulmen.connectors.files import FileSink
from fulmen.connectors.formats import AvroOptions
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import check

TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: planes}
spec:
  spouts:
    - {name: planes, class: fulmen.connectors.files.FileSpout, config: {path: a, format: %s}}
  bolts:
    - name: written
      class: fulmen.connectors.files.%s
      inputs: [{from: planes, stream: %s, grouping: {type: shuffle}}]
      config: {path: b, format: {type: parquet, columns: {%s}}}
"""
YEARS = "{type: csv, fields: [year, name]}"


def told(form, columns, sink="FileSink", stream="default"):
    document = parse_yaml(TOPOLOGY % (form, sink, stream, columns))
    return [(problem.path, problem.message) for problem in check(document, None).problems]


@pytest.mark.parametrize("sink", ["FileSink", "RollingFileSink"])
def test_text_of_csv_for_a_column_of_numbers_is_told_with_its_cure(sink):
    [(path, message)] = told(YEARS, "year: int32, name: string", sink)
    assert path == "spec.bolts[0].inputs[0]"
    assert message == (
        "bolt 'written', input from 'planes': field 'year' is string, which is no int32. Give it"
        " that type where it is read: `fields: {year: int32}` of the format"
    )


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ("{type: csv, fields: {year: int32}}", "year: int32"),
        ("{type: csv, fields: {year: int64}}", "year: int32"),  # it depends on the values
        ("{type: csv, fields: {year: int32}}", "year: float64"),
        ("{type: csv, fields: {year: date32}}", "year: string"),
        ("{type: csv, fields: {amount: decimal}}", "'amount': 'decimal(9,2)'"),
        ("{type: json, fields: [year]}", "year: int32"),  # JSON may have numbers
    ],
)
def test_what_may_fit_is_valid(form, columns):
    assert told(form, columns) == []


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ("{type: csv, fields: {at: timestamp}}", "at: date32"),
        ("{type: csv, fields: {speed: float64}}", "speed: int32"),
        ("{type: json, fields: {at: timestamp}}", "at: int64"),
        ("{type: text}", "value: int64"),
        ("{type: bytes}", "value: bool"),
    ],
)
def test_what_can_never_fit_is_told(form, columns):
    [(_, message)] = told(form, columns)
    assert "which is no " in message


PARQUET = TOPOLOGY.replace("FileSpout, config: {path: a, format: %s}", "ParquetSpout, config: %s")


def test_types_of_parquet_are_compared_as_well(monkeypatch):
    monkeypatch.setitem(globals(), "TOPOLOGY", PARQUET)
    fields = "{path: a, fields: {year: %s}}"
    [(_, message)] = told(fields % "string", "year: int32")
    assert "field 'year' is string, which is no int32" in message
    assert told(fields % "int64", "year: int32") == []
    assert told(fields % "'decimal(9,2)'", "'year': 'decimal(12,2)'") == []
    assert told("{path: a, fields: [year]}", "year: int32") == []
    assert "there is no type 'integer'" in str(told(fields % "integer", "year: int32"))


def test_the_stream_of_errors_has_types():
    assert told(YEARS, "data: binary, reason: string, position: string", stream="errors") == []
    [(_, message)] = told(YEARS, "data: int32", stream="errors")
    assert "field 'data' is binary, which is no int32" in message


AVRO = {
    "type": "record",
    "name": "Plane",
    "fields": [{"name": "year", "type": ["null", "int"]}, {"name": "name", "type": "string"}],
}


@pytest.mark.parametrize(
    ("kind", "mistaken"), [("string", True), ("int64", False), ("json", False), ("uuid", True)]
)
def test_a_schema_of_avro_is_compared_as_well(kind, mistaken):
    form = {"type": "avro", "schema.registry.url": "http://registry", "schema": AVRO}
    stream = Stream(("year", "name"), types={"year": kind, "name": "uuid"})
    found = list(AvroOptions.model_validate(form).mistakes(stream))
    assert bool(found) == mistaken
    assert all("field 'year' is" in message for message in found)


@pytest.mark.parametrize(
    ("method", "who"),
    [("check_input", "bolt 'written', input from 'planes'"), ("check_inputs", "bolt 'written'")],
)
def test_a_check_that_raises_is_a_mistake_of_its_component(monkeypatch, method, who):
    def raises(self, options, found):
        raise KeyError("oops")

    monkeypatch.setattr(FileSink, method, raises)
    [(_, message)] = told(YEARS, "name: string")
    assert message == f"{who}: {method} raised KeyError: 'oops'"
