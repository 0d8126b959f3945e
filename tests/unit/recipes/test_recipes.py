"""Recipes without a server do with a few hundred rows what plain Python does with them."""

import csv
import gzip
import json
import re
import sqlite3
from contextlib import closing

import pyarrow.parquet as pq
import pytest

from fulmen.cli.topology_file import TopologyFile
from support.connectors.served_topologies import Client, served
from support.docs import recipes
from support.docs.shown_commands import output_of

AIRPORTS = ("EWR", "JFK", "LGA")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path


def malformed(folder):
    """The rows that a recipe has put aside."""
    files = sorted((folder / "malformed").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def append(path, line):
    with path.open("a") as file:
        file.write(line)


def test_flights_become_counts_and_a_malformed_one_costs_only_itself(folder):
    recipes.lay("flights-to-sqlite", folder, "flights.csv", "airlines.csv")
    wanted = recipes.delays(folder)
    append(folder / "flights.csv", "2013,1,1,1,1,soon,1,1,1,UA,1,N1,EWR,IAH,1,1,1,1,\n")
    recipes.run("flights-to-sqlite")
    with closing(sqlite3.connect(folder / "carriers.db")) as db:
        assert db.execute("SELECT * FROM delays ORDER BY airline").fetchall() == wanted
    [row] = malformed(folder)
    assert row["data"].startswith("2013,1,1,1,1,soon")
    assert "'dep_delay'" in row["reason"]


def test_planes_become_parquet_with_types_and_nulls(folder):
    recipes.lay("planes-to-parquet", folder, "planes.csv")
    wanted = recipes.planes(folder)
    recipes.run("planes-to-parquet")
    assert pq.read_table(folder / "planes").to_pylist() == wanted
    assert malformed(folder) == []


def test_a_query_in_sqlite_becomes_compressed_csv(folder):
    recipes.lay("sqlite-to-csv", folder, "weather.csv")
    recipes.run("sqlite-to-csv")
    found = []
    for file in folder.glob("gusts/*.csv.gz"):
        with gzip.open(file, "rt", newline="") as text:
            header, *rows = csv.reader(text)
            assert header == ["origin", "at", "gust"]
            found += map(tuple, rows)
    assert found == list(recipes.gusts(folder))


def test_a_webhook_becomes_a_table_and_a_call_is_answered(folder, monkeypatch):
    recipes.lay("webhook-to-sqlite", folder, "weather.csv")
    port, calls = recipes.free_ports(folder, "hooks.yaml", 8080, 8081)
    monkeypatch.setenv("PORT", str(port))
    monkeypatch.syspath_prepend(folder)
    topology = TopologyFile(folder / "hooks.yaml").checked().topology()
    with served(topology) as life:
        life.wait_until_it_listens(port)
        output_of("python send.py")
        with closing(Client(calls)) as client:
            said = {origin: client.send({"origin": origin}, "/strongest")[1] for origin in AIRPORTS}
        life.end(drain=True)
    assert recipes.hours_in_table(folder) == recipes.hours(folder)
    strongest = [{"origin": origin, **answer} for origin, answer in said.items()]
    assert strongest == recipes.strongest(folder)


def test_what_recipes_print_is_printed_on_the_terminal_and_not_in_the_log_of_spark():
    pages = [path.stem for path in recipes.FOLDER.glob("*.md") if path.stem != "index"]
    runs = [line for page in pages for line, _ in recipes.commands(page) if "fulmen run" in line]
    text = "".join(path.read_text() for path in recipes.FOLDER.glob("*.md"))
    files = re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", text, re.DOTALL)
    sinks = ((name, content.partition("bolts:")[2]) for name, content in files)
    printing = {name for name, bolts in sinks if "connectors.console." in bolts}
    own = [line for line in runs if any(f" {name} " in line for name in printing)]
    assert len(own) >= 3
    assert [line for line in own if "--in-process" not in line] == []
