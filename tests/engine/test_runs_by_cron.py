"""A job that is started again and again, and killed: its table has each sale of the hour once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

CODE = '''
import os, signal, threading
from pathlib import Path

from fulmen.connectors.sqlite import SqliteSink
from fulmen.windows import Aggregate


def at(moment):
    """End the process if it is to die at this moment, once."""
    wanted = Path("dies")
    if wanted.exists() and wanted.read_text() == moment:
        wanted.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class Table(SqliteSink):
    def write(self, rows, mark):
        at("before it is written")
        super().write(rows, mark)
        at("after it was written")


class PerHour(Aggregate):
    def on_timer(self, key, at_time, collector):
        super().on_timer(key, at_time, collector)
        at("while it looks ahead")
'''
TABLE = {
    "guarantee": "exactly-once",
    "path": "hours.db",
    "table": "hours",
    "mode": "upsert",
    "key": ["shop", "window_start"],
    "create": {"shop": "TEXT", "window_start": "TEXT", "window_end": "TEXT", "sales": "INTEGER"},
}
HOUR = {"type": "tumbling", "size": "1h"}
FILES = {"path": "in/*.jsonl", "follow": False, "format": {"type": "json"}}
FILES["format"]["fields"] = {"shop": "string", "sold": "timestamp"}
TOPOLOGY = {
    "apiVersion": "fulmen.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "sales"},
    "spec": {
        "code": {"folder": "."},
        "spouts": [
            {
                "name": "sales",
                "class": "fulmen.connectors.files.FileSpout",
                "config": FILES,
                "eventTime": {"field": "sold", "lag": "1m"},
            }
        ],
        "bolts": [
            {
                "name": "per-hour",
                "class": "job.PerHour",
                "inputs": [{"from": "sales", "grouping": {"type": "fields", "fields": ["shop"]}}],
                "config": {"key": ["shop"], "window": HOUR, "aggregates": {"sales": "count"}},
            },
            {
                "name": "table",
                "class": "job.Table",
                "inputs": [{"from": "per-hour", "grouping": {"type": "global"}}],
                "config": TABLE,
            },
        ],
    },
}
MOMENTS = ("while it looks ahead", "before it is written", "after it was written")


@pytest.mark.timeout(180)
def test_each_sale_is_in_the_table_once_whenever_the_job_is_killed(tmp_path):
    (tmp_path / "job.py").write_text(CODE)
    (tmp_path / "sales.yaml").write_text(json.dumps(TOPOLOGY))
    (tmp_path / "in").mkdir()
    fulmen = [str(Path(sys.executable).parent / "fulmen"), "run", "sales.yaml", "--in-process"]
    command = [*fulmen, "--until-drained", "--checkpoint", "state"]

    def run(*options):
        variables = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "home")}
        how = {"cwd": tmp_path, "env": variables, "capture_output": True, "text": True}
        return subprocess.run([*command, *options], **how, timeout=60, check=False)

    def table():
        with sqlite3.connect(tmp_path / "hours.db") as db:
            return db.execute("SELECT shop, sales FROM hours").fetchall()

    for quarter, moment in enumerate(MOMENTS):
        rows = [
            {"shop": "kiel", "sold": f"2025-04-01T09:{15 * quarter + minute:02}:00Z"}
            for minute in range(15)
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / "in" / f"{quarter}.jsonl").write_text(lines)
        (tmp_path / "dies").write_text(moment)
        assert run().returncode == -signal.SIGKILL, moment
        ended = run()
        assert ended.returncode == 0, ended.stderr
        assert table() == [("kiel", 15 * (quarter + 1))], moment
