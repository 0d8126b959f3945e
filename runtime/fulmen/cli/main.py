"""The command `fulmen`: its subcommands, and how errors end it.

Each subcommand is a module of its own, and is added to the group here.
"""

import io
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from fulmen.cli import BAD_INPUT, FAILURE, BadInput
from fulmen.cli.commands.lifecycle import activate, deactivate, kill
from fulmen.cli.commands.manifest import manifest
from fulmen.cli.commands.plan import plan
from fulmen.cli.commands.rebalance import rebalance
from fulmen.cli.commands.run import run
from fulmen.cli.commands.state import state
from fulmen.cli.commands.top import top
from fulmen.cli.commands.validate import validate
from fulmen.errors import CodeError, DeclarationError, FulmenError, ValidationFailed

TRACEBACK_VARIABLE = "FULMEN_TRACEBACK"


class _BadInput(click.ClickException):
    exit_code = BAD_INPUT


class _Failure(click.ClickException):
    exit_code = FAILURE


class _Group(click.Group):
    """Ends with one clear message on stderr instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        if isinstance(sys.stdout, io.TextIOWrapper):  # not every name of a file can be written
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except (BadInput, ValidationFailed, CodeError, DeclarationError) as error:
            raise _BadInput(str(error)) from error
        except FulmenError as error:
            raise _Failure(str(error)) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click deals with these
        except Exception as error:  # a mistake of ours
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            hint = f"for the traceback, set {TRACEBACK_VARIABLE}=1"
            raise _Failure(f"{what} ({hint})") from error


def _version() -> str:
    try:
        return version("fulmen")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="fulmen")
def main() -> None:
    """Storm-style topologies on Apache Spark."""


main.add_command(activate)
main.add_command(deactivate)
main.add_command(kill)
main.add_command(manifest)
main.add_command(plan)
main.add_command(rebalance)
main.add_command(run)
main.add_command(state)
main.add_command(top)
main.add_command(validate)
