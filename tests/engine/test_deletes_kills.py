"""What a regular join takes back is deleted in tables, whatever processes are killed."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, PYTHON
from support.streams import operators
from support.suite import seeds

ROWS = 300


def expected(rows):
    """How many users and numbers come as often as each of them."""
    times = Counter((row["user"], row["n"]) for row in rows)
    alike = Counter(times.values())
    return {f"{user}:{n}:{of}": alike[of] for (user, n), of in times.items()}


class Tables:
    """The three tables."""

    def __init__(self, postgres, redis_server, kafka):
        self._postgres, self._redis, self._kafka = postgres, redis_server, kafka
        kafka.make_topic("alike")
        self.variables = {
            "DSN": postgres.dsn,
            "REDIS_URL": redis_server.url,
            "BROKER": kafka.address,
        }

    def in_postgres(self):
        with closing(psycopg.connect(self._postgres.dsn)) as db:
            if db.execute("SELECT to_regclass('alike')").fetchone() == (None,):
                return {}
            return dict(db.execute("SELECT id, alike FROM alike").fetchall())

    def in_redis(self):
        with self._redis.client() as client:
            return {key: int(value) for key, value in client.hgetall("alike").items()}

    def in_kafka(self):
        """What compaction leaves, and how many messages have deleted something."""
        kept, deletions = {}, 0
        for message in self._kafka.read("alike"):
            key, value = message.key().decode(), message.value()
            deletions += value is None
            kept.pop(key, None)
            if value is not None:
                kept[key] = json.loads(value)["alike"]
        return kept, deletions


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_what_a_join_takes_back_is_deleted_whatever_is_killed(
    tmp_path, postgres, redis_server, kafka
):
    tables, rows = Tables(postgres, redis_server, kafka), []
    folder = Path(operators.__file__).with_name("deletes")
    life = ExampleLife(folder, tmp_path, tables.variables, file="steps.py", seconds=300)
    (life.folder / "rows").mkdir()

    def add():
        some = [{"user": rng.choice("ab"), "n": rng.randrange(20)} for _ in range(ROWS)]
        with open(life.folder / "rows" / "all.jsonl", "a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in some)
        rows.extend(some)

    def is_written():
        return tables.in_postgres() == expected(rows)

    with seeds.generator(seeds.FIRST) as rng:
        add()
        with life.running():
            life.wait_for(is_written, "the first rows are written")
            for kind in (PYTHON, DRIVER):
                before = tables.in_postgres()
                for _ in range(2):
                    add()
                    life.wait_for(lambda old=before: tables.in_postgres() != old, "some is written")
                life.kill(kind, rng)
                life.wait_for(is_written, f"all is written after a killed {kind}")
            life.end()
    assert tables.in_redis() == expected(rows)
    kept, deletions = tables.in_kafka()
    assert kept == expected(rows)
    assert deletions > ROWS
