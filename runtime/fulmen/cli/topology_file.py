"""The options and the reading of a topology's file that several subcommands share."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fulmen.cli.python_file import is_python, read_python
from fulmen.cli.streams import tell
from fulmen.errors import CodeError
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.problems import Problem
from fulmen.topology.reading.assignments import set_values
from fulmen.topology.reading.documents import read_document
from fulmen.topology.reading.partial_document import rest_of
from fulmen.topology.resource.spec.pods import Code
from fulmen.topology.validation.check import Checked, check

code_folder_type = click.Path(path_type=Path, exists=True, file_okay=False)


@dataclass(frozen=True)
class TopologyFile:
    """A topology's file as a command line names it.

    Attributes:
        path: The file, in YAML or Python. Relative paths in it start from its folder.
        assignments: Changes to it, `path=value`.
        code_folder: Where the author's modules are, instead of where the topology says.
    """

    path: Path
    assignments: Sequence[str] = ()
    code_folder: Path | None = None

    def __str__(self) -> str:
        return str(self.path)

    def document(self) -> Any:
        """The document, with values changed.

        Raises:
            ValidationFailed: The file can't be read, is not YAML, or a path of an assignment leads
                nowhere.
            CodeError: A file in Python can't be imported, or defines no topology.
        """
        if is_python(self.path):
            for folder in (self.code_folder, self.path.parent):
                _keep_open(CodeFolder(folder))
            with redirect_stdout(sys.stderr):  # what the author's modules print is no part of ours
                document: Any = read_python(self.path)
        else:
            document = read_document(self.path)
        return set_values(document, self.assignments)

    def code(self, code: Code | None) -> CodeFolder:
        """The folder with the author's classes, of which the topology says this."""
        if self.code_folder is not None:
            return CodeFolder(self.code_folder)
        return CodeFolder.of(code, self.path.parent)

    def checked(
        self,
        document: Any = None,
        checkpoint_tasks: Mapping[str, int] | None = None,
        *,
        for_kubernetes: bool = False,
    ) -> Checked:
        """Find all mistakes. Raises what `document` does.

        Args:
            document: From `document`; None: it is read.
            checkpoint_tasks: The number of tasks of each component that has a checkpoint.
            for_kubernetes: What can't be right in pods is an error.
        """
        document = self.document() if document is None else document
        self._keep_modules(document)
        with redirect_stdout(sys.stderr):
            checked = check(
                document,
                self.code_folder,
                checkpoint_tasks,
                base=self.path.parent,
                for_kubernetes=for_kubernetes,
            )
        return _with_lines(checked, document) if is_python(self.path) else checked

    def _keep_modules(self, document: Any) -> None:
        """Have a folder's modules imported once by the command, not by each part of it."""
        code, own = rest_of(document)[0].code, self.code_folder
        try:
            _keep_open(CodeFolder(own) if own else CodeFolder.folder_of(code, self.path.parent))
        except CodeError:
            return  # which the check of the document tells


_COMPONENT = re.compile(r"spec\.(spouts|transactional|bolts)\[(\d+)\]")


def _with_lines(checked: Checked, document: Any) -> Checked:
    """The same problems, each with the line of the step of `fulmen.streams` that it is about."""
    graph = sys.modules.get("fulmen.streams.graph.registry")
    if graph is None:  # the room needs the engine, and nobody has imported it
        return checked

    def with_line(problem: Problem) -> Problem:
        if (match := _COMPONENT.match(problem.path)) is None:
            return problem
        name = document["spec"][match[1]][int(match[2])]["name"]
        place = graph.place_of(document["metadata"]["name"], name)
        return replace(problem, message=f"{place}: {problem.message}") if place else problem

    return replace(checked, problems=tuple(map(with_line, checked.problems)))


def _keep_open(folder: CodeFolder) -> None:
    context = click.get_current_context(silent=True)
    if context is None:  # called by a program: until that ends
        folder.__enter__()
    else:
        context.with_resource(folder)


def topology_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """FILE, --set and --code-folder; the command gets `file`."""

    @click.argument("file", type=click.Path(path_type=Path))
    @click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a value of the file: 'spec.bolts[count].parallelism=2'. May be repeated.",
    )
    @click.option(
        "--code-folder",
        type=code_folder_type,
        help="The folder with the Python files, instead of the one in spec.code.",
    )
    @wraps(command)
    def with_file(
        file: Path, assignments: Sequence[str], code_folder: Path | None, **others: Any
    ) -> None:
        command(file=TopologyFile(file, assignments, code_folder), **others)

    return with_file


def workers_option(command: Callable[..., None]) -> Callable[..., None]:
    """--workers, for a command that gets `file`."""

    @click.option("--workers", type=click.IntRange(1), help="Short for --set spec.workers=N.")
    @wraps(command)
    def with_workers(file: TopologyFile, workers: int | None, **others: Any) -> None:
        if workers is not None:
            file = replace(file, assignments=(*file.assignments, f"spec.workers={workers}"))
        command(file=file, **others)

    return with_workers


def tell_warnings(checked: Checked) -> None:
    """Print what to think about on stderr."""
    for warning in checked.warnings:
        tell(f"warning: {warning}")
