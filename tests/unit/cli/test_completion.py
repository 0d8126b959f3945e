"""What shells complete, and the command as a plugin of kubectl."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from fulmen.cli import main as main_module
from fulmen.cli.commands.completion import SHELLS
from fulmen.cli.main import MODULES, main
from support.cli.fake_kubectl import Fails, topology
from support.docs.pages import ROOT


def complete(*words):
    """What may come in place of the last word."""
    *before, incomplete = words
    found = ShellComplete(main, {}, "fulmen", "").get_completions(before, incomplete)
    return [item.value for item in found]


def test_subcommands_are_completed_without_loading_any():
    assert complete("") == sorted(MODULES)
    assert complete("reb") == ["rebalance"]
    assert complete("--ver") == ["--version"]


def test_options_of_a_subcommand_are_completed():
    assert "--all-namespaces" in complete("list", "--a")
    assert complete("logs", "x", "--role", "dr") == ["driver"]


def test_names_of_topologies_are_asked_for_where_the_options_lead(kubectl):
    kubectl.answer({"items": [topology("shop"), topology("sales"), topology("other")]})
    assert complete("kill", "--namespace", "blue", "--context", "dev", "s") == ["shop", "sales"]
    assert kubectl.asked[0][:2] == ["--context=dev", "--namespace=blue"]


def test_a_cluster_that_does_not_answer_completes_nothing(kubectl):
    kubectl.answer_each({"get": Fails("Unable to connect to the server: EOF")})
    assert complete("wait", "s") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_the_script(fulmen, shell):
    result = fulmen("completion", shell)
    assert result.exit_code == 0, result.output
    assert "_FULMEN_COMPLETE=" in result.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=result.stdout, text=True, check=True)


def test_bash_completes_words_of_the_command(fulmen, tmp_path):
    script = tmp_path / "completion"
    script.write_text(fulmen("completion", "bash").stdout)
    lines = (
        f"source {script}",
        "COMP_WORDS=(fulmen ma) COMP_CWORD=1",
        "_fulmen_completion fulmen",
        'echo "${COMPREPLY[@]}"',
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["manifest"]


def test_kubectl_finds_the_plugin_and_what_completes_its_words():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-fulmen"] == f"{main_module.__name__}:{main_module.plugin.__name__}"
    completes = f"{main_module.__name__}:{main_module.complete_plugin.__name__}"
    assert scripts["kubectl_complete-fulmen"] == completes


def test_the_plugin_is_the_same_command_by_another_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-fulmen", "wait", "--help"])
    with pytest.raises(SystemExit):
        main_module.plugin()
    assert capsys.readouterr().out.startswith("Usage: kubectl fulmen wait [OPTIONS] NAME")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ([], [*sorted(MODULES), ":4"]),
        (["ki"], ["kill", ":4"]),
        (["logs", "x", "--role", "w"], ["worker", ":4"]),
        (["validate", "top"], [":0"]),
    ],
)
def test_kubectl_is_told_what_may_come_next(monkeypatch, capsys, words, lines):
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-fulmen", *words])
    main_module.complete_plugin()
    assert capsys.readouterr().out.splitlines() == lines


def test_every_name_of_a_topology_on_a_cluster_can_be_completed():
    context = click.Context(main)
    names = {
        parameter
        for command in MODULES
        if MODULES[command].startswith("cluster.")
        for parameter in main.get_command(context, command).params
        if parameter.name == "name"
    }
    assert len(names) > 5
    assert all(name._custom_shell_complete for name in names)
