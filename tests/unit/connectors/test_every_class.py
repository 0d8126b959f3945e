"""Every class that a topology's file may name: valid, planned, and run where no server is needed.

A class that is new is found here by itself, and needs an example.
"""

import importlib
import inspect
import pkgutil
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

import fulmen.connectors
import fulmen.transactional
from fulmen.api.components import Component
from fulmen.cli.main import main
from fulmen.topology.resource.spec import API_VERSION, KIND

TABLE = {"path": "rows.db", "table": "rows"}
GROWING = {"table": "rows", "column": "number", "fields": ["number"]}
KAFKA = {"bootstrap.servers": "localhost:9092", "topic": "rows"}
REDIS = {"url": "redis://localhost", "key": "rows"}
POSTGRES = {"dsn": "postgresql://localhost/shop"}
RABBIT = {"url": "amqp://localhost"}
LINES = {"path": "lines/*.txt", "follow": False}
WRITTEN = {"path": "out", "format": {"type": "json"}}

ALONE = {
    "console.ClockSpout": {"intervalSeconds": 0.001, "count": 3},
    "console.GeneratorSpout": {"count": 3, "fields": {"number": {"type": "sequence"}}},
    "console.StdinSpout": {},
    "console.StdoutSink": {},
    "console.TableSink": {},
    "files.FileLookup": {
        "path": "1.parquet",
        "format": {"type": "parquet", "fields": ["number"]},
        "key": ["number"],
        "fields": ["number"],
    },
    "files.FileSink": WRITTEN,
    "files.FileSpout": LINES,
    "files.OpaqueTransactionalFileSpout": LINES,
    "files.ParquetSpout": {"path": "*.parquet", "fields": ["number"], "follow": False},
    "files.RollingFileSink": WRITTEN,
    "files.TransactionalFileSpout": LINES,
    "sqlite.SqliteLookup": {
        **TABLE,
        "columns": ["number"],
        "key": ["number"],
        "fields": ["number"],
    },
    "sqlite.SqliteQuerySpout": {**GROWING, **TABLE, "follow": False, "pollSeconds": 0},
    "sqlite.SqliteSink": TABLE,
}
"""Each reads, or is given, three rows."""
WITH_SERVERS = {
    "http.CallSpout": {"port": 8081},
    "http.HttpLookup": {"url": "http://localhost/rows/{number}"},
    "http.HttpSink": {"url": "http://localhost/rows/{number}"},
    "http.HttpSpout": {"port": 8080},
    "http.Return": {"call": "number", "fields": ["number"]},
    "kafka.KafkaSink": KAFKA,
    "kafka.KafkaSpout": KAFKA,
    "kafka.OpaqueTransactionalKafkaSpout": KAFKA,
    "kafka.TransactionalKafkaSpout": KAFKA,
    "postgres.PostgresLookup": {
        **POSTGRES,
        "table": "rows",
        "columns": {"number": "int64"},
        "key": ["number"],
    },
    "postgres.PostgresQuerySpout": {**POSTGRES, **GROWING},
    "postgres.PostgresQueueSpout": {
        **POSTGRES,
        "table": "rows",
        "fields": ["number"],
        "key": "number",
    },
    "postgres.PostgresSink": {**POSTGRES, "table": "rows"},
    "rabbitmq.RabbitSink": RABBIT,
    "rabbitmq.RabbitSpout": {**RABBIT, "queue": "rows"},
    "redis.RedisListSpout": REDIS,
    "redis.RedisSink": {**REDIS, "type": "set"},
    "redis.RedisStreamSpout": {**REDIS, "group": "rows"},
}
EXAMPLES = ALONE | WITH_SERVERS
TAKEN = """
from fulmen import BatchBolt

class Taken(BatchBolt):
    def execute(self, tup):
        print(tup[1])

    def finish_batch(self):
        pass
"""
GIVEN_IN_PYTHON = {"MemoryTransactionalSpout"}
"""Its rows are arguments of its constructor."""


def concrete(module):
    """The classes of components that a module offers."""
    offered = [getattr(module, name) for name in getattr(module, "__all__", ())]
    return {
        one
        for one in offered
        if inspect.isclass(one) and issubclass(one, Component) and not inspect.isabstract(one)
    }


def every_class():
    """The name of every class that an example is needed of, and the class."""
    rooms = [
        importlib.import_module(f"fulmen.connectors.{room.name}")
        for room in pkgutil.iter_modules(fulmen.connectors.__path__)
    ]
    found = {
        f"{room.__name__.removeprefix('fulmen.connectors.')}.{one.__name__}": one
        for room in rooms
        for one in concrete(room)
    }
    return found | {one.__name__: one for one in concrete(fulmen.transactional)}


FOUND = every_class()


def document(name):
    """A topology of the class and of what it needs."""
    cls, config = FOUND[name], EXAMPLES[name]
    where = "fulmen.transactional" if "." not in name else "fulmen.connectors"
    one = {"name": "one", "class": f"{where}.{name}", "config": config}
    inputs = [{"from": "rows", "grouping": {"type": "shuffle"}}]
    rows = {
        "name": "rows",
        "class": "fulmen.connectors.console.GeneratorSpout",
        "config": EXAMPLES["console.GeneratorSpout"],
    }
    taken = [{"from": "one", "grouping": {"type": "shuffle"}}]
    spec = {"workers": 1}
    if not hasattr(cls, "next_tuple") and not hasattr(cls, "get_emitter"):
        spec |= {"spouts": [rows], "bolts": [one | {"inputs": inputs}]}
    elif hasattr(cls, "get_emitter"):
        bolt = {"name": "taken", "class": "taken_rows.Taken", "inputs": taken}
        spec |= {"transactional": [one], "bolts": [bolt]}
        spec["code"] = {"files": {"taken_rows.py": TAKEN}}
    else:
        sink = {"name": "taken", "class": "fulmen.connectors.console.TableSink", "inputs": taken}
        spec |= {"spouts": [one], "bolts": [sink]}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "all"}, "spec": spec}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes the topology of a class into a folder with three rows of each kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("1\n2\n3\n")
    pq.write_table(pa.table({"number": [1, 2, 3]}), tmp_path / "1.parquet")

    def write(name):
        with closing(sqlite3.connect("rows.db")) as db, db:
            db.execute("CREATE TABLE rows (number INTEGER)")
            if name == "sqlite.SqliteQuerySpout":
                db.execute("INSERT INTO rows VALUES (1), (2), (3)")
        (tmp_path / "one.yaml").write_text(yaml.safe_dump(document(name)))
        return "one.yaml"

    return write


def called(*arguments):
    result = CliRunner().invoke(main, arguments, input="1\n2\n3\n", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_class_has_an_example():
    assert FOUND.keys() == EXAMPLES.keys() | GIVEN_IN_PYTHON


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_class_is_valid_and_planned(name, file):
    assert called("validate", path := file(name))
    assert "one" in called("plan", path)


@pytest.mark.parametrize("name", ALONE)
def test_every_class_runs_where_no_server_is_needed(name, file):
    report = called("run", file(name), "--in-process", "--until-drained")
    figures = {line.split()[0]: line.split() for line in report.splitlines() if line.strip()}
    assert "3" in figures["one"], report
