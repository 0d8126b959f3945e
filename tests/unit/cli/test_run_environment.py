"""`spec.driver.env` and `spec.worker.env` in `fulmen run`."""

import os

import pytest

from fulmen.cli.local.environment import environment_of
from support.cli_runs import write_letters

READS = """

SEEN_WHEN_IMPORTED = os.environ.get("GREETING")


class Reads(BasicBolt):
    def execute(self, tup, collector):
        self.state["names"] = [SEEN_WHEN_IMPORTED, *map(os.environ.get, ["GREETING", "OF_WORKER"])]
"""


def document(driver=(), worker=()):
    return {"spec": {"driver": {"env": list(driver)}, "worker": {"env": list(worker)}}}


def test_variables_of_the_spec_are_set_during_a_run_only(fulmen, tmp_path):
    grouping = {"type": "shuffle"}
    bolt = {"name": "reads", "class": "letters.Reads"}
    bolt["inputs"] = [{"from": "letters", "grouping": grouping}]
    file = write_letters(
        tmp_path,
        {"count": 10},
        bolts=[bolt],
        driver={"env": [{"name": "GREETING", "value": "hello"}]},
        worker={"env": [{"name": "OF_WORKER", "value": "mine"}]},
    )
    with open(tmp_path / "letters.py", "a") as code:
        code.write(READS)
    result = fulmen("run", file, "--in-process", "--until-drained", "--checkpoint", "kept")
    assert result.exit_code == 0, result.output
    assert fulmen("state", "kept", "reads").stdout == "names  ['hello', 'hello', 'mine']\n"
    assert "GREETING" not in os.environ
    assert "OF_WORKER" not in os.environ


def test_variables_of_workers_are_not_set_in_this_process(monkeypatch):
    monkeypatch.setenv("A", "before")
    environment = environment_of(
        document([{"name": "A", "value": "1"}, {"name": "E"}], [{"name": "B", "value": "2"}])
    )
    with environment.applied(in_process=False):
        assert [os.environ.get(name) for name in "AEB"] == ["1", "", None]
    assert [os.environ.get(name) for name in "AEB"] == ["before", None, None]
    assert environment.workers == {"B": "2"}


def test_values_of_a_cluster_are_taken_from_here(monkeypatch):
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "token"}}}
    assert environment_of(document([], [secret])).notes == [
        "spec.worker.env: 'TOKEN' comes from a cluster (valueFrom), and is not set here. Set it in "
        "the environment of this command"
    ]
    monkeypatch.setenv("TOKEN", "x")
    environment = environment_of(document([secret], [secret]))
    assert (environment.notes, environment.driver, environment.workers) == ([], {}, {})


@pytest.mark.parametrize(
    "wrong", [None, [], {"spec": None}, {"spec": {"driver": 3}}, document(["x"]), document([{}])]
)
def test_a_wrong_document_has_none(wrong):
    environment = environment_of(wrong)
    assert (environment.driver, environment.workers, environment.notes) == ({}, {}, [])
