"""A run that is to be drained says what it waits for, and may give up."""

import json
import re

import pytest
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
    assert "- 2 messages of 'lines' failed (" in said  # also if they are on their way again
    assert f"and will be tried again; the last reason: {reason}" in said
    assert f" failed, such as: {reason}" in said.partition("- rows: ")[2]
    assert json.loads((tmp_path / "report.json").read_text())["trees"]["acked"] == 2


OWN = """
from fulmen import Bolt, Spout


class Endless(Spout):
    outputs = ["n"]
    knows_its_end = True

    def next_tuple(self):
        return False

    def is_exhausted(self):
        return False


class One(Endless):
    def open(self, conf, context, collector):
        self.collector, self.left = collector, [1]

    def next_tuple(self):
        if self.left:
            self.collector.emit([self.left.pop()], msg_id=1)
        return False

    def is_exhausted(self):
        return not self.left


class Holds(Bolt):
    outputs = []

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector

    def execute(self, tup):
        self.collector.ack(tup)
        self.context.hold_spouts("the bucket is away")


class Forgets(Holds):
    def execute(self, tup):
        pass
"""


@pytest.mark.parametrize(
    ("spout", "bolt", "said"),
    [
        ("Endless", "Holds", "spout 'numbers' has not said that it is at its end"),
        ("One", "Holds", "spouts rest, because 'last' holds them: the bucket is away"),
        ("One", "Forgets", "1 tree is pending: bolts have not acked all tuples"),
    ],
)
def test_a_run_that_gives_up_by_itself_says_what_it_has_waited_for(
    fulmen, tmp_path, monkeypatch, spout, bolt, said
):
    monkeypatch.setattr("fulmen.cli.commands.run.GIVE_UP_SECONDS", 0.2)
    (tmp_path / "own.py").write_text(OWN)
    spec = {
        "code": {"folder": "."},
        "spouts": [{"name": "numbers", "class": f"own.{spout}"}],
        "bolts": [
            {
                "name": "last",
                "class": f"own.{bolt}",
                "inputs": [{"from": "numbers", "grouping": {"type": "shuffle"}}],
            }
        ],
    }
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "t"}, "spec": spec}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))
    run = fulmen("run", "t.yaml", "--in-process", "--until-drained")
    assert run.exit_code == 1
    assert run.stderr.partition("What is committed stays.\n")[2] == f"- {said}\n"


QUEUE = """
from fulmen import Spout


class Queue(Spout):
    outputs = ["n"]

    def open(self, conf, context, collector):
        self.collector, self.left = collector, [1]

    def next_tuple(self):
        if not self.left:
            return False
        self.collector.emit([self.left.pop()], msg_id=1)
        return True
"""


@pytest.mark.slow  # by default it waits for some seconds
@pytest.mark.parametrize(
    ("options", "longer"),
    [([], ". To wait longer: --wait-for-more SECONDS"), (["--wait-for-more", "5"], "")],
)
def test_a_run_says_whose_end_it_has_assumed(fulmen, tmp_path, options, longer):
    (tmp_path / "own.py").write_text(QUEUE)
    spec = {"code": {"folder": "."}, "spouts": [{"name": "queue", "class": "own.Queue"}]}
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "t"}, "spec": spec}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))
    run = fulmen("run", "t.yaml", "--in-process", "--until-drained", *options)
    assert run.exit_code == 0
    (said,) = re.findall(
        r"'queue' doesn't know the end of the input: that nothing came for ([\d.]+) s was taken for"
        r" it(.*)\n",
        run.stderr,
    )
    assert float(said[0]) >= (5 if options else 2)
    assert said[1] == longer


def test_to_wait_for_more_is_an_option_of_until_drained(fulmen, tmp_path):
    (tmp_path / "t.yaml").write_text("")
    run = fulmen("run", "t.yaml", "--wait-for-more", "5")
    assert run.exit_code == 2
    assert "--wait-for-more says when --until-drained ends: give both." in run.stderr
