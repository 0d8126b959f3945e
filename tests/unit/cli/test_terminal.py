"""What data and components say does not control the terminal, and forges no lines."""

import json

import pytest
import yaml

HOSTILE = """
from fulmen import BasicBolt, Spout

EVIL = "\\x1b[2J\\x00gone\\r\\nError: forged\\x9b1m\\u202e"

class Words(Spout):
    outputs = ["word"]
    n = 0
    def open(self, conf, context, collector):
        self.collector = collector
    def next_tuple(self):
        if self.n < 2:
            self.n += 1
            self.collector.emit([EVIL], msg_id=self.n)
    def is_exhausted(self):
        return self.n == 2

class Counts(BasicBolt):
    outputs = []
    def prepare(self, conf, context):
        self.field = EVIL
    def execute(self, tup, collector):
        self.state[tup["word"]] = EVIL
        if self.state.get("seen"):
            raise ValueError(EVIL)
        self.state["seen"] = True
"""


@pytest.fixture
def ran(fulmen, tmp_path):
    """How a run ended whose data and errors are hostile."""
    (tmp_path / "hostile_words.py").write_text(HOSTILE)
    inputs = [{"from": "words", "grouping": {"type": "global"}}]
    bolt = {"name": "counts", "class": "hostile_words.Counts", "inputs": inputs}
    document = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "words"},
        "spec": {
            "maxReplays": 0,
            "code": {"folder": "."},
            "spouts": [{"name": "words", "class": "hostile_words.Words"}],
            "bolts": [bolt],
        },
    }
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))
    options = ["--in-process", "--until-drained", "--checkpoint", "kept", "--report", "r.json"]
    return fulmen("run", "t.yaml", *options)


def is_harmless(text):
    lines = text.split("\n")
    return not set(text) & set("\x00\r\x1b\x9b\u202e") and "Error: forged" not in lines


def test_a_run_its_log_and_what_is_read_of_it_obey_no_data(ran, fulmen, tmp_path):
    assert ran.exit_code == 0
    shown = "\\u001b[2J\\u0000gone Error: forged\\u009b1m\\u202e"
    assert f"error in 'counts', task 2: execute: ValueError: {shown}\n" in ran.stderr
    assert f"such as: bolt 'counts': execute: ValueError: {shown}\n" in ran.stdout
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    why = fulmen("why", "--report", "r.json")
    assert f"ValueError: {shown}" in why.stdout
    state = [
        fulmen("state", "get", "kept", "counts", *options) for options in ([], ["--kind", "fields"])
    ]
    for text in (ran.stderr, ran.stdout, log.read_text(), why.stdout, *(s.stdout for s in state)):
        assert is_harmless(text)


def test_state_as_json_is_harmless_and_complete(ran, fulmen):
    content = fulmen("state", "get", "kept", "counts", "-o", "json").stdout
    evil = "\x1b[2J\x00gone\r\nError: forged\x9b1m\u202e"
    assert [(e["key"], e["value"]) for e in json.loads(content) if e["key"] != "seen"] == [
        (evil, evil)
    ]
    assert is_harmless(content)


def test_an_error_that_ends_the_command_is_harmless(fulmen, tmp_path):
    (tmp_path / "t.yaml").write_text('kind: Topology\nmetadata: {name: "\\e[2J\\u202e"}\nspec: {}')
    result = fulmen("validate", "t.yaml")
    assert result.exit_code == 2
    assert is_harmless(result.stderr)
