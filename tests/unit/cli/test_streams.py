"""Standard output whose reader goes, or whose disk is full: as programs do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fulmen.engine.worker.author_logs import Printed

FULMEN = [sys.executable, "-c", "from fulmen.cli.main import main; main()"]
PRINTS = """
from fulmen import BasicBolt, Spout

class Numbers(Spout):
    outputs = ["n"]
    n = 0
    def open(self, conf, context, collector):
        self.collector = collector
    def next_tuple(self):
        if self.n < 20_000:
            self.n += 1
            self.collector.emit([self.n], msg_id=self.n)
    def is_exhausted(self):
        return self.n == 20_000

class Prints(BasicBolt):
    outputs = []
    def execute(self, tup, collector):
        print(tup["n"])
"""


def _file(tmp_path, sink):
    (tmp_path / "printing.py").write_text(PRINTS)
    spout = {"name": "numbers", "class": "printing.Numbers"}
    inputs = [{"from": "numbers", "grouping": {"type": "shuffle"}}]
    bolt = {"name": "shown", "class": sink, "inputs": inputs}
    spec = {"code": {"folder": "."}, "spouts": [spout], "bolts": [bolt]}
    document = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "numbers"},
        "spec": spec,
    }
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))


def _environment(tmp_path):
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize("sink", ["fulmen.connectors.console.StdoutSink", "printing.Prints"])
def test_a_run_ends_when_nobody_reads_its_rows(tmp_path, sink):
    _file(tmp_path, sink)
    command = [*FULMEN, "run", "t.yaml", "--in-process", "--checkpoint", "state"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=_environment(tmp_path), **pipes) as run:
        assert run.stdout.readline()
        run.stdout.close()
        assert run.wait(50) == 141
        assert run.stderr.read().splitlines()[1:] == ["numbers: starting"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_other_commands_end_when_nobody_reads_what_they_write(tmp_path, stream):
    reader, writer = os.pipe()
    os.close(reader)
    command = [*FULMEN, "plan", "t.yaml" if stream == "stderr" else "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    ended = subprocess.run(command, cwd=tmp_path, env=_environment(tmp_path), check=False, **pipes)
    os.close(writer)
    assert ended.returncode == 141
    assert not ended.stdout
    assert not ended.stderr


def test_what_components_print_to_a_full_disk_fails_no_tuple(tmp_path):
    _file(tmp_path, "printing.Prints")
    command = [*FULMEN, "run", "t.yaml", "--in-process", "--until-drained", "--report", "r.json"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env=_environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    trees = json.loads((tmp_path / "r.json").read_text())["trees"]
    assert (trees["acked"], trees["failed"]) == (20_000, 0)
    lost = "Error: not all that was written could be: No space left on device."
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, lost)


def test_rows_of_a_sink_are_not_lost_on_a_full_disk():
    with open("/dev/full", "w") as full, Path("/dev/full").open("wb", buffering=0) as raw:
        printed = Printed(full, raw, is_buffered=False)
        print("of a component", file=printed, flush=True)
        assert "No space left" in str(printed.lost)
        with pytest.raises(OSError, match="No space left"):
            printed.buffer.write(b"of a sink")
