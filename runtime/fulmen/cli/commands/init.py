"""`fulmen init`: a folder with a topology to begin from, its test and its README.

What is written is in `cli/templates`: `own` has a spout and a bolt, `connected` is completed with
what two of `systems` have as a source and as a sink.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import click

from fulmen.api import Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import echo
from fulmen.expressions.selection import selected, steps_of
from fulmen.topology.problems import did_you_mean
from fulmen.topology.resource.base import DNS_NAME

TEMPLATES = files("fulmen.cli") / "templates"
LONGEST_NAME = 40
WITH_TIMES = (
    ("{type: json, fields: [id, customer, amount]}",
     "{type: json, fields: {id: int64, customer: string, amount: float64, at: timestamp}}"),
    ("[id, customer, amount]", "[id, customer, amount, at]"),
    ("amount: {type: integer, min: 1, max: 100}",
     "amount: {type: integer, min: 1, max: 100}\n          at: {type: time}"),
    ('"amount": 10}', '"amount": 10, "at": "2026-01-01T12:00:00Z"}'),
    ('"amount": 20}', '"amount": 20, "at": "2026-01-01T12:01:00Z"}'),
    ('"amount": 30}', '"amount": 30, "at": "2026-01-01T12:02:00Z"}'),
    ("amount float8)", "amount float8, at timestamptz DEFAULT now())"),
    ("amount REAL)", "amount REAL, at TEXT DEFAULT CURRENT_TIMESTAMP)"),
)  # fmt: skip
"""What templates of sources have, and what it is where orders have a time."""
OF_WINDOWS = (
    ("[id, customer, amount]", "[customer, window_start, orders, amount]"),
    ("key: [id]", "key: [customer, window_start]"),
    ("order:{id}", "order:{customer}:{window_start}"),
    ("order:1", "'order:ann:2026-01-01T12:00:00Z'"),
    ("{id: bigint, customer: text, amount: float8}",
     "{customer: text, window_start: timestamptz, orders: bigint, amount: float8}"),
    ("{id: INTEGER, customer: TEXT, amount: REAL}",
     "{customer: TEXT, window_start: TEXT, orders: INTEGER, amount: REAL}"),
)  # fmt: skip
"""What templates of sinks have, and what it is where sums of windows are written."""
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
@click.option("--window", metavar="SIZE", help="Add orders up by customer, in windows such as 10m.")
@click.option(
    "--where", metavar="TEXT", help="Take only the orders for which this is true: 'amount > 10'."
)
def init(
    folder: Path, source: str | None, sink: str | None, window: str | None, where: str | None
) -> None:
    """Write a folder NAME with a topology, its test and a README.

    With --from and --to the topology needs no code. With one of them, the other end is a generator
    or the console. With --window or --where it begins with a window or a filter. Without any of
    these, the topology has a spout and a bolt of its own. Files that are there are left alone:
    then nothing is written.
    """
    name = _topology_name(folder)
    if source or sink or window or where:
        chosen = Chosen(source or "generator", sink or "console", window, where)
        content = _connected(name, chosen)
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


@dataclass(frozen=True)
class Chosen:
    """What a topology without classes of its own is to do.

    Attributes:
        source: What it reads from.
        sink: What it writes to.
        window: The size of windows; None: it writes what it reads.
        where: The condition of what it takes; None: all.
    """

    source: str
    sink: str
    window: str | None = None
    where: str | None = None

    @property
    def fields(self) -> Mapping[str, str]:
        """The types of the fields that orders have."""
        of_order = {"id": "int64", "customer": "string", "amount": "float64"}
        return of_order | ({"at": "timestamp"} if self.window else {})


def _checked(chosen: Chosen) -> None:
    """Refuse a window or a condition that can't be.

    Raises:
        BadInput: It can't.
    """
    if chosen.window is not None:
        try:
            positive = milliseconds(chosen.window) > 0
        except ValueError as error:
            raise BadInput(f"--window {chosen.window}: {error}.") from error
        if not positive:
            raise BadInput(f"--window {chosen.window}: it must be above 0, such as 10m.")
    if chosen.where is not None:
        stream = Stream(tuple(chosen.fields), types=chosen.fields)
        for _, wrong in selected(steps_of(stream, chosen.where, None), stream).mistakes:
            near = did_you_mean(wrong.wrong, wrong.among) if wrong.wrong else wrong.cure
            fields = ", ".join(chosen.fields)
            raise BadInput(f"--where: {wrong}. {near or f'Orders have {fields}.'}")


def _connected(name: str, chosen: Chosen) -> dict[str, str]:
    """The files of a topology without classes of its own: path -> text."""
    _checked(chosen)
    extras = ("local", *sorted(extras_of(chosen.source, chosen.sink)))
    about = {"FROM": chosen.source, "TO": chosen.sink, "EXTRAS": ",".join(extras)}
    about |= {"NAME": name, "MODULE": _module(name), "WINDOW": chosen.window or ""}
    about["WHERE"] = f"          where: {json.dumps(chosen.where)}\n" if chosen.where else ""
    about["WHAT"] = f"sums of {chosen.window} by customer" if chosen.window else "them"
    of_source, of_sink = (WITH_TIMES, OF_WINDOWS) if chosen.window else ((), ())
    kind = "windowed_" if chosen.window else ""

    def filled(file: str, part: str = "") -> str:
        parts = {}
        if part:
            source = SYSTEMS[chosen.source][f"source.{part}"].rstrip()
            parts["SOURCE"] = _replaced(source, of_source)
            parts["SINK"] = _replaced(SYSTEMS[chosen.sink][f"sink.{part}"].rstrip(), of_sink)
        return _filled(f"connected/{file}", parts | about)

    content = {
        "topology.yaml": filled(f"{kind}topology.yaml", "yaml"),
        "README.md": filled("README.md", "md"),
        f"test_{_module(name)}.py": filled(f"{kind}test.py.txt"),
    }
    if chosen.source == "files":
        content["data/orders.jsonl"] = _replaced(filled("orders.jsonl"), of_source)
    return content


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for before, after in pairs:
        text = text.replace(before, after)
    return text


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
