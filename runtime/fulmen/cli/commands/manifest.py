"""`fulmen manifest`: a topology as Kubernetes takes it, with the code of a local folder."""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from fulmen.cli.bad_input import BadInput
from fulmen.cli.project_code import Packages, Project, bundled, project_of, write_packed
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import TopologyFile, tell_warnings, topology_arguments
from fulmen.cli.wheels import MACHINES, PROJECT, PYTHON, REQUIREMENTS, Target
from fulmen.own_files import written_whole
from fulmen.topology.code.packing import CODE
from fulmen.topology.reading.documents import dump_yaml, to_yaml
from fulmen.topology.reading.field_problems import translate
from fulmen.topology.resource.spec import Topology
from fulmen.topology.resource.spec.pods import (
    ARCHIVE_NAME,
    FILE_NAME,
    MAX_CODE_BYTES,
    MAX_CODE_PARTS,
    Code,
    archive_part,
)
from fulmen.topology.validation.across_fields import place_of

OTHER_MEANS = (
    "put the code into a store (--archive FILE --uri URI: spec.code.uri), or into an image of your"
    " own (fulmen image)"
)
SHOWN_FILES = 5
CLIENT_SIDE_BYTES = 256 * 1024
"""`kubectl apply` notes all of an object in an annotation, and all annotations may have so much."""
SERVER_SIDE = (
    "warning: the code is too large for a plain `kubectl apply`: use"
    " `kubectl apply --server-side -f -`."
)


@dataclass(frozen=True)
class CodeSource:
    """The code of a folder, as a resource or ConfigMaps have it: one of the two.

    Attributes:
        files: Python files and schemas by name, if there is nothing else.
        archive: All files, packed.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    archive: bytes = b""

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents of ConfigMaps: one has all of it, if it has room."""
        if not self.archive:
            return [{"data": dict(self.files)}]
        starts = range(0, len(self.archive), MAX_CODE_BYTES)
        parts = [self.archive[start : start + MAX_CODE_BYTES] for start in starts]
        numbered = [archive_part(number) for number in range(1, len(parts) + 1)]
        names = numbered if len(parts) > 1 else [ARCHIVE_NAME]
        return [
            {"binaryData": {name: base64.b64encode(part).decode()}}
            for name, part in zip(names, parts, strict=True)
        ]

    @property
    def sha256(self) -> str:
        """Another one for other code."""
        packed = self.archive or json.dumps(dict(self.files), sort_keys=True).encode()
        return hashlib.sha256(packed).hexdigest()


@click.command(short_help="Print a topology for kubectl apply.")
@topology_arguments
@click.option(
    "--config-map/--inline",
    default=True,
    help="Put the code into ConfigMaps NAME-source-…, printed before the topology, or into the"
    " topology itself, which has room for Python files only. Default: --config-map.",
)
@click.option(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Take more files or folders of the code folder along, such as 'data/*.csv'. May be given"
    " several times.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="Print the topology without its code, which this image has, for driver and workers.",
)
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the code to FILE instead, packed, for a store that pods fetch it from. Its SHA-256"
    " is printed, or with --uri the topology.",
)
@click.option(
    "--uri",
    metavar="URI",
    help="Where FILE of --archive will be, such as s3://bucket/code-1.tar.gz: for spec.code.uri.",
)
@click.option(
    "--wheels",
    is_flag=True,
    help=f"Take the packages along that {REQUIREMENTS} or {PROJECT} ask for, but for those that"
    " Fulmen's image has. They are downloaded with pip, as wheels.",
)
@click.option(
    "--requirements",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file that asks for them. Default: the one in the code folder, or beside FILE.",
)
@click.option(
    "--python-version",
    default=PYTHON,
    show_default=True,
    help="The image's Python, for packages with compiled code.",
)
@click.option(
    "--platform",
    type=click.Choice(list(MACHINES)),
    default="linux/amd64",
    show_default=True,
    help="The nodes' platform, for packages with compiled code.",
)
def manifest(
    file: TopologyFile,
    config_map: bool,
    include: tuple[str, ...],
    image: str | None,
    archive: Path | None,
    uri: str | None,
    wheels: bool,
    requirements: Path | None,
    python_version: str,
    platform: str,
) -> None:
    """Print the topology of FILE as Kubernetes takes it, for `kubectl apply -f -`.

    A cluster has no code folder: a ConfigMap with its Python files and packages is printed before
    the topology, or up to four if one has no room for them. More than that goes through a store:
    --archive, and then --uri.
    """
    if uri is not None and archive is None:
        raise BadInput("--uri is the place of an archive: add --archive FILE.")
    if image is not None and (archive or wheels or requirements or include):
        raise BadInput(
            "--image has the code, so nothing else goes along: leave --archive, --wheels,"
            " --requirements and --include out."
        )
    if uri is not None:
        _at(uri, "0" * 64)  # before anything is downloaded
    document = file.document()
    packages = Packages(
        wheels or requirements is not None, requirements, Target(python_version, platform)
    )
    with bundled(document, file, packages) as bundle:
        checked = file.checked(document, for_kubernetes=True)
        tell_warnings(checked)
        topology = checked.topology()
        if image is not None:
            _print(_in_image(topology, image))
            return
        but = [archive] if archive else []
        with project_of(topology.spec.code, file, include, bundle, but) as project:
            if archive is not None:
                _write_archive(_needed(project, "--archive"), archive, uri, topology)
                return
            if packages.wanted:
                _needed(project, "--wheels")
            source = None if project is None else _read(project)
    if source is None:
        _print(topology)
    elif config_map:
        _print_with(_config_maps(topology, source), source, topology)
    else:
        _print(_with(topology, _inline(source)))


