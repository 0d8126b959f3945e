"""A sink that names a field that it does not receive, or a column that it lacks, is a mistake."""

import pytest
from click.testing import CliRunner

from fulmen.cli.main import main
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import check

TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: planes}
spec:
  spouts:
    - name: planes
      class: fulmen.connectors.files.FileSpout
      config: {path: planes.csv, follow: false, format: {type: csv, fields: [id, year]}}
  bolts:
    - name: written
      class: fulmen.connectors.%s
      inputs: [{from: planes, grouping: {type: shuffle}}]
      config: {%s}
"""
SQLITE = "path: planes.db, table: planes"
POSTGRES = "dsn: 'postgresql://localhost/planes', table: planes"
KAFKA = "bootstrap.servers: localhost, topic: planes"
RABBIT = "url: 'amqp://localhost', routingKey: planes"
REDIS = "url: 'redis://localhost', key: planes"
AVRO = "type: avro, subject: planes, schema.registry.url: 'http://localhost'"
RECORD = "{type: record, name: Plane, fields: [%s]}"
ID, YEAR, SEATS = (f"{{name: {name}, type: string}}" for name in ("id", "year", "seats"))
NO_SEATS = "there is no field 'seats', only ['id', 'year']"
NOT_MADE = (
    "column 'year' is not in create, which has 'id', 'yeer'. Add it there, or write columns:"
    " {field: column} without that field"
)
NO_KEY = (
    "key has the column 'code', but no field goes there: there is ['id', 'year']. Write columns:"
    " {field: column}, or another key"
)
NO_SOURCE = "columns has the field 'seats', but there is only ['id', 'year']. Name fields that are"
SINKS = {
    "files.FileSink": [
        ("path: a, format: {type: parquet, columns: {id: string, seats: string}}", NO_SEATS),
        ("path: a, format: {type: json, fields: [seats]}", NO_SEATS),
        ("path: a, format: {type: text}", "there is no field 'value', only ['id', 'year']"),
    ],
    "files.RollingFileSink": [("path: a, format: {type: csv, fields: [id, seats]}", NO_SEATS)],
    "console.StdoutSink": [("format: {type: csv, fields: [id, seats]}", NO_SEATS)],
    "console.TableSink": [("key: [seats]", NO_SEATS)],
    "http.HttpSink": [
        ("url: 'http://h/{seats}'", NO_SEATS),
        ("url: 'http://h/', headers: {Seats: '{seats}'}", NO_SEATS),
        ("url: 'http://h/', body: {a: ['{seats}']}", NO_SEATS),
        ("url: 'http://h/', orderBy: [seats]", NO_SEATS),
        ("url: 'http://h/', format: {type: json, fields: [seats]}", NO_SEATS),
    ],
    "redis.RedisSink": [
        (f"{REDIS}, type: list, format: {{type: bytes, field: seats}}", NO_SEATS),
        ("url: 'redis://localhost', type: stream, key: 'planes:{seats}'", NO_SEATS),
        (f"{REDIS}, type: hash, fields: [seats]", NO_SEATS),
    ],
    "rabbitmq.RabbitSink": [
        (f"{RABBIT}, messageId: '{{seats}}', format: {{type: json}}", NO_SEATS),
        (f"{RABBIT}, headers: [seats], format: {{type: json}}", NO_SEATS),
        (f"{RABBIT}, format: {{type: json, fields: [seats]}}", NO_SEATS),
        (f"{RABBIT}, format: {{{AVRO}, fields: [id, seats]}}", NO_SEATS),
    ],
    "kafka.KafkaSink": [
        (
            f"{KAFKA}, keyField: seats, format: {{type: json}}",
            "`keyField` is 'seats', but the fields are ['id', 'year']",
        ),
        (f"{KAFKA}, format: {{type: json, fields: [seats]}}", NO_SEATS),
        (
            f"{KAFKA}, partitionField: year, format: {{type: json, fields: [year]}}",
            "there is no field 'year', only ['id']",
        ),
        (
            f"{KAFKA}, format: {{{AVRO}, schema: {RECORD % ID}}}",
            "the schema Plane has no field 'year', only ['id']: name those that are to be written",
        ),
        (
            f"{KAFKA}, format: {{{AVRO}, schema: {RECORD % f'{ID}, {YEAR}, {SEATS}'}}}",
            "the schema Plane has the field 'seats' without a default, but the fields are",
        ),
    ],
    "sqlite.SqliteSink": [
        (f"{SQLITE}, create: {{id: TEXT, yeer: TEXT}}", NOT_MADE),
        (f"{SQLITE}, mode: upsert, key: [code], create: {{id: TEXT, code: TEXT}}", NO_KEY),
        (f"{SQLITE}, columns: {{id: id, seats: seats}}", NO_SOURCE),
        (
            f"{SQLITE}, create: {{id: TEXT, year: TEXT, seats: INTEGER NOT NULL}}",
            "column 'seats' of create is NOT NULL, and no field goes there: there is ['id',",
        ),
    ],
    "postgres.PostgresSink": [(f"{POSTGRES}, create: {{id: text, yeer: text}}", NOT_MADE)],
}
CASES = [(sink, *case) for sink, cases in SINKS.items() for case in cases]
RIGHT = [
    ("postgres.PostgresSink", f"{POSTGRES}, create: {{id: text, year: text, number: bigserial}}"),
    ("postgres.PostgresSink", f"{POSTGRES}, columns: {{id: name}}, create: {{name: text}}"),
    ("files.FileSink", "path: a, format: {type: parquet, columns: {year: string}}"),
    ("kafka.KafkaSink", f"{KAFKA}, keyField: id, format: {{type: text, field: year}}"),
    ("kafka.KafkaSink", f"{KAFKA}, format: {{{AVRO}, fields: [id], schema: {RECORD % ID}}}"),
    ("rabbitmq.RabbitSink", f"{RABBIT}, messageId: '{{id}}', format: {{type: json}}"),
]


def problems(sink, config):
    return [*check(parse_yaml(TOPOLOGY % (sink, config)), None).problems]


@pytest.mark.parametrize(("sink", "config", "said"), CASES)
def test_a_field_or_column_that_is_not_there_is_told_before_the_start(sink, config, said):
    [problem] = problems(sink, config)
    assert problem.path == "spec.bolts[0].inputs[0]"
    assert problem.message.startswith(f"bolt 'written', input from 'planes': {said}")
    assert problem.severity == "error"


def with_variable(value, text):
    """The same, with a variable in place of a text, in texts and in keys."""
    if isinstance(value, dict):
        return {with_variable(k, text): with_variable(item, text) for k, item in value.items()}
    if isinstance(value, list):
        return [with_variable(item, text) for item in value]
    return value.replace(text, "${NAME}") if isinstance(value, str) else value


def problems_with_variable(sink, config, text):
    document = parse_yaml(TOPOLOGY % (sink, config))
    written = document["spec"]["bolts"][0]
    written["config"] = with_variable(written["config"], text)
    assert "${NAME}" in str(document)
    return [*check(document, None).problems]


@pytest.mark.parametrize(
    ("sink", "config", "wrong"),
    [
        (sink, config, wrong)
        for sink, config, _ in CASES
        for wrong in ("seats", "code", "yeer")
        if wrong in config
    ],
)
def test_a_variable_may_stand_for_any_name_of_a_field_or_column(sink, config, wrong):
    assert problems_with_variable(sink, config, wrong) == []


@pytest.mark.parametrize(
    ("sink", "config"),
    [
        ("postgres.PostgresSink", f"{POSTGRES}, create: {{id: text, yeer: text}}"),
        ("redis.RedisSink", f"{REDIS}, type: hash, fields: [seats]"),
        ("kafka.KafkaSink", f"{KAFKA}, keyField: seats, format: {{type: json}}"),
    ],
)
def test_what_is_wrong_whatever_a_variable_stands_for_is_told(sink, config):
    [problem] = problems_with_variable(sink, config, "planes")
    assert problem == problems(sink, config)[0]


def test_options_that_fit_each_other_for_a_value_of_a_variable_are_valid():
    config = f"{POSTGRES}, mode: upsert, key: [code], columns: {{id: '${{ID}}', year: year}}"
    assert problems("postgres.PostgresSink", config) == []


@pytest.mark.parametrize(("sink", "config"), RIGHT)
def test_a_sink_that_leaves_out_fields_is_valid(sink, config):
    assert problems(sink, config) == []


def test_a_column_that_would_stay_null_is_a_warning():
    config = f"{POSTGRES}, create: {{id: text, year: text, seats: integer}}"
    [problem] = problems("postgres.PostgresSink", config)
    assert problem.severity == "warning"
    assert problem.message.endswith(
        "column 'seats' of create stays null, as no field goes there: there is ['id', 'year']."
        " Emit such a field, or give the column a DEFAULT"
    )


def test_what_a_connector_refuses_at_the_start_has_no_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "planes.yaml").write_text(TOPOLOGY % ("sqlite.SqliteSink", SQLITE))
    (tmp_path / "planes.csv").touch()
    command = ["run", "planes.yaml", "--in-process", "--until-drained"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert result.output.endswith(
        "Error: bolt 'written', task 3: prepare: table 'planes' in SQLite file"
        f" '{tmp_path}/planes.db': there is no such file. Correct the path, or let the sink make"
        " it: write create.\n"
    )
