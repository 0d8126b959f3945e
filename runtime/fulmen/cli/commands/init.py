"""`fulmen init`: a folder with a topology to begin from, its test and its README.

What is written is in `cli/templates`: `own` has a spout and a bolt, `connected` is completed with
what two of `systems` have as a source and as a sink.
"""

import os
import re
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import echo
from fulmen.topology.resource.base import DNS_NAME

TEMPLATES = files("fulmen.cli") / "templates"
LONGEST_NAME = 40
PART = re.compile(r"^@@ (\w+\.\w+)\n", re.MULTILINE)
"""Begins a part of a system's template: `source` or `sink`, as it is in YAML or in the README."""


def _systems() -> dict[str, dict[str, str]]:
    """The templates of each system: its name -> a part's name -> text."""
    found = {}
    for file in sorted((TEMPLATES / "systems").iterdir(), key=lambda file: file.name):
        _, *parts = PART.split(file.read_text(encoding="utf-8"))
        found[file.name.partition(".")[0]] = dict(zip(parts[::2], parts[1::2], strict=True))
    return found


SYSTEMS = _systems()
SINKS = tuple(name for name, parts in SYSTEMS.items() if "sink.yaml" in parts)
SOURCES = tuple(
    sorted(
        (name for name, parts in SYSTEMS.items() if "source.yaml" in parts),
        key=lambda name: (name in SINKS, name),
    )
)


@click.command(short_help="Write a folder with a topology to begin from.")
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Choice(SOURCES), help="What to read from.")
@click.option("--to", "sink", type=click.Choice(SINKS), help="What to write to.")
def init(folder: Path, source: str | None, sink: str | None) -> None:
    """Write a folder NAME with a topology, its test and a README.

    With --from and --to the topology needs no code. With one of them, the other end is a generator
    or the console. Without them, the topology has a spout and a bolt of its own. Files that are
    there are left alone: then nothing is written.
    """
    name = _topology_name(folder)
    if source or sink:
        content = _connected(name, source or "generator", sink or "console")
    else:
        content = _own(name)
    _write(folder, content)
    echo(f"{folder}: {', '.join(sorted(content))}")
    echo(f"Continue with {folder / 'README.md'}")


def extras_of(*systems: str) -> set[str]:
    """The extras of Fulmen that have the clients of systems: they are of the same names."""
    return {*systems} & {*(metadata("fulmen").get_all("Provides-Extra") or ())}


def _topology_name(folder: Path) -> str:
    name = folder.name
    if not re.fullmatch(DNS_NAME, name) or len(name) > LONGEST_NAME:
        raise BadInput(
            f"{name!r} can't be the name of a topology. It must have small letters, digits and '-'"
            f" only, begin with a letter, not end with '-', and have at most {LONGEST_NAME}"
            " characters."
        )
    return name


def _filled(path: str, values: dict[str, str]) -> str:
    """A template with values in place of their names."""
    text = (TEMPLATES / path).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _module(name: str) -> str:
    """The name of a module; with `topology` in it, it hides no module of anybody else's."""
    return f"{name.replace('-', '_')}_topology"


def _own(name: str) -> dict[str, str]:
    """The files of a topology with classes of its own: path -> text."""
    values = {"NAME": name, "MODULE": _module(name)}
    return {
        "topology.yaml": _filled("own/topology.yaml", values),
        "README.md": _filled("own/README.md", values),
        f"{values['MODULE']}.py": _filled("own/module.py.txt", values),
        f"test_{values['MODULE']}.py": _filled("own/test.py.txt", values),
    }


def _connected(name: str, source: str, sink: str) -> dict[str, str]:
    """The files of a topology without classes of its own: path -> text."""
    extras = ("local", *sorted(extras_of(source, sink)))
    about = {"FROM": source, "TO": sink, "EXTRAS": ",".join(extras)}

    def filled(file: str, part: str = "") -> str:
        parts = {}
        if part:
            parts["SOURCE"] = SYSTEMS[source][f"source.{part}"].rstrip()
            parts["SINK"] = SYSTEMS[sink][f"sink.{part}"].rstrip()
        return _filled(f"connected/{file}", parts | about | {"NAME": name, "MODULE": _module(name)})

    content = {
        "topology.yaml": filled("topology.yaml", "yaml"),
        "README.md": filled("README.md", "md"),
        f"test_{_module(name)}.py": filled("test.py.txt"),
    }
    if source == "files":
        content["data/orders.jsonl"] = filled("orders.jsonl")
    return content


def _write(folder: Path, content: dict[str, str]) -> None:
    """Write all files, or none if one of them is there."""
    there = [path for path in sorted(content) if os.path.lexists(folder / path)]
    if there:
        raise BadInput(
            f"{str(folder / there[0])!r} is there already, and is left as it is. Choose another"
            " name, or remove it first."
        )
    for path, text in content.items():
        file = folder / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "x", encoding="utf-8") as written:
                written.write(text)
        except OSError as error:
            raise BadInput(f"{str(file)!r} can't be written: {error.strerror}.") from error
