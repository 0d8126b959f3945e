"""How the command ends."""

import click
import pytest

from fulmen.cli.main import main
from fulmen.errors import CodeError, FulmenError


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
    for name in main.commands:
        result = fulmen(name, "--help")
        assert (result.exit_code, result.stdout.startswith("Usage: fulmen")) == (0, True)
