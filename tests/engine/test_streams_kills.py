"""Pipelines under `fulmen run`, whose workers and driver are killed."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, JVM, PYTHON, victims
from support.streams import operators
from support.streams.ten_steps import model, steps
from support.suite import seeds

ROWS = 20_000
TESTS = {"PYTHONPATH": str(Path(__file__).parents[1])}
DRIVERS = "drivers that die or are followed, and workers that are killed"  # as test_topology_chaos


class TenSteps:
    """Rows in a file, which becomes longer, and the tables that the run writes."""

    def __init__(self, folder, rng):
        self._folder, self._rng = folder, rng
        self.rows = []

    def add(self, hour):
        """Append the rows of an hour. One file is in the order of its times, however it is read."""
        rows = model.drawn(self._rng, ROWS, hour)
        with open(self._folder / "rows" / "all.jsonl", "a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        self.rows += rows

    def table(self, name):
        """What a table has; nothing: it is not there yet."""
        if not (self._folder / "tables.db").exists():
            return []
        with closing(sqlite3.connect(self._folder / "tables.db", timeout=60)) as database:
            database.row_factory = sqlite3.Row
            known = [row["name"] for row in database.execute("SELECT name FROM sqlite_master")]
            if name not in known:
                return []
            return [dict(row) for row in database.execute(f"SELECT * FROM {name}")]

    def is_written(self):
        """Whether the sums are those of all rows."""
        found = {row["user"]: row["cents"] for row in self.table("sums")}
        return found == model.expected(self.rows)[1]


def end(folder):
    """Take what is left as the end of the input, in this process's place."""
    run = [Path(sys.executable).parent / "fulmen", "run", "steps.py", "--checkpoint", "state"]
    subprocess.run(
        [*run, "--in-process", "--until-drained", "--end-of-input"],
        cwd=folder,
        env={**os.environ, **TESTS},
        check=True,
    )


class EachOperator:
    """Rows in two files, which become longer, and a table for what each operator makes of them."""

    def __init__(self, folder, rng):
        self._folder, self._rng = folder, rng
        self._second = 0
        self.rows, self.others = [], []

    def add(self, n):
        """Append rows, about in the order of their times; and write the table to look up in."""
        version = self._second // n
        new = self._folder / "new.csv"
        new.write_text("".join(f"{user},{version}\n" for user in "abab"))
        new.replace(self._folder / "versions.csv")
        for name, rows in (("rows", self.rows), ("others", self.others)):
            times = {(one["user"], one["at"]) for one in rows}
            with open(self._folder / "rows" / f"{name}.jsonl", "a") as file:
                for second in range(self._second, self._second + n):
                    at = second + self._rng.randrange(10)
                    one = operators.row(self._rng.randrange(20), self._rng.choice("abc"), at)
                    if (one["user"], one["at"]) not in times:  # of one moment there is one row
                        times.add((one["user"], one["at"]))
                        rows.append(one)
                        file.write(f"{json.dumps(one)}\n")
        self._second += n

    def found(self, name):
        """What the table has, without what was taken back."""
        with closing(sqlite3.connect(self._folder / "tables.db", timeout=60)) as database:
            rows = database.execute(f'SELECT found, is_retraction FROM "{name}"').fetchall()
        return operators.net(
            [{"found": found, "is_retraction": gone} for found, gone in rows], lambda r: r["found"]
        )

    def is_written(self):
        """Whether all rows have come to the end where nothing waits for the time."""
        if not (self._folder / "tables.db").exists():
            return False
        try:
            return sum(self.found("process").values()) == len(self.rows)
        except sqlite3.OperationalError:  # the table is not there yet
            return False


@pytest.mark.timeout(600)
def test_each_operator_gives_what_plain_python_gives_whatever_processes_are_killed(tmp_path):
    with seeds.generator(seeds.FIRST) as rng:
        life = ExampleLife(
            Path(operators.__file__).with_name("killed"), tmp_path, TESTS, file="steps.py"
        )
        (life.folder / "rows").mkdir()
        each = EachOperator(life.folder, rng)
        each.add(400)
        with life.running():
            life.wait_for(each.is_written, "the first rows are written")
            before = set(victims(life.process, PYTHON))
            each.add(400)
            life.kill(PYTHON, rng)
            life.wait_for(each.is_written, "all is written after a kill")
            assert before - set(victims(life.process, PYTHON))
            life.end()
        each.add(50)
        end(life.folder)
    expected = {name: of(each.rows) for name, (_, of, _) in operators.KEEPING.items()}
    for name, (_, of, _) in operators.TOGETHER.items():
        expected[name] = of(each.rows, each.others)
    as_text = {
        name: Counter({json.dumps(one): n for one, n in rows.items()})
        for name, rows in expected.items()
    }
    assert {name: each.found(name) for name in as_text} == as_text
    looked_up = Counter()
    for of, n in each.found("looked-up").items():
        user, number, version = json.loads(of)
        assert (version is None) == (user == "c")
        assert version is None or (n % 2 == 0 and version in range(17)), "a table is whole"
        looked_up[user, number] += n if version is None else n // 2
    assert looked_up == Counter((one["user"], one["n"]) for one in each.rows)


@pytest.mark.thorough
@pytest.mark.matrix(share=1 / 5, name=DRIVERS, cell="streams")
@pytest.mark.timeout(3600)
def test_what_comes_out_is_that_of_the_rows_whatever_processes_are_killed(tmp_path):
    with seeds.generator(seeds.FIRST) as rng:
        folder = Path(steps.__file__).parent
        life = ExampleLife(folder, tmp_path, {}, file="steps.py", seconds=600)
        (life.folder / "rows").mkdir()
        tables = TenSteps(life.folder, rng)
        tables.add(0)
        killed = Counter()
        with life.running():
            life.wait_for(tables.is_written, "the rows of the first hour are written")
            for hour, kind in enumerate(rng.sample([DRIVER, PYTHON, JVM, PYTHON], 4), 1):
                before = tables.table("sums")
                tables.add(hour)
                life.wait_for(lambda old=before: tables.table("sums") != old, "some is written")
                life.wait_for(lambda kind=kind: victims(life.process, kind), f"a {kind}")
                life.kill(kind, rng)
                if kind == JVM:  # the run ends without it, and says so
                    assert life.process.wait(600) == 1
                    life.start()
                killed[kind] += 1
                life.wait_for(tables.is_written, f"all is written after a killed {kind}")
            life.wait_for(lambda: victims(life.process, PYTHON), "it runs again")
            life.end()
        end(life.folder)
        windows, _ = model.expected(tables.rows)
        found = tables.table("windows")
        assert model.windows_of(found) == windows
        assert len(found) == len(windows)
        assert tables.is_written()
        left = {tuple(row.values()) for row in tables.table("alike")}
        assert left == model.alike(tables.rows), "what was taken back is deleted"
        assert killed == {DRIVER: 1, PYTHON: 2, JVM: 1}
