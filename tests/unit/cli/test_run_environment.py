"""`spec.env`, `driver.env` and `worker.env` in `fulmen run`, and `${NAME}` in `config`."""

import os
import time

import pytest

from fulmen.cli.local.environment import Where, environment_of
from support.cli.cli_runs import write_letters

READS = """

SEEN_WHEN_IMPORTED = os.environ.get("GREETING")


class Reads(BasicBolt):
    def execute(self, tup, collector):
        self.state["names"] = [SEEN_WHEN_IMPORTED, *map(os.environ.get, ["GREETING", "OF_WORKER"])]
"""


def document(driver=(), worker=(), both=()):
    pods = {"driver": {"env": list(driver)}, "worker": {"env": list(worker)}}
    return {"spec": {"env": list(both), **pods}}


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
    assert fulmen("state", "get", "kept", "reads").stdout == "names  ['hello', 'hello', 'mine']\n"
    assert "GREETING" not in os.environ
    assert "OF_WORKER" not in os.environ


def test_variables_of_workers_are_not_set_in_this_process(monkeypatch):
    monkeypatch.setenv("A", "before")
    environment = environment_of(
        document([{"name": "A", "value": "1"}, {"name": "E"}], [{"name": "B", "value": "2"}])
    )
    with environment.applied(Where.SPARK):
        assert [os.environ.get(name) for name in "AEB"] == ["1", "", None]
    assert [os.environ.get(name) for name in "AEB"] == ["before", None, None]
    assert environment.workers == {"B": "2"}


def test_a_time_zone_counts_in_this_process_as_in_workers(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    with environment_of(document([{"name": "TZ", "value": "Asia/Tokyo"}], [])).applied(
        Where.IN_PROCESS
    ):
        assert time.localtime(0).tm_hour == 9
    assert time.localtime(0).tm_hour == 0


def test_values_of_a_cluster_are_taken_from_here(monkeypatch):
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "token"}}}
    assert environment_of(document([], [secret])).notes == [
        "spec.worker.env: 'TOKEN' comes from a cluster (valueFrom), and is not set here. Set it in "
        "the environment of this command"
    ]
    monkeypatch.setenv("TOKEN", "x")
    environment = environment_of(document([secret], [secret]))
    assert (environment.notes, environment.driver, environment.workers) == ([], {}, {})


def test_variables_of_the_spec_are_for_both(monkeypatch):
    both = [{"name": name, "value": "both"} for name in "ABC"]
    both.append({"name": "D", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "d"}}})
    mine = {"name": "B", "value": "driver"}, {"name": "C", "value": "worker"}
    environment = environment_of(document([mine[0]], [mine[1]], both))
    assert environment.driver == {"A": "both", "B": "driver", "C": "both"}
    assert environment.workers == {"A": "both", "B": "both", "C": "worker"}
    assert environment.notes == [
        "spec.env: 'D' comes from a cluster (valueFrom), and is not set here. Set it in the "
        "environment of this command"
    ]


@pytest.mark.parametrize(
    "wrong",
    [None, [], {"spec": None}, {"spec": {"driver": 3, "env": 3}}, document(["x"]), document([{}])],
)
def test_a_wrong_document_has_none(wrong):
    environment = environment_of(wrong)
    assert (environment.driver, environment.workers, environment.notes) == ({}, {}, [])


PRINTS = """

from pydantic import BaseModel


class Options(BaseModel):
    text: str
    size: int = 1


class Prints(BasicBolt):
    config_model = Options

    def execute(self, tup, collector):
        self.state["options"] = self.context.options.size, len(self.context.options.text)

    def prepare(self, conf, context):
        self.context = context
"""


def with_prints(folder, config, **spec):
    bolt = {"name": "prints", "class": "letters.Prints", "config": config}
    bolt["inputs"] = [{"from": "letters", "grouping": {"type": "shuffle"}}]
    file = write_letters(folder, {"count": 10}, bolts=[bolt], **spec)
    with open(folder / "letters.py", "a") as code:
        code.write(PRINTS)
    return file


def test_a_variable_that_is_not_set_is_found_before_the_run(fulmen, tmp_path):
    config = {"text": "${SECRET_A} ${SECRET_B} ${SECRET_C:-c}"}
    file = with_prints(tmp_path, config, env=[{"name": "SECRET_B", "value": "1"}])
    assert fulmen("validate", file).exit_code == 0
    result = fulmen("run", file, "--in-process", "--until-drained", "--checkpoint", "kept")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: spec.bolts[0].config.text: bolt 'prints': the environment variable 'SECRET_A' is "
        "not set. Set it (on Kubernetes in spec.env), or give a default: ${SECRET_A:-value}.\n"
    )
    assert not (tmp_path / "kept").exists()


def test_a_variable_of_all_components_is_told_once(fulmen, tmp_path):
    file = with_prints(tmp_path, {"text": "x"})
    result = fulmen("run", file, "--in-process", "--set", "spec.config.x=${SECRET_A}")
    assert result.stderr == (
        "Error: spec.config.x: the environment variable 'SECRET_A' is not set. Set it (on "
        "Kubernetes in spec.env), or give a default: ${SECRET_A:-value}.\n"
    )


def test_a_value_that_is_not_right_is_found_before_the_run(fulmen, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_SIZE", "many-of-them")
    result = fulmen("run", with_prints(tmp_path, {"text": "", "size": "${SECRET_SIZE}"}))
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: spec.bolts[0].config.size: bolt 'prints': size is '${SECRET_SIZE}', but must be a "
        "whole number. It is the value of the environment variable SECRET_SIZE.\n"
    )


def test_values_of_workers_count_for_what_they_host(fulmen, tmp_path):
    worker = {"env": [{"name": "SECRET_TEXT", "value": "12345"}]}
    file = with_prints(
        tmp_path,
        {"text": "${SECRET_TEXT}", "size": "${SECRET_SIZE}"},
        worker=worker,
        env=[{"name": "SECRET_SIZE", "value": "7"}],
    )
    result = fulmen("run", file, "--in-process", "--until-drained", "--checkpoint", "kept")
    assert result.exit_code == 0, result.output
    assert fulmen("state", "get", "kept", "prints").stdout == "options  (7, 5)\n"
