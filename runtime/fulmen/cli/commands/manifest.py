"""`fulmen manifest`: a topology as Kubernetes takes it, with the code of a local folder."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from fulmen.cli.bad_input import BadInput
from fulmen.cli.topology_file import check_document, read_file, tell_warnings, topology_arguments
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.reading.documents import dump_yaml, to_yaml
from fulmen.topology.reading.field_problems import translate
from fulmen.topology.resource.pods import INLINE_CODE_LIMIT, Code
from fulmen.topology.resource.spec import Topology

OWN_IMAGE = "put the code into an image of your own instead, FROM Fulmen's, and leave spec.code out"


@click.command(short_help="Print a topology for kubectl apply.")
@topology_arguments
@click.option(
    "--config-map/--inline",
    default=True,
    help="Put the Python files into a ConfigMap NAME-source-…, printed before the topology, or into"
    " the topology itself. Default: --config-map.",
)
def manifest(
    file: Path, assignments: tuple[str, ...], code_folder: Path | None, config_map: bool
) -> None:
    """Print the topology of FILE as Kubernetes takes it, for `kubectl apply -f -`.

    A cluster has no code folder: a ConfigMap with its Python files is printed before the topology.
    """
    document = read_file(file, assignments, code_folder)
    checked = check_document(document, file, code_folder, for_kubernetes=True)
    tell_warnings(checked)
    topology = _with_files(checked.topology(), file, code_folder)
    if config_map and topology.spec.code and topology.spec.code.files:
        source, topology = _apart(topology, topology.spec.code.files)
        click.echo(f"{dump_yaml(source)}---")
    click.echo(to_yaml(topology), nl=False)


def _apart(topology: Topology, files: Mapping[str, str]) -> tuple[dict[str, Any], Topology]:
    """A ConfigMap with the code, and the topology that names it.

    Other code has another ConfigMap, so that what runs keeps its own, whatever becomes of the
    change: Kubernetes may take the ConfigMap and refuse the topology.
    """
    content = json.dumps(dict(files), sort_keys=True).encode()
    name = f"{topology.name}-source-{hashlib.sha256(content).hexdigest()[:10]}"
    metadata = {"name": name, "namespace": topology.metadata.model_dump().get("namespace")}
    source = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {key: value for key, value in metadata.items() if value},
        "data": dict(files),
        "immutable": True,
    }
    update = {"code": Code(config_map=name)}
    return source, topology.model_copy(update={"spec": topology.spec.model_copy(update=update)})


def _with_files(topology: Topology, file: Path, code_folder: Path | None) -> Topology:
    """The topology with its code inline, unless it names a ConfigMap or an image has it."""
    code = topology.spec.code
    if code_folder is None and (code is None or code.folder is None):
        return topology
    with CodeFolder(code_folder) if code_folder else CodeFolder.of(code, file.parent) as folder:
        assert folder.path is not None
        files = python_files(folder.path)
        if left_out := other_files(folder.path, but=file):
            click.echo(
                f"warning: only Python files are taken along, so these of '{folder.path}' will be"
                f" missing: {', '.join(left_out)}. If the code needs them, {OWN_IMAGE}.",
                err=True,
            )
    try:
        inline = Code(files=files)
    except ValidationError as error:
        message = "; ".join(problem.message for problem in translate(error, {}))
        cure = f"Rename or remove some, or {OWN_IMAGE}"
        raise BadInput(
            f"the Python files in '{folder.path}' can't be put into the manifest: {message}."
            f" {cure}."
        ) from error
    spec = topology.spec.model_copy(update={"code": inline})
    return topology.model_copy(update={"spec": spec})


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{file}' can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"'{file}' is not text in UTF-8: byte {error.start} is wrong.") from error


def python_files(folder: Path) -> dict[str, str]:
    """The Python files of a folder, and its schemas of Avro, by name; tests are left out.

    Raises:
        BadInput: There are none, too many bytes in them, or some in folders below.
    """
    if packages := sorted(path.parent.name for path in folder.glob("*/__init__.py")):
        raise BadInput(
            f"the folder '{folder}' has a package, '{packages[0]}', but folders can't be"
            f" taken along: {OWN_IMAGE}."
        )
    found = [path for path in sorted(folder.glob("[!.]*.py")) if not _is_test(path)]
    if not found:
        raise BadInput(f"the folder '{folder}' has no Python files.")
    found += sorted(folder.glob("[!.]*.avsc"))
    files = {path.name: _text_of(path) for path in found}
    size = sum(len(text.encode()) for text in files.values())
    if size > INLINE_CODE_LIMIT:
        raise BadInput(
            f"the Python files in '{folder}' have {size:,} bytes in all, but at most"
            f" {INLINE_CODE_LIMIT:,} can be put into the manifest. Make a ConfigMap of them"
            f" (kubectl create configmap NAME --from-file '{folder}') and name it in"
            f" spec.code.configMap, or {OWN_IMAGE}."
        )
    return files


def _is_test(file: Path) -> bool:
    return file.name == "conftest.py" or file.match("test_*.py") or file.match("*_test.py")


def other_files(folder: Path, but: Path) -> list[str]:
    """What of a folder is not taken along and may be data: names, of folders with a slash behind.

    Args:
        folder: Where the code is.
        but: The topology's own file, which may be beside it.
    """
    rest = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix not in (".py", ".md", ".avsc")
        and not path.name.startswith((".", "__pycache__"))
        and path.resolve() != but.resolve()
    ]
    folders = [f"{path.name}/" for path in rest if path.is_dir()]
    return folders + [path.name for path in rest if path.is_file() and not os.access(path, os.X_OK)]
