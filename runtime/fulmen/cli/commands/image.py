"""`fulmen image`: a Dockerfile for a project that is to have an image of its own."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import echo
from fulmen.cli.topology_file import TopologyFile, topology_arguments
from fulmen.cli.wheels import (
    REQUIREMENTS,
    dependencies_in,
    requirement_files,
    requirements_in,
)
from fulmen.errors import CodeError
from fulmen.kube.contract import CODE_FOLDER, USER_ID
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.code.packages import normalized
from fulmen.topology.reading.partial_document import rest_of

DOCKERFILE: Final = "Dockerfile"
IGNORE_FILE: Final = ".dockerignore"
IGNORED: Final = (
    "**/.*",
    "**/__pycache__",
    "**/*.pyc",
    "**/conftest.py",
    "**/test_*.py",
    "**/*_test.py",
    "**/pyvenv.cfg",
    "**/site-packages",
    "**/conda-meta",
    "**/node_modules",
    "tests",
)
"""Files that an archive of the project does not have, either."""


@click.command(short_help="Write a Dockerfile for a project.")
@topology_arguments
@click.option(
    "--from",
    "base",
    metavar="IMAGE",
    help="Fulmen's image, as your registry calls it. Default: fulmen and this version.",
)
def image(file: TopologyFile, base: str | None) -> None:
    """Write a Dockerfile for the project of FILE: its code, and the packages that it asks for.

    It is written beside FILE, with a .dockerignore if there is none. Files that are there are left
    alone.
    """
    folder = _code_folder(file)
    context = file.path.resolve().parent
    if not folder.is_relative_to(context):
        context = folder
    found = requirements_in([folder, context])
    base = base or f"fulmen:{version('fulmen')}"
    lines = [f"FROM {base}", *_steps(context, folder, found)]
    _write(context / DOCKERFILE, lines)
    if not (context / IGNORE_FILE).exists():
        _write(context / IGNORE_FILE, IGNORED)
    echo(f"{context / DOCKERFILE}: continue with")
    echo(f"  docker build --tag IMAGE {shlex.quote(str(context))}")
    echo(f"  fulmen manifest {shlex.quote(str(file))} --image IMAGE | kubectl apply -f -")


def _code_folder(file: TopologyFile) -> Path:
    if file.code_folder is not None:
        return file.code_folder.resolve()
    code = rest_of(file.document())[0].code
    if code is None or code.folder is None:
        raise BadInput(f"'{file}' names no folder in spec.code. Name one: --code-folder.")
    try:
        folder = CodeFolder.folder_of(code, file.path.parent).path
    except CodeError as error:
        raise BadInput(f"spec.code.folder: {error}") from error
    assert folder is not None
    return folder


def _steps(context: Path, folder: Path, requirements: Path | None) -> Iterator[str]:
    """Yield the steps after FROM. Only root may install packages; only the pods' user may run."""
    sources, taken_in = [folder], []
    install = ""
    if requirements is not None and requirements.name == REQUIREMENTS:
        sources = [folder] if requirements.parent == folder else [requirements, folder]
        taken_in = _taken_in(context, folder, requirements)
        install = f"--requirement {CODE_FOLDER}/{REQUIREMENTS}"
    elif requirements is not None:
        needed = [
            requirement
            for requirement in dependencies_in(requirements) or ()
            if normalized(re.split(r"[^A-Za-z0-9._-]", requirement.strip())[0]) != "fulmen"
        ]
        install = " ".join(shlex.quote(requirement) for requirement in needed)
    if install:
        yield "USER root"
    yield _copied([path.relative_to(context) for path in sources])
    for name in taken_in:
        yield _copied([name], f"{CODE_FOLDER}/{name.as_posix()}")
    if install:
        yield f"RUN pip install --no-cache-dir {install} && pip check"
        yield f"USER {USER_ID}"


def _taken_in(context: Path, folder: Path, requirements: Path) -> list[Path]:
    """The files that a requirements.txt beside the code takes in, by their names in the context."""
    beside = requirements.parent != folder
    root = context if beside else folder
    files = requirement_files(requirements)[1:]
    if outside := [str(file) for file in files if not file.is_relative_to(root)]:
        raise BadInput(
            f"'{requirements}' includes files outside of '{root}':"
            f" {', '.join(outside)}. Put it there."
        )
    return [file.relative_to(context) for file in files] if beside else []


def _copied(sources: list[Path], into: str = f"{CODE_FOLDER}/") -> str:
    """A COPY of files and of folders' contents. Blanks in a name need the form of a list."""
    words = [*(path.as_posix() for path in sources), into]
    if any(" " in word for word in words):
        return f"COPY {json.dumps(words)}"
    return f"COPY {' '.join(words)}"


def _write(file: Path, lines: "tuple[str, ...] | list[str]") -> None:
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
    except FileExistsError as error:
        raise BadInput(f"there is a '{file}' already. Remove it, to have it written.") from error
    except OSError as error:
        raise BadInput(f"'{file}' can't be written: {error.strerror}.") from error