def _print(topology: Topology) -> None:
    echo(to_yaml(topology).removesuffix("\n"))


def _print_with(maps: list[dict[str, Any]], source: CodeSource, topology: Topology) -> None:
    """Print ConfigMaps with the code, and the topology that names them."""
    if any(len(json.dumps(each)) > CLIENT_SIDE_BYTES for each in maps):
        tell(SERVER_SIDE)
    names = tuple(each["metadata"]["name"] for each in maps)
    several = len(names) > 1
    code = Code(config_maps=names, sha256=source.sha256) if several else Code(config_map=names[0])
    documents = [*map(dump_yaml, maps), to_yaml(_with(topology, code))]
    echo("---\n".join(documents).removesuffix("\n"))


def _in_image(topology: Topology, image: str) -> Topology:
    """The topology with its code in an image of its own. A single pod is the driver's."""
    spec = topology.spec
    update = {"code": None, "driver": spec.driver.model_copy(update={"image": image})}
    if not spec.is_single_pod:
        update["worker"] = spec.worker.model_copy(update={"image": image})
    return topology.model_copy(update={"spec": spec.model_copy(update=update)})


def _needed(project: Project | None, option: str) -> Project:
    if project is None:
        raise BadInput(
            f"{option} is for the code of a folder, and spec.code names none. Name one:"
            " --code-folder."
        )
    return project


def _write_archive(project: Project, archive: Path, uri: str | None, topology: Topology) -> None:
    """Write the code to a file, and print its digest, or the topology that names it.

    A file that is there stays whole until the new one is: it may be being uploaded, and half of an
    archive looks like one.
    """
    try:
        with written_whole(archive) as into:
            write_packed(project, into)
            into.seek(0)
            digest = hashlib.file_digest(into, "sha256").hexdigest()
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"--archive: '{archive}' can't be written: {why}.") from error
    if uri is None:
        echo(f"{digest}  {archive}")
    else:
        _print(_with(topology, _at(uri, digest)))


def _at(uri: str, sha256: str) -> Code:
    try:
        code = Code(uri=uri, sha256=sha256)
    except ValidationError as error:
        message = "; ".join(problem.message for problem in translate(error, {}))
        raise BadInput(f"--uri: {message}.") from error
    for problem in place_of(code):
        raise BadInput(f"--uri: {problem.message}. {problem.cure}")
    return code


def _with(topology: Topology, code: Code) -> Topology:
    return topology.model_copy(update={"spec": topology.spec.model_copy(update={"code": code})})


def _config_maps(topology: Topology, source: CodeSource) -> list[dict[str, Any]]:
    """The ConfigMaps with the code: one, or one for each of its parts.

    Other code has other ConfigMaps, so that what runs keeps its own, whatever becomes of the
    change: Kubernetes may take the ConfigMaps and refuse the topology.
    """
    name = f"{topology.name}-source-{source.sha256[:10]}"
    namespace = topology.metadata.model_dump().get("namespace")
    contents = source.contents
    numbered = [f"{name}-{number}" for number in range(1, len(contents) + 1)]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": each} | ({"namespace": namespace} if namespace else {}),
            **content,
            "immutable": True,
        }
        for each, content in zip(numbered if len(contents) > 1 else [name], contents, strict=True)
    ]


def _read(project: Project) -> CodeSource:
    """The code of a project: as files, or packed if there is more than Python files."""
    files = project.files
    if all(FILE_NAME.fullmatch(name) and path.suffix in CODE for name, path in files.items()):
        source = CodeSource({name: _text_of(path) for name, path in files.items()})
        size = sum(len(text.encode()) for text in source.files.values())
        if size <= MAX_CODE_BYTES:
            return source
    packed = io.BytesIO()
    write_packed(project, packed)
    source = CodeSource(archive=packed.getvalue())
    if len(source.archive) > MAX_CODE_BYTES * MAX_CODE_PARTS:
        raise BadInput(_too_big(project, len(source.archive)))
    return source


def _too_big(project: Project, size: int) -> str:
    sizes = {name: path.stat().st_size for name, path in project.files.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:SHOWN_FILES]
    listed = ", ".join(f"{name} ({sizes[name]:,})" for name in largest)
    return (
        f"the {len(sizes)} files of '{project.folder}' have {size:,} bytes when they are packed,"
        f" but at most {MAX_CODE_BYTES * MAX_CODE_PARTS:,} can be put into ConfigMaps. The largest,"
        f" with their bytes: {listed}. Take out what the code does not need, or {OTHER_MEANS}."
    )


def _inline(source: CodeSource) -> Code:
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
