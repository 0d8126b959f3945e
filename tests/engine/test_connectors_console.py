"""Standard input to standard output, through `fulmen run`."""

import subprocess
import sys
from pathlib import Path

import yaml

LINES = "".join(f"{i}\n" for i in range(3000))


def test_lines_go_from_standard_input_to_standard_output(tmp_path):
    document = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "typed"},
        "spec": {
            "spouts": [{"name": "lines", "class": "fulmen.connectors.console.StdinSpout"}],
            "bolts": [
                {
                    "name": "print",
                    "class": "fulmen.connectors.console.StdoutSink",
                    "config": {"format": {"type": "text"}},
                    "inputs": [{"from": "lines", "grouping": {"type": "shuffle"}}],
                }
            ],
        },
    }
    (tmp_path / "topology.yaml").write_text(yaml.safe_dump(document))
    command = [Path(sys.executable).with_name("fulmen"), "run", "topology.yaml", "--in-process"]
    done = subprocess.run(
        [*command, "--until-drained", "--checkpoint", "state"],
        cwd=tmp_path,
        input=LINES,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == LINES
    assert "3,000 acked, 0 failed" in done.stderr
