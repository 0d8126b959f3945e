"""Recipes with a server do with a few hundred rows what plain Python does with them."""

import csv
import gzip
import json
import uuid

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.docs import recipes
from support.servers.s3 import BUCKET

pytestmark = pytest.mark.matrix(share=1 / 2, name="recipes with servers")

TOWNS = ["Malmo", "M\u00e4rsta"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def queried(request, monkeypatch):
    """The PostgreSQL of a recipe: makes the rows of a query."""
    server = request.getfixturevalue("postgres")
    monkeypatch.setenv("DSN", server.dsn)

    def query(text):
        with psycopg.connect(server.dsn) as db:
            return db.execute(text).fetchall()

    return query


@pytest.fixture
def topic(kafka, monkeypatch):
    """Makes a topic for a recipe."""
    monkeypatch.setenv("KAFKA", kafka.address)
    return kafka.make_topic


def lines(folder, pattern):
    return [line for file in sorted(folder.glob(pattern)) for line in file.read_text().splitlines()]


def malformed(folder):
    """The lines that a recipe has put aside, and the reasons."""
    return [json.loads(line) for line in lines(folder, "malformed/*.jsonl")]


def changelogs(folder):
    """Compressed files below doc/: one with a line in Latin-1, one that has two names."""
    for number, town in enumerate(TOWNS):
        package = folder / "doc" / f"package-{number}"
        package.mkdir(parents=True)
        with gzip.open(package / "changelog.Debian.gz", "wb") as file:
            file.write(b"  * Fix a crash, and fix the docs.\n\n")
            file.write(f"  * Closes a report from {town}.\n".encode("latin-1"))
            file.write("  * Dank an J\u00fcrgen.\n".encode())
    (folder / "doc" / "package-2").symlink_to("package-0")
    return sorted((folder / "doc").glob("package-[01]/*.gz"))


def test_a_log_becomes_a_table_with_a_look_up(folder, queried):
    recipes.lay("log-to-postgres", folder, "dpkg.log", "sections.csv")
    wanted = sorted(recipes.installed(folder))
    odd = ["2025-06-24 14:36:25 explode libc6:amd64 1 2", "half a line"]
    with open(folder / "dpkg.log", "a") as file:
        file.writelines(f"{line}\n" for line in odd)
    recipes.run("log-to-postgres")
    columns = "at, package, section, architecture, after"
    query = f"SELECT {columns} FROM packages WHERE action = 'install' AND before IS NULL"
    assert sorted(queried(query)) == wanted
    assert [row["data"] for row in malformed(folder)] == odd
    assert malformed(folder)[0]["reason"] == "there is no action 'explode'"


def test_a_table_becomes_json_in_files_and_in_a_topic(folder, queried, topic, kafka):
    recipes.lay("postgres-to-kafka", folder, "airports.csv")
    topic("airports")
    recipes.run("postgres-to-kafka")
    found = [json.loads(line) for line in lines(folder, "airports/*.jsonl")]
    wanted = list(recipes.rows(folder / "airports.csv"))
    assert [row["code"] for row in found] == [row["faa"] for row in wanted]
    assert [row["name"] for row in found] == [row["name"] for row in wanted]
    numbers = [str(uuid.uuid5(uuid.NAMESPACE_DNS, row["faa"])) for row in wanted]
    assert [row["number"] for row in found] == numbers
    for written, row in zip(lines(folder, "airports/*.jsonl"), wanted, strict=True):
        assert f'"place":[{row["lat"]},{row["lon"]}]' in written, "all digits"
    messages = kafka.read("airports")
    assert sorted(json.loads(m.value())["code"] for m in messages) == [r["code"] for r in found]
    assert {json.loads(m.value())["code"] for m in messages} == {m.key().decode() for m in messages}


def test_words_of_changelogs_become_counts_in_a_hash(folder, redis_server, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    recipes.lay("changelogs-to-redis", folder)
    wanted = recipes.words(changelogs(folder))
    recipes.run("changelogs-to-redis")
    with redis_server.client() as client:
        found = client.hgetall("changelog-words")
    assert {word: int(count) for word, count in found.items()} == wanted
    [row] = malformed(folder)
    assert "can't decode byte 0xe4" in row["reason"]


def test_weather_goes_to_a_bucket_and_comes_back(folder, s3_server, monkeypatch):
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    recipes.lay("weather-to-bucket", folder, "weather.csv")
    printed = recipes.run("weather-to-bucket")
    assert [json.loads(line) for line in printed.splitlines()] == recipes.strongest(folder)
    table = pq.read_table(s3_server.folder / BUCKET / "weather")
    weather = list(recipes.rows(folder / "weather.csv"))
    assert table["precip"].type == pa.decimal128(6, 2)
    assert [float(rain) for rain in table["precip"].to_pylist()] == [
        float(row["precip"]) for row in weather
    ]
    assert table["wind_gust"].null_count == sum(row["wind_gust"] is None for row in weather)


def test_a_stream_becomes_csv_and_is_acknowledged(folder, redis_server, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    recipes.lay("redis-stream-to-csv", folder, "weather.csv")
    recipes.run("redis-stream-to-csv")
    names = ["origin", "time_hour", "temp", "wind_gust"]
    [file] = folder.glob("hours/*.csv")
    with file.open(newline="") as text:
        found = [[row[name] for name in names] for row in csv.DictReader(text)]
    with (folder / "weather.csv").open(newline="") as text:
        assert found == [[row[name] for name in names] for row in csv.DictReader(text)]
    with redis_server.client() as client:
        assert client.xpending("weather-hours", "csv")["pending"] == 0


def test_messages_go_to_queues_and_dead_letters_to_their_own(
    folder, topic, rabbit_server, monkeypatch
):
    monkeypatch.setenv("RABBITMQ_URL", rabbit_server.url)
    recipes.lay("kafka-to-rabbitmq", folder, "planes.csv")
    topic("planes")
    recipes.run("kafka-to-rabbitmq")

    def taken(queue):
        with rabbit_server.channel() as channel:
            while (message := channel.basic_get(queue, auto_ack=True))[0]:
                yield json.loads(message[2])

    planes = recipes.planes(folder)
    ages = {p["tailnum"]: 2013 - p["year"] for p in planes if p["year"] is not None}
    assert {row["tailnum"]: row["age"] for row in taken("ages")} == ages
    dead = list(taken("ages-dead"))
    assert {row["values"][0] for row in dead} == {p["tailnum"] for p in planes} - ages.keys()
    assert {row["failures"] for row in dead} == {1}
    [header] = taken("ages-malformed")
    assert header["data"].startswith("tailnum,year,")


def test_planes_go_through_a_queue_as_avro(folder, rabbit_server, registry, monkeypatch):
    monkeypatch.setenv("RABBITMQ_URL", rabbit_server.url)
    monkeypatch.setenv("REGISTRY", registry.url)
    recipes.lay("planes-in-avro", folder, "planes.csv")
    wanted = recipes.fleet(folder)
    with open(folder / "planes.csv", "a") as file:
        file.write("N1,soon,a,b,c,1,2,3,d\n")
    assert recipes.table(recipes.run("planes-in-avro")) == wanted
    assert [row["data"] for row in malformed(folder)] == ["N1,soon,a,b,c,1,2,3,d"]


def test_a_queue_becomes_a_list_and_both_are_empty_at_last(
    folder, queried, redis_server, monkeypatch
):
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    recipes.lay("queue-to-list", folder, "airports.csv")
    assert recipes.table(recipes.run("queue-to-list")) == recipes.zones(folder)
    assert queried("SELECT count(*) FROM airport_queue") == [(0,)]
    with redis_server.client() as client:
        assert not client.exists("airports")
        held = client.hkeys("airports:processing:zones:airports")
        assert [name for name in held if name != "last"] == []


@pytest.mark.thorough
def test_lines_are_counted_in_transactions(folder, queried, topic):
    recipes.lay("word-count-to-postgres", folder)
    files = changelogs(folder)
    files.append(files[0])  # by its second name
    topic("changelog-lines", partitions=2)
    recipes.run("word-count-to-postgres")
    assert dict(queried("SELECT key, value FROM changelog_words")) == recipes.words(files)
