"""A pipeline of ten steps under `fulmen run`, whose workers and driver are killed."""

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, JVM, PYTHON, victims
from support.streams.ten_steps import model, steps
from support.suite import seeds

ROWS = 20_000
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
        end = [Path(sys.executable).parent / "fulmen", "run", "steps.py", "--checkpoint", "state"]
        subprocess.run(
            [*end, "--in-process", "--until-drained", "--end-of-input"], cwd=life.folder, check=True
        )
        windows, _ = model.expected(tables.rows)
        found = tables.table("windows")
        assert model.windows_of(found) == windows
        assert len(found) == len(windows)
        assert tables.is_written()
        left = {tuple(row.values()) for row in tables.table("alike")}
        assert left == model.alike(tables.rows), "what was taken back is deleted"
        assert killed == {DRIVER: 1, PYTHON: 2, JVM: 1}
