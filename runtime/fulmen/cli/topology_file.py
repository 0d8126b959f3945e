"""The options and the reading of a topology's file that several subcommands share."""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from fulmen.topology.documents import read_document
from fulmen.topology.validation import Checked, check
from fulmen.topology.values import set_values

F = TypeVar("F", bound=Callable[..., Any])


def topology_arguments(command: F) -> F:
    """FILE, --set and --code-folder; the command gets `file`, `assignments` and `code_folder`."""
    command = click.option(
        "--code-folder",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Where the Python files are, instead of where spec.code says.",
    )(command)
    command = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a value of the file, as in spec.bolts[count].parallelism=2. May be repeated.",
    )(command)
    return click.argument("file", type=click.Path(path_type=Path))(command)


def check_file(file: Path, assignments: Sequence[str], code_folder: Path | None) -> Checked:
    """Read a topology's file, change values, and find all mistakes.

    Raises: ValidationFailed: The file can't be read, is not YAML, or a path of an assignment leads
        nowhere.
    """
    document = set_values(read_document(file), assignments)
    with redirect_stdout(sys.stderr):  # what the author's modules print is no part of our output
        return check(document, code_folder, base=file.parent)


def tell_warnings(checked: Checked) -> None:
    """Print what to think about on stderr."""
    for warning in checked.warnings:
        click.echo(f"warning: {warning}", err=True)
