"""A secret of a component's `config`, on real Spark: workers have it, and nothing shows it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fulmen.checkpoint import Store
from fulmen.engine.state.committed_state import read_state
from support.cli.cli_runs import write_letters

FULMEN = str(Path(sys.executable).with_name("fulmen"))
SECONDS = 240  # a busy machine takes its time to start a JVM
SECRET = "correct-horse-battery-staple"

pytestmark = pytest.mark.timeout(3 * SECONDS)

CODE = """

import logging

from pydantic import BaseModel

log = logging.getLogger("shop")


class Options(BaseModel, extra="forbid"):
    dsn: str


class Tells(BasicBolt):
    config_model = Options

    def prepare(self, conf, context):
        self.url = f"{context.options.dsn}/more"
        self.given = [conf["dsn"]]
        self.told = 0
        self.state["length"] = len(conf["dsn"])
        self.state["dsn"] = conf["dsn"]

    def execute(self, tup, collector):
        self.told += 1
        if self.told == 1:
            log.warning("connected to %s", self.url)
        if self.told == 2:
            raise RuntimeError(f"no connection to {self.url}")
"""


def test_nothing_on_spark_shows_a_secret(tmp_path):
    bolt = {"name": "tells", "class": "letters.Tells", "config": {"dsn": "pg://me:${SECRET}@db"}}
    bolt["inputs"] = [{"from": "letters", "grouping": {"type": "shuffle"}}]
    file = write_letters(tmp_path, {"count": 20}, bolts=[bolt])
    with open(tmp_path / "letters.py", "a") as code:
        code.write(CODE)
    state = tmp_path / "state"
    env = {**os.environ, "XDG_STATE_HOME": str(state), "SECRET": SECRET}
    arguments = ["--until-drained", "--checkpoint", "kept", "--report", "report.json"]
    ended = subprocess.run(
        [FULMEN, "run", file, *arguments],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    content += (ended.stdout + ended.stderr).encode()
    assert b"no connection to pg://me:${SECRET}@db/more" in content
    assert b"connected to pg://me:${SECRET}@db/more" in content
    assert SECRET.encode() not in content
    kept = read_state(Store.open(str(tmp_path / "kept")), "tells").tasks.values()
    length = len(f"pg://me:{SECRET}@db")
    assert {task["length"] for task in kept} == {length}
    assert {task["dsn"] for task in kept} == {"pg://me:${SECRET}@db"}
