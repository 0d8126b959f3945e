"""A pipeline of streams under `fulmen run`: whatever is killed, its tables are exact."""

import json
import random
import sqlite3
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from support.docs.pages import ROOT
from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, PYTHON
from support.suite import seeds

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

PIPELINE = ROOT / "tests/support/streams/ten_steps"
START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def drawn(rng, n):
    """Rows of an hour, in the order of their times."""
    times = sorted(rng.randrange(3600) for _ in range(n))
    return [
        {
            "user": rng.choice(["Ann", "bob", "Eve"]),
            "item": rng.choice(["tea", "salt"]),
            "price": rng.randrange(100),
            "at": (START + timedelta(seconds=second)).isoformat(),
        }
        for second in times
    ]


def expected(rows):
    """The same in plain Python."""
    windows, sums = defaultdict(list), defaultdict(int)
    for row in rows:
        if row["price"] % 7 == 0 or row["price"] * 100 >= 9500:
            continue
        at = datetime.fromisoformat(row["at"])
        start = at.replace(minute=at.minute // 10 * 10, second=0)
        for item in (row["item"], "all"):
            windows[item, start].append(row["price"] * 100)
        sums[row["user"].lower()] += row["price"] * 100
    return {
        (item, start): (len(cents), sum(cents), sum(cents) / len(cents))
        for (item, start), cents in windows.items()
    }, dict(sums)


def tables(folder):
    with closing(sqlite3.connect(folder / "tables.db")) as database:
        windows = database.execute("SELECT item, start, n, cents, mean FROM windows").fetchall()
        sums = database.execute("SELECT user, cents FROM sums").fetchall()
    return {
        (item, datetime.fromisoformat(start)): tuple(rest) for item, start, *rest in windows
    }, dict(sums)


def test_tables_are_those_of_the_rows_whatever_is_killed(tmp_path):
    rng = random.Random(seeds.FIRST)
    rows = drawn(rng, 6000)
    life = ExampleLife(PIPELINE, tmp_path, {}, file="steps.py")
    (life.folder / "rows").mkdir()
    parts = [rows[:2000], rows[2000:4000], rows[4000:]]

    def write(number):
        lines = "".join(json.dumps(row) + "\n" for row in parts[number])
        (life.folder / "rows" / f"{number}.jsonl").write_text(lines)

    def is_there(number):
        return (life.folder / "tables.db").exists() and tables(life.folder)[1] == expected(
            [row for part in parts[: number + 1] for row in part]
        )[1]

    with life.running():
        for number, kind in enumerate([PYTHON, DRIVER, PYTHON]):
            write(number)
            life.kill(kind, rng) if number else None
            life.wait_for(lambda n=number: is_there(n), f"the rows of part {number}")
            life.kill(kind, rng)
        life.end()
    life.options = ["--until-drained"]
    life.start()
    assert life.process.wait(120) == 0, life.output()
    assert tables(life.folder) == expected(rows)
