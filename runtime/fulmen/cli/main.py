"""The command `fulmen`: its subcommands, and how errors end it.

Each subcommand is in a module of its own, which is imported when it is needed: those that run
topologies need packages which are not installed everywhere.
"""

import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from fulmen.cli.bad_input import BAD_INPUT, BadInput
from fulmen.cli.streams import standard_streams
from fulmen.errors import CodeError, DeclarationError, FulmenError, ValidationFailed, install
from fulmen.visible import visible_lines

FAILURE = 1
INTERRUPTED = 130
"""The exit code in shells of a program that SIGINT ends: scripts tell it from a failure."""
TRACEBACK_VARIABLE = "FULMEN_TRACEBACK"
MODULES = {
    "activate": "cluster.lifecycle",
    "call": "call",
    "completion": "completion",
    "dead-letters": "letters.dead_letters",
    "deactivate": "cluster.lifecycle",
    "diff": "cluster.diff",
    "kill": "cluster.lifecycle",
    "image": "image",
    "init": "init",
    "list": "cluster.listing",
    "logs": "cluster.logs",
    "manifest": "manifest",
    "plan": "plan",
    "rebalance": "cluster.rebalance",
    "replay": "letters.replay",
    "run": "run",
    "savepoint": "savepoint",
    "state": "state.command",
    "tap": "cluster.tap",
    "top": "cluster.top",
    "ui": "cluster.ui",
    "validate": "validate",
    "wait": "cluster.wait",
    "why": "why",
}
"""Each subcommand, and its module in `fulmen.cli.commands`."""
ENGINES = frozenset(
    {
        *("msgpack", "msgspec", "numpy", "obstore", "orjson", "prometheus_client", "py4j"),
        *("pyarrow", "pyspark", "rocksdict"),
    }
)
"""What is missing if Fulmen was installed without its extra `local`."""


class _BadInput(click.ClickException):
    exit_code = BAD_INPUT


class _Failure(click.ClickException):
    exit_code = FAILURE


class _Group(click.Group):
    """Ends with one clear message on stderr instead of a traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program: it ends when nobody reads what it writes."""
        with standard_streams():
            return super().__call__(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return sorted({*MODULES, *super().list_commands(ctx)})

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a word. No subcommand is loaded for it: that would take too long."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(n) for n in self.list_commands(ctx) if n.startswith(incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A subcommand, if there is one of that name."""
        if cmd_name in MODULES and cmd_name not in self.commands:
            self.add_command(_load(cmd_name))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except (BadInput, ValidationFailed, CodeError, DeclarationError) as error:
            raise _BadInput(visible_lines(str(error))) from error
        except FulmenError as error:
            raise _Failure(visible_lines(str(error))) from error
        except KeyboardInterrupt:
            click.echo(file=sys.stderr)  # what follows ^C begins a line
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click deals with these
        except Exception as error:  # a mistake of ours, but for a package that is not there
            if (missing := _missing(error)) is not None:
                raise _BadInput(_uninstalled_text(str(ctx.invoked_subcommand), missing)) from error
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            hint = f"for the traceback, set {TRACEBACK_VARIABLE}=1"
            raise _Failure(visible_lines(f"{what} ({hint})")) from error


def _load(name: str) -> click.Command:
    """The subcommand, or one that says what has to be installed for it."""
    try:
        module = importlib.import_module(f"fulmen.cli.commands.{MODULES[name]}")
    except ModuleNotFoundError as error:
        if (missing := _missing(error)) is None:
            raise
        return _uninstalled(name, missing)
    command: click.Command = getattr(module, name.replace("-", "_"))
    return command


def _missing(error: Exception) -> str | None:
    """The package that was not found, if it is one of the extra `local`."""
    package = (getattr(error, "name", None) or "").partition(".")[0]
    return package if isinstance(error, ModuleNotFoundError) and package in ENGINES else None


def _uninstalled_text(name: str, missing: str) -> str:
    return (
        f"`fulmen {name}` needs the package {missing}, which is not installed. Install Fulmen"
        f" with what runs topologies, its extra 'local': {install('local')}."
    )


def _uninstalled(name: str, missing: str) -> click.Command:
    def tell(**_: object) -> None:
        raise BadInput(_uninstalled_text(name, missing))

    anything = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    text = "Not installed: needs the extra 'local' of Fulmen."
    return click.Command(
        name, callback=tell, params=[anything], help=text, context_settings=settings
    )


def _version() -> str:
    try:
        return version("fulmen")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


PLUGIN = "kubectl fulmen"
"""How users call it as a plugin of kubectl."""


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="fulmen")
def main() -> None:
    """Storm-style topologies on Apache Spark."""


def plugin() -> None:
    """Run the command as a plugin of kubectl: the program `kubectl-fulmen`."""
    main(prog_name=PLUGIN)


def complete_plugin() -> None:
    """Complete a word after `kubectl fulmen`: the program `kubectl_complete-fulmen`.

    kubectl's own completion calls it with all words, the last of which is not whole yet. It takes
    a line for each word that may come, and then a number: 4 is to name no files.
    """
    *words, incomplete = sys.argv[1:] or [""]
    completion = ShellComplete(main, {}, PLUGIN, "")
    for item in completion.get_completions(words, incomplete):
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        else:
            click.echo(":0")  # a file or a folder, which the shell knows
            return
    click.echo(":4")
