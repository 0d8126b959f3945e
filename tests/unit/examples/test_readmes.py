"""Each example does in one process what its README says that it does on Spark."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fulmen.cli.main import main
from support.examples import EXAMPLES, NAMES, commands, linked_examples
from support.pages import ROOT, links

BY_ITSELF = [name for name in NAMES if name != "http-lookup"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Puts an example into a folder of its own, which becomes the current one."""

    def use(name):
        folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        return folder

    return use


OPTIONS = {"join": ["--set", "spec.bolts[join].tickSeconds=0.1"]}  # a unit test does not wait


def output_of(line, options):
    """What a command line prints: `fulmen` in this process, and what its output is piped into."""
    command, _, rest = line.partition(" | ")
    program, *arguments = shlex.split(command)
    assert program == "fulmen"
    if arguments[0] == "run":
        arguments += ["--in-process", *options]
    result = CliRunner().invoke(main, arguments, prog_name="fulmen")
    assert result.exit_code == 0, result.output
    if not rest:
        return result.stdout
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        rest,
        shell=True,
        input=result.stdout,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path},
    )
    return done.stdout


@pytest.mark.parametrize("name", BY_ITSELF)
def test_the_output_is_that_of_the_readme(name, folder):
    folder(name)
    for line, output in commands(name):
        assert output_of(line, OPTIONS.get(name, [])) == output


def test_every_example_is_in_the_table():
    folders = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
    assert linked_examples() == folders


@pytest.mark.parametrize("page", sorted(str(p.relative_to(ROOT)) for p in EXAMPLES.rglob("*.md")))
def test_links_lead_somewhere(page):
    for target in links(page):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_an_example_is_short(name):
    lines = sum(
        len(re.findall(r"\S.*\n", p.read_text())) for p in Path(EXAMPLES, name).glob("*.py")
    )
    assert lines < 120
