"""`fulmen init`: a folder with a topology to begin from, its test and its README.

What is written is in `cli/templates`: `own` has a spout and a bolt, `connected` is completed with
one of `sources` and one of `sinks`.
"""

import os
import re
from importlib.resources import files
from pathlib import Path

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import echo
from fulmen.topology.resource.base import DNS_NAME

TEMPLATES = files("fulmen.cli") / "templates"
LONGEST_NAME = 40
SINKS = ("console", "files", "kafka", "postgres", "rabbitmq", "redis", "sqlite")
SOURCES = ("generator", *SINKS)
EXTRAS = frozenset({"kafka", "postgres", "rabbitmq", "redis"})
"""Systems whose client is an extra of Fulmen, of that name."""


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


def _topology_name(folder: Path) -> str:
    name = folder.name
    if not re.fullmatch(DNS_NAME, name) or len(name) > LONGEST_NAME:
        raise BadInput(
            f"{name!r} can't be the name of a topology. It must have small letters, digits and '-'"
            f" only, begin with a letter, not end with '-', and have at most {LONGEST_NAME}"
            " characters."
        )
    return name


def _template(path: str) -> str:
    return (TEMPLATES / path).read_text(encoding="utf-8")


def _filled(path: str, values: dict[str, str]) -> str:
    """A template with values in place of their names."""
    text = _template(path)
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
    extras = ("local", *sorted(EXTRAS & {source, sink}))
    about = {"FROM": source, "TO": sink, "EXTRAS": ",".join(extras)}

    def filled(file: str, part: str = "") -> str:
        parts = {}
        if part:
            parts["SOURCE"] = _template(f"sources/{source}.{part}").rstrip()
            parts["SINK"] = _template(f"sinks/{sink}.{part}").rstrip()
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
    """Write all files, or none if one of them is there.

    Raises:
        BadInput: One of them is there, or can't be written.
    """
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
