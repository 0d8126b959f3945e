"""A topology that is written in Python: a file that defines it at module level."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from fulmen.errors import PASSED_ON, CodeError, FulmenError
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.code.loading import explain
from fulmen.topology.code.streamparse import import_cure
from fulmen.topology.reading.documents import to_document
from fulmen.topology.resource.spec import Topology

NAME = "topology"


def is_python(file: Path) -> bool:
    """Whether the file is to be read as Python instead of YAML."""
    return file.suffix == ".py"


def read_python(file: Path) -> dict[str, Any]:
    """The document of the topology that a Python file defines. Its module is imported."""
    if not file.is_file():
        raise CodeError(f"{str(file)!r} can't be read: there is no such file")
    module = _imported(file)
    found = getattr(module, NAME, None)
    if found is None:
        pipelines = [one for one in vars(module).values() if _is_pipeline(one)]
        found = pipelines[0] if len(pipelines) == 1 else None
    if found is not None and (isinstance(found, TopologyBuilder) or _is_pipeline(found)):
        found = found.build()
    if not isinstance(found, Topology):
        kind = "nothing" if found is None else f"an object of the type {type(found).__name__}"
        raise CodeError(
            f"{str(file)!r} has {kind} by the name {NAME!r} at module level",
            f"Write {NAME} = TopologyBuilder(name=...), and then its spouts and bolts; or"
            f" {NAME} = Streams(name), and then its sources and steps.",
        )
    document = to_document(found)
    if "code" not in document["spec"]:
        document["spec"]["code"] = {"folder": "."}
    return document


def _is_pipeline(found: object) -> bool:
    """Whether it is a `Streams`: then its room, which needs the engine, is imported already."""
    streams = sys.modules.get("fulmen.streams")
    return streams is not None and isinstance(found, streams.Streams)


def _imported(file: Path) -> ModuleType:
    if not file.stem.isidentifier():
        cure = "Rename the file: workers import it as a module."
        raise CodeError(f"{file.stem!r} is not the name of a Python module", cure)
    try:
        module = importlib.import_module(file.stem)
    except FulmenError:
        raise
    except PASSED_ON:
        raise
    except BaseException as error:  # the author's code
        message = f"{str(file)!r} can't be imported: {explain(error, file.parent)}"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        raise CodeError(message, import_cure(missing)) from error
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise CodeError(
            f"{file.name} has the name of a module of Python's own or of an installed package, "
            "which is imported instead of it",
            "Rename the file.",
        )
    return module
