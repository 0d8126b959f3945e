"""`fulmen manifest`: a topology as Kubernetes takes it, with the code of a local folder."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from fulmen.cli.bad_input import BadInput
from fulmen.cli.topology_file import check_document, read_file, tell_warnings, topology_arguments
from fulmen.errors import CodeError
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.code.packing import CODE, left_behind, pack, project_files
from fulmen.topology.reading.documents import dump_yaml, to_yaml
from fulmen.topology.reading.field_problems import translate
from fulmen.topology.resource.pods import ARCHIVE_NAME, FILE_NAME, MAX_CODE_BYTES, Code
from fulmen.topology.resource.spec import Topology

OWN_IMAGE = "put the code into an image of your own instead, FROM Fulmen's, and leave spec.code out"
SHOWN_FILES = 5
CLIENT_SIDE_BYTES = 256 * 1024
"""`kubectl apply` notes all of an object in an annotation, and all annotations may have so much."""
SERVER_SIDE = (
    "warning: the code is too large for a plain `kubectl apply`: use"
    " `kubectl apply --server-side -f -`."
)


@dataclass(frozen=True)
class Source:
    """The code of a folder, as a resource or a ConfigMap has it: one of the two.

    Attributes:
        files: Python files and schemas by name, if there is nothing else.
        archive: All files, packed.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    archive: bytes = b""

    @property
    def content(self) -> dict[str, Any]:
        """The part of a ConfigMap."""
        if self.archive:
            return {"binaryData": {ARCHIVE_NAME: base64.b64encode(self.archive).decode()}}
        return {"data": dict(self.files)}

    @property
    def digest(self) -> str:
        """Another one for other code."""
        packed = self.archive or json.dumps(dict(self.files), sort_keys=True).encode()
        return hashlib.sha256(packed).hexdigest()[:10]


@click.command(short_help="Print a topology for kubectl apply.")
@topology_arguments
@click.option(
    "--config-map/--inline",
    default=True,
    help="Put the code into a ConfigMap NAME-source-…, printed before the topology, or into the"
    " topology itself, which has room for Python files only. Default: --config-map.",
)
@click.option(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Take more files or folders of the code folder along, such as 'data/*.csv'. May be given"
    " several times.",
)
def manifest(
    file: Path,
    assignments: tuple[str, ...],
    code_folder: Path | None,
    config_map: bool,
    include: tuple[str, ...],
) -> None:
    """Print the topology of FILE as Kubernetes takes it, for `kubectl apply -f -`.

    A cluster has no code folder: a ConfigMap with its Python files and packages is printed before
    the topology.
    """
    document = read_file(file, assignments, code_folder)
    checked = check_document(document, file, code_folder, for_kubernetes=True)
    tell_warnings(checked)
    topology = checked.topology()
    source = _source_of(topology, file, code_folder, include)
    if source is None:
        click.echo(to_yaml(topology), nl=False)
    elif config_map:
        found = _config_map(topology, source)
        if len(json.dumps(found)) > CLIENT_SIDE_BYTES:
            click.echo(SERVER_SIDE, err=True)
        code = Code(config_map=found["metadata"]["name"])
        click.echo(f"{dump_yaml(found)}---\n{to_yaml(_with(topology, code))}", nl=False)
    else:
        click.echo(to_yaml(_with(topology, _inline(source))), nl=False)


def _with(topology: Topology, code: Code) -> Topology:
    return topology.model_copy(update={"spec": topology.spec.model_copy(update={"code": code})})


def _config_map(topology: Topology, source: Source) -> dict[str, Any]:
    """The ConfigMap with the code.

    Other code has another ConfigMap, so that what runs keeps its own, whatever becomes of the
    change: Kubernetes may take the ConfigMap and refuse the topology.
    """
    name = f"{topology.name}-source-{source.digest}"
    metadata = {"name": name, "namespace": topology.metadata.model_dump().get("namespace")}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {key: value for key, value in metadata.items() if value},
        **source.content,
        "immutable": True,
    }


def _source_of(
    topology: Topology, file: Path, code_folder: Path | None, include: Sequence[str]
) -> Source | None:
    """The code of the topology's folder; None if it names a ConfigMap or an image has it.

    Raises:
        BadInput: There is none, it can't be read, or there is too much of it.
    """
    code = topology.spec.code
    if code_folder is None and code is not None and code.files:
        return Source(code.files)
    if code_folder is None and (code is None or code.folder is None):
        return None
    with CodeFolder(code_folder) if code_folder else CodeFolder.of(code, file.parent) as folder:
        assert folder.path is not None
        files = _files_of(folder.path, include)
        if left := left_behind(folder.path, files, but=file):
            click.echo(
                f"warning: only Python files and packages are taken along, so these of"
                f" '{folder.path}' will be missing: {', '.join(left)}. If the code needs some of"
                " them, add --include NAME.",
                err=True,
            )
        return _read(folder.path, files)


def _files_of(folder: Path, include: Sequence[str]) -> list[Path]:
    try:
        found = project_files(folder, include)
    except CodeError as error:
        raise BadInput(f"--include: {error}") from error
    if not any(path.suffix == ".py" for path in found):
        raise BadInput(f"the folder '{folder}' has no Python files.")
    return found


def _read(folder: Path, found: list[Path]) -> Source:
    """The code of a folder: as files, or packed if there is more than Python files.

    Raises:
        BadInput: It can't be read, or there is too much of it.
    """
    flat = [path for path in found if path.parent == folder and path.suffix in CODE]
    if flat == found and all(FILE_NAME.fullmatch(path.name) for path in found):
        source = Source({path.name: _text_of(path) for path in found})
        size = sum(len(text.encode()) for text in source.files.values())
        if size <= MAX_CODE_BYTES:
            return source
    try:
        source = Source(archive=pack(folder, found))
    except OSError as error:
        raise BadInput(f"'{error.filename}' can't be read: {error.strerror}.") from error
    if len(source.archive) > MAX_CODE_BYTES:
        raise BadInput(_too_big(folder, found, len(source.archive)))
    return source


def _too_big(folder: Path, files: list[Path], size: int) -> str:
    largest = sorted(files, key=lambda path: -path.stat().st_size)[:SHOWN_FILES]
    listed = ", ".join(f"{f.relative_to(folder)} ({f.stat().st_size:,})" for f in largest)
    return (
        f"the {len(files)} files of '{folder}' have {size:,} bytes when they are packed, but at"
        f" most {MAX_CODE_BYTES:,} can be put into a ConfigMap. The largest, with their bytes:"
        f" {listed}. Take out of the folder what the code does not need, or {OWN_IMAGE}."
    )


def _inline(source: Source) -> Code:
    if source.archive:
        raise BadInput(
            "only Python files can be put into the topology itself, and there are packages or other"
            " files, or too many of them: leave --inline out."
        )
    try:
        return Code(files=dict(source.files))
    except ValidationError as error:
        message = "; ".join(problem.message for problem in translate(error, {}))
        raise BadInput(
            f"the Python files can't be put into the topology itself: {message}."
            " Leave --inline out."
        ) from error


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{file}' can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"'{file}' is not text in UTF-8: byte {error.start} is wrong.") from error
