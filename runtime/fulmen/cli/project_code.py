"""The part of a project that goes along to a cluster: its own files, and packages of others."""

import importlib
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import tell
from fulmen.cli.topology_file import TopologyFile
from fulmen.cli.wheels import PROJECT, REQUIREMENTS, Target, requirements_of, unpack_wheels
from fulmen.errors import CodeError
from fulmen.own_files import PrivateFolder
from fulmen.topology.code.packages import FOLDER, fits_here
from fulmen.topology.code.packing import led_out, left_behind, pack, project_files
from fulmen.topology.reading.partial_document import rest_of
from fulmen.topology.resource.spec.pods import Code

_SHOWN_LINKS = 5


@dataclass(frozen=True)
class Packages:
    """Which packages of others go along: what the project asks for, or `requirements`."""

    wanted: bool
    requirements: Path | None
    target: Target


@dataclass(frozen=True)
class Bundle:
    """Packages of others by their names in an archive, and the file that asks for them."""

    files: Mapping[str, Path] = field(default_factory=dict)
    asked_by: Path | None = None


@dataclass(frozen=True)
class Project:
    """The code of a folder; its files by the names that they have in an archive."""

    folder: Path
    files: Mapping[str, Path]


def _has_folder(code: Code | None, file: TopologyFile) -> bool:
    """Whether the code is here, and not in a ConfigMap, a store or an image."""
    return file.code_folder is not None or (code is not None and bool(code.folder or code.files))


@contextmanager
def bundled(document: Any, file: TopologyFile, packages: Packages) -> Iterator[Bundle]:
    """The packages of others that a project asks for, for as long as it is open.

    What can be imported here is: so the topology can be checked on a machine that does not have
    them.

    Raises:
        BadInput: Nothing says what is asked for, or a package can't be had.
    """
    code = rest_of(document)[0].code
    if not packages.wanted or not _has_folder(code, file):
        yield Bundle()
        return
    base = file.path.parent
    own = file.code_folder or base / ((code and code.folder) or ".")
    asked_by = packages.requirements or requirements_of([own, base])
    with PrivateFolder("packages") as private:
        folder, name = private.path, str(private.path)
        made_for = unpack_wheels(asked_by, folder, packages.target)
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        if fits_here(made_for):
            sys.path.append(name)
            importlib.invalidate_caches()
        try:
            names = {f"{FOLDER}/{path.relative_to(folder).as_posix()}": path for path in found}
            yield Bundle(names, asked_by)
        finally:
            if name in sys.path:
                sys.path.remove(name)


@contextmanager
def project_of(
    code: Code | None,
    file: TopologyFile,
    include: Sequence[str],
    bundle: Bundle,
    but: Iterable[Path] = (),
) -> Iterator[Project | None]:
    """The code of a topology's folder, with what goes along; None if it is elsewhere."""
    if not _has_folder(code, file):
        yield None
        return
    with file.code(code) as folder:
        assert folder.path is not None
        refused = {path.resolve() for path in but}
        found = [f for f in _files_of(folder.path, include) if not _is_output(f)]
        files = [f for f in found if f.resolve() not in refused]
        useless = {file.path, *refused}
        if bundle.asked_by is not None:
            useless |= {bundle.asked_by, folder.path / PROJECT}
        left = left_behind(folder.path, files, but=useless)
        _tell_left(folder.path, [name for name in left if not _is_output(folder.path / name)])
        names = {path.relative_to(folder.path).as_posix(): path for path in files}
        yield Project(folder.path, {**names, **bundle.files})


def _is_output(path: Path) -> bool:
    """Whether a file is what this command is writing, as `fulmen manifest FILE > out.yaml` does."""
    try:
        return path.samefile(f"/dev/fd/{sys.__stdout__.fileno()}") if sys.__stdout__ else False
    except (OSError, ValueError):  # it is no file, or there is no such folder on this system
        return False


def write_packed(project: Project, into: BinaryIO) -> None:
    """Write a project as an archive. Raises BadInput if a file can't be read, or it be written."""
    try:
        pack(project.files, into)
    except OSError as error:
        what = f"'{error.filename}' can't be read" if error.filename else "it can't be written"
        raise BadInput(f"{what}: {error.strerror}.") from error


def _tell_left(folder: Path, left: Sequence[str]) -> None:
    if not left:
        return
    wheels = " --wheels takes the packages along that they ask for."
    tell(
        f"warning: only Python files and packages are taken along, so these of '{folder}' will be"
        f" missing: {', '.join(left)}. If the code needs some of them, add --include NAME."
        f"{wheels if {REQUIREMENTS, PROJECT} & {*left} else ''}"
    )


def _files_of(folder: Path, include: Sequence[str]) -> list[Path]:
    try:
        found = project_files(folder, include)
    except CodeError as error:
        raise BadInput(f"--include: {error}") from error
    if led := led_out(folder, found, include):
        links = [f"{name} -> {target}" for name, target in sorted(led.items())]
        more = f" and {len(links) - _SHOWN_LINKS} more" if len(links) > _SHOWN_LINKS else ""
        raise BadInput(
            f"links in the folder '{folder}' lead out of it, or to hidden files:"
            f" {', '.join(links[:_SHOWN_LINKS])}{more}. What they lead to would be in the ConfigMap"
            " or archive. Remove them, or name those that are meant:"
            f" --include {shlex.quote(min(led))}."
        )
    if not any(path.suffix == ".py" for path in found):
        raise BadInput(f"the folder '{folder}' has no Python files.")
    return found
