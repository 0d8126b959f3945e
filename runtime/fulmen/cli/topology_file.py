"""The options and the reading of a topology's file that several subcommands share."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from fulmen.cli.python_file import is_python, read_python
from fulmen.cli.streams import echo
from fulmen.errors import CodeError
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.reading.assignments import set_values
from fulmen.topology.reading.documents import read_document
from fulmen.topology.reading.partial_document import rest_of
from fulmen.topology.validation.check import Checked, check

F = TypeVar("F", bound=Callable[..., Any])


def topology_arguments(command: F) -> F:
    """FILE, --set and --code-folder; the command gets `file`, `assignments` and `code_folder`."""
    command = click.option(
        "--code-folder",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="The folder with the Python files, instead of the one in spec.code.",
    )(command)
    command = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a value of the file: 'spec.bolts[count].parallelism=2'. May be repeated.",
    )(command)
    return click.argument("file", type=click.Path(path_type=Path))(command)


def read_file(file: Path, assignments: Sequence[str], code_folder: Path | None) -> Any:
    """The document of a topology's file, in YAML or in Python, with values changed.

    Raises:
        ValidationFailed: The file can't be read, is not YAML, or a path of an assignment leads
            nowhere.
        CodeError: A file in Python can't be imported, or defines no topology.
    """
    if is_python(file):
        for folder in (code_folder, file.parent):
            _keep_open(CodeFolder(folder))
        with redirect_stdout(sys.stderr):  # what the author's modules print is no part of ours
            document: Any = read_python(file)
    else:
        document = read_document(file)
    return set_values(document, assignments)


def check_file(file: Path, assignments: Sequence[str], code_folder: Path | None) -> Checked:
    """Read a topology's file, change values, find all mistakes. Raises what `read_file` does."""
    document = read_file(file, assignments, code_folder)
    return check_document(document, file, code_folder)


def check_document(
    document: Any,
    file: Path,
    code_folder: Path | None,
    checkpoint_tasks: Mapping[str, int] | None = None,
    *,
    for_kubernetes: bool = False,
) -> Checked:
    """Find all mistakes in the document that came from `file`.

    Args:
        document: From `read_file`.
        file: What relative paths in it start from is the folder of this.
        code_folder: Where the author's modules are, instead of where the document says.
        checkpoint_tasks: The number of tasks of each component that has a checkpoint.
        for_kubernetes: What can't be right in pods is an error.
    """
    _keep_modules(document, file, code_folder)
    with redirect_stdout(sys.stderr):
        return check(
            document,
            code_folder,
            checkpoint_tasks,
            base=file.parent,
            for_kubernetes=for_kubernetes,
        )


def _keep_modules(document: Any, file: Path, code_folder: Path | None) -> None:
    """Have the modules of a document's folder imported once by the command, not by each part."""
    code = rest_of(document)[0].code
    try:
        _keep_open(
            CodeFolder(code_folder) if code_folder else CodeFolder.folder_of(code, file.parent)
        )
    except CodeError:
        return  # which the check of the document tells


def _keep_open(folder: CodeFolder) -> None:
    context = click.get_current_context(silent=True)
    if context is None:  # called by a program: until that ends
        folder.__enter__()
    else:
        context.with_resource(folder)


def tell_warnings(checked: Checked) -> None:
    """Print what to think about on stderr."""
    for warning in checked.warnings:
        echo(f"warning: {warning}", err=True)
