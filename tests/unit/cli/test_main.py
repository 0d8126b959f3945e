"""How the command ends."""

import subprocess
import sys
from functools import partial

import click
import pytest

from fulmen.cli.main import ENGINES, MODULES, main
from fulmen.errors import CodeError, FulmenError
from support.docs.examples import EXAMPLES


@pytest.fixture
def failing(fulmen):
    """Runs a subcommand that raises an error."""

    def run(error):
        @click.command("failing")
        def command():
            raise error

        main.add_command(command)
        return fulmen("failing")

    yield run
    del main.commands["failing"]


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (FulmenError("worker 1 was lost."), 1, "Error: worker 1 was lost.\n"),
        (CodeError("no module", "Write one."), 2, "Error: no module. Write one.\n"),
        (
            click.UsageError("no file"),
            2,
            "Usage: fulmen failing [OPTIONS]\nTry 'fulmen failing --help' for help.\n\n"
            "Error: no file\n",
        ),
        (
            ZeroDivisionError("division by zero"),
            1,
            "Error: ZeroDivisionError: division by zero (for the traceback, set "
            "FULMEN_TRACEBACK=1)\n",
        ),
    ],
)
def test_errors_are_one_message(failing, error, code, stderr):
    result = failing(error)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", stderr)


def test_the_traceback_of_a_mistake_of_ours(failing, monkeypatch):
    monkeypatch.setenv("FULMEN_TRACEBACK", "1")
    assert isinstance(failing(ZeroDivisionError("x")).exception, ZeroDivisionError)


@pytest.mark.parametrize("arguments", [["plan"], ["valdate"], ["--nope"]])
def test_wrong_usage(fulmen, arguments):
    assert fulmen(*arguments).exit_code == 2


def test_version(fulmen):
    result = fulmen("--version")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "fulmen,")


def test_every_command_has_a_help(fulmen):
    assert fulmen("-h").exit_code == 0
    for name in MODULES:
        result = fulmen(name, "--help")
        assert (result.exit_code, result.stdout.startswith("Usage: fulmen")) == (0, True)


@pytest.fixture
def light(tmp_path):
    """Runs `fulmen` in a process of its own, without the packages of the extra `local`."""
    return partial(without, ENGINES, tmp_path)


def without(packages, folder, *arguments):
    """Run `fulmen` in a process of its own that lacks some packages."""
    refuse = f"""
import sys
from functools import partial

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(packages)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusing())
from fulmen.cli.main import main
main(prog_name="fulmen")
"""
    command = [sys.executable, "-c", refuse, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_without_an_engine_topologies_are_validated(light, tmp_path):
    (tmp_path / "wordcount.py").write_text((EXAMPLES / "word-count" / "wordcount.py").read_text())
    file = EXAMPLES / "word-count" / "topology.yaml"
    (tmp_path / "topology.yaml").write_text(file.read_text())
    done = light("validate", "topology.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert light("manifest", "topology.yaml").returncode == 0


@pytest.mark.slow
def test_without_an_engine_other_commands_say_what_to_install(light):
    done = light("run", "topology.yaml", "--until-drained")
    assert done.returncode == 2
    assert "which is not installed" in done.stderr
    assert "pip install 'CHECKOUT[local]'" in done.stderr
    assert "needs the extra 'local'" in light("--help").stdout


@pytest.mark.slow
def test_a_run_in_one_process_needs_no_pyspark(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("a word and a word")
    config = f"spec.spouts[lines].config.path={tmp_path / 'texts'}"
    file = str(EXAMPLES / "word-count" / "topology.yaml")
    run = ["run", file, "--until-drained", "--set", config]
    alone = without({"pyspark"}, tmp_path, *run, "--in-process")
    assert (alone.returncode, "Traceback" in alone.stderr) == (0, False)
    done = without({"pyspark"}, tmp_path, *run)
    assert done.returncode == 2
    assert "`fulmen run` needs the package pyspark, which is not installed" in done.stderr
