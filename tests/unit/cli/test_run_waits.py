"""A run that is to be drained says what it waits for, and may give up."""

import json
import re

import yaml

from fulmen.topology.resource.spec import API_VERSION, KIND

SPEC = """
spouts:
  - name: lines
    class: fulmen.connectors.files.FileSpout
    config: {path: lines, follow: false}
bolts:
  - name: rows
    class: fulmen.connectors.sqlite.SqliteSink
    inputs: [{from: lines, grouping: {type: shuffle}}]
    config: {path: rows.db, table: rows, create: {value: TEXT CHECK (value != 'bad')}}
"""


def test_a_run_that_waits_for_messages_that_always_fail_gives_up_and_names_them(fulmen, tmp_path):
    (tmp_path / "lines").write_text("good\nbad\nworse\nbad\n")
    spec = yaml.safe_load(SPEC)
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "t"}, "spec": spec}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))
    options = ["--until-drained", "--give-up-after", "0.5", "--report", "report.json"]
    run = fulmen("run", "t.yaml", "--in-process", *options)
    assert run.exit_code == 1
    reason = "CHECK constraint failed: value != 'bad'"
    said = run.stderr.partition("Error: ")[2]
    assert said.startswith("it is not drained, and nothing was acked or newly emitted for ")
    # One of the two may be on its way again at that moment.
    assert re.search(r"- (2 messages|1 message) of 'lines' failed \(", said)
    assert f"and will be tried again; the last reason: {reason}" in said
    assert f" failed, such as: {reason}" in said.partition("- rows: ")[2]
    assert json.loads((tmp_path / "report.json").read_text())["trees"]["acked"] == 2
