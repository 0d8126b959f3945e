"""`fulmen init`: what it writes is valid, passes its own test and runs."""

import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import yaml

from fulmen.cli.commands.init import SINKS, SOURCES, extras_of
from fulmen.connectors.options import SinkOptions
from support.docs.pages import ROOT

COMBINATIONS = list(itertools.product(SOURCES, SINKS))
WITHOUT_SERVER = [pair for pair in COMBINATIONS if not extras_of(*pair)]
ADDRESSES = {
    "KAFKA": "localhost:9092",
    "DSN": "postgresql://localhost/shop",
    "REDIS": "redis://localhost",
    "RABBITMQ": "amqp://localhost",
    "ENDPOINT": "http://localhost",
}
ROWS = [(1, "ann", 10), (2, "bob", 20), (3, "ann", 30)]
LINES = [json.dumps(dict(zip(("id", "customer", "amount"), row, strict=True))) for row in ROWS]


def own_tests(folder):
    """The output of the tests in a folder, which must pass, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expanded(value):
    """The value with variables of the environment put in."""
    return os.path.expandvars(value) if isinstance(value, str) else value


def commands(folder):
    """All that the README has a shell do."""
    text = (folder / "README.md").read_text()
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def addresses(monkeypatch):
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(("source", "sink"), COMBINATIONS)
def test_every_source_with_every_sink_is_valid(source, sink, fulmen, tmp_path, addresses):
    assert fulmen("init", "shop", "--from", source, "--to", sink).exit_code == 0
    result = fulmen("validate", "shop/topology.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    [spec] = [yaml.safe_load((tmp_path / "shop" / "topology.yaml").read_text())["spec"]]
    assert f".{source.replace('generator', 'console')}." in spec["spouts"][0]["class"]
    assert f".{sink}." in spec["bolts"][0]["class"]
    for path in (tmp_path / "shop").rglob("*"):
        assert not path.is_file() or not re.search(r"@[A-Z]+@", path.read_text())
    for block in commands(tmp_path / "shop"):
        done = subprocess.run(["bash", "-n", "-c", block], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("source", "sink"), [*zip(SOURCES, itertools.cycle(SINKS), strict=False)])
def test_every_system_is_valid_with_a_window_and_a_condition(
    source, sink, fulmen, tmp_path, addresses
):
    how = ("--window", "10m", "--where", "amount > 5 and customer <> 'eve'")
    assert fulmen("init", "shop", "--from", source, "--to", sink, *how).exit_code == 0
    result = fulmen("validate", "shop/topology.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    for path in (tmp_path / "shop").rglob("*"):
        assert not path.is_file() or not re.search(r"@[A-Z]+@", path.read_text())


def test_windows_of_a_file_are_added_up(fulmen, tmp_path, monkeypatch):
    how = ("--window", "2m", "--where", "amount <> 20")
    assert fulmen("init", "sums", "--from", "files", "--to", "sqlite", *how).exit_code == 0
    monkeypatch.chdir(tmp_path / "sums")
    command = ["run", "topology.yaml", "--in-process", "--until-drained", "--checkpoint", "state"]
    result = fulmen(*command)
    assert result.exit_code == 0, result.output
    with closing(sqlite3.connect("out.db")) as db:
        found = db.execute("SELECT customer, window_start, orders, amount FROM orders").fetchall()
    assert sorted((who, start[11:16], *rest) for who, start, *rest in found) == [
        ("ann", "12:00", 1, 10.0),
        ("ann", "12:02", 1, 30.0),
    ]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (("--window", "ten"), "--window ten: "),
        (("--window", "0s"), "--window 0s: it must be above 0"),
        (("--where", "amout > 1"), "there is no field 'amout' (column 1). Did you mean 'amount'?"),
        (("--where", "upper(amount)"), "there is no upper(BIGINT)"),
    ],
)
def test_a_window_or_condition_that_can_not_be_is_told_and_nothing_written(
    how, said, fulmen, tmp_path
):
    result = fulmen("init", "shop", "--from", "files", *how)
    assert result.exit_code != 0
    assert said.replace("BIGINT", "DOUBLE") in result.stderr
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize("sink", SINKS)
def test_a_sink_that_can_write_exactly_once_does(sink, fulmen, tmp_path, addresses):
    fulmen("init", "shop", "--to", sink)
    [bolt] = yaml.safe_load((tmp_path / "shop" / "topology.yaml").read_text())["spec"]["bolts"]
    module, _, name = bolt["class"].rpartition(".")
    cls = getattr(__import__(module, fromlist=[name]), name)
    config = {name: expanded(value) for name, value in bolt["config"].items()}
    options = cls.config_model(**config)
    assert isinstance(options, SinkOptions)
    kept = getattr(cls, "guarantees", ("exactly-once",))
    assert options.guarantee == kept[-1]


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize(
    "names",
    [
        (),
        ("--from", "kafka", "--to", "postgres"),
        ("--from", "kafka", "--to", "postgres", "--window", "10m", "--where", "amount > 15"),
    ],
)
def test_its_own_tests_pass_without_a_server(names, fulmen, tmp_path):
    assert fulmen("init", "my-shop", *names).exit_code == 0
    assert re.search(r"^[12] passed", own_tests(tmp_path / "my-shop"), re.MULTILINE)


def written(sink, folder, stdout):
    """The rows that a sink has written."""
    if sink == "sqlite":
        with closing(sqlite3.connect(folder / "out.db")) as db:
            return sorted(db.execute("SELECT id, customer, amount FROM orders"))
    files = (folder / "out").glob("[!.]*") if sink == "files" else ()
    text = "".join(file.read_text() for file in files) or stdout
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return sorted((line["id"], line["customer"], line["amount"]) for line in lines)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        pytest.param(*pair, marks=() if "files" in pair else pytest.mark.slow)
        for pair in WITHOUT_SERVER
    ],
)
def test_what_needs_no_server_runs_as_it_stands(source, sink, fulmen, tmp_path, monkeypatch):
    name = f"{source}-{sink}"  # standard input is shared by all runs of one name in a process
    fulmen("init", name, "--from", source, "--to", sink)
    folder = tmp_path / name
    monkeypatch.chdir(folder)
    if source == "sqlite":
        with closing(sqlite3.connect("source.db")) as db, db:
            db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, amount REAL)")
            db.executemany("INSERT INTO orders VALUES (?, ?, ?)", ROWS)
    typed = "".join(f"{line}\n" for line in LINES)
    command = ["run", "topology.yaml", "--in-process", "--until-drained", "--checkpoint", "state"]
    result = fulmen(*command, typed=typed)
    assert result.exit_code == 0, result.output
    found = written(sink, folder, result.stdout)
    if source == "generator":
        assert [row[0] for row in found] == list(range(1, 101))
    else:
        assert found == ROWS


@pytest.mark.slow
def test_its_readme_makes_the_table_that_its_topology_reads(fulmen, tmp_path, monkeypatch):
    fulmen("init", "shop", "--from", "sqlite", "--to", "sqlite")
    monkeypatch.chdir(tmp_path / "shop")
    make, look, _ = commands(tmp_path / "shop")
    for name, value in re.findall(r'^python -m sqlite3 (\S+) "(.*)"$', make, re.MULTILINE):
        with closing(sqlite3.connect(name)) as db, db:
            db.execute(value)
    command = ["run", "topology.yaml", "--in-process", "--until-drained"]
    assert fulmen(*command).exit_code == 0
    look = look.replace("python ", f"{sys.executable} ", 1)
    done = subprocess.run(["bash", "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "(1, 'ann', 10.0)\n(2, 'bob', 20.0)\n"


def test_one_end_alone_has_the_generator_or_the_console_at_the_other(fulmen, tmp_path):
    assert fulmen("init", "a", "--from", "files").exit_code == 0
    assert "console.StdoutSink" in (tmp_path / "a" / "topology.yaml").read_text()
    assert fulmen("init", "b", "--to", "files").exit_code == 0
    assert "console.GeneratorSpout" in (tmp_path / "b" / "topology.yaml").read_text()


def test_it_says_what_it_has_written(fulmen):
    result = fulmen("init", "shop", "--from", "files")
    assert result.output == (
        "shop: README.md, data/orders.jsonl, test_shop_topology.py, topology.yaml\n"
        "Continue with shop/README.md\n"
    )


@pytest.mark.parametrize("there", ["README.md", "topology.yaml", "data/orders.jsonl"])
def test_a_file_that_is_there_is_left_alone_and_nothing_else_is_written(there, fulmen, tmp_path):
    file = tmp_path / "shop" / there
    file.parent.mkdir(parents=True)
    file.symlink_to("nowhere") if there == "README.md" else file.write_text("mine")
    result = fulmen("init", "shop", "--from", "files")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: 'shop/{there}' is there already, and is left as it is. Choose another name, or"
        " remove it first.\n"
    )
    assert [path for path in (tmp_path / "shop").rglob("*") if not path.is_dir()] == [file]
    assert file.is_symlink() or file.read_text() == "mine"


def test_a_folder_with_other_files_is_used(fulmen, tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").write_text("mine")
    assert fulmen("init", "shop").exit_code == 0
    assert (tmp_path / "shop" / "notes.txt").read_text() == "mine"


def test_a_name_that_is_a_file_is_a_mistake(fulmen, tmp_path):
    (tmp_path / "shop").write_text("mine")
    result = fulmen("init", "shop")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "can't be written: File exists" in result.stderr
    assert (tmp_path / "shop").read_text() == "mine"


@pytest.mark.parametrize("name", ["Shop", "1shop", "shop-", "my_shop", "a" * 41, ".."])
def test_a_name_that_no_topology_can_have_is_a_mistake(name, fulmen, tmp_path):
    result = fulmen("init", name)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert f"Error: {name!r} can't be the name of a topology. It must have small" in result.stderr


def test_a_system_without_a_connector_is_a_mistake_that_lists_those_there_are(fulmen):
    result = fulmen("init", "shop", "--from", "kafak")
    assert result.exit_code == 2
    assert "'kafak' is not one of 'generator', 'console', 'files', 'http', 'kafka'" in result.stderr


def test_every_system_that_has_connectors_can_be_named():
    rooms = {
        path.parent.name for path in (ROOT / "runtime/fulmen/connectors").glob("*/__init__.py")
    }
    assert rooms - {"base", "formats", "sql"} == set(SINKS)
