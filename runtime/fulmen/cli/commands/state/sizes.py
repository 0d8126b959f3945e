"""`fulmen state sizes`: how much each component keeps, and where most of it is."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path

import click

from fulmen.checkpoint import Manifest, Store, read_newest, tasks_in
from fulmen.cli.commands.state.kept import KeptState, output_option
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import code_folder_type
from fulmen.engine.state.committed_entries import entries_in
from fulmen.engine.state.entries.measures import quick_size
from fulmen.engine.state.journals import STATE
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.values.key_text import shown_key
from fulmen.errors import NotFound
from fulmen.topology.resource.spec import ACKER
from fulmen.visible import visible

_TRIES = 5


@dataclass
class TaskSize:
    """How much one task keeps in `self.state`.

    Attributes:
        component: The component.
        task: The task, counted from 0.
        keys: How many keys.
        bytes: About how many bytes these take with their values.
        largest: The keys that take most, with their bytes, the largest first.
    """

    component: str
    task: int
    keys: int = 0
    bytes: int = 0
    largest: Sequence[tuple[str, int]] = field(default_factory=list)


@click.command(short_help="Show how much components keep, and the largest keys.")
@click.argument("checkpoint")
@click.argument("component", required=False, default="")
@click.option(
    "--top",
    type=click.IntRange(0),
    metavar="N",
    default=3,
    show_default=True,
    help="So many of the largest keys of each task are named.",
)
@output_option()
@click.option(
    "--code-folder",
    type=code_folder_type,
    help="The folder with the Python files, if keys or values are objects of their classes.",
)
def sizes(checkpoint: str, component: str, top: int, output: str, code_folder: Path | None) -> None:
    """Show how many keys each task of COMPONENT, or of all, has in `self.state`, and their size.

    All of the state is read for it, piece by piece. The topology may be running.
    """
    with KeptState(checkpoint, component, code_folder).opened() as store:
        found = _sizes(store, component, top)
    if output == "json":
        echo(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        return
    for one in found:
        most = ", ".join(f"{key} ({size:,})" for key, size in one.largest)
        line = f"{one.component}  task {one.task}  {one.keys:,} keys  {one.bytes:,} bytes"
        echo(visible(f"{line}  largest: {most}" if most else line))
    if not found:
        tell(f"no component of {store.uri} has anything in self.state.")


def _sizes(store: Store, component: str, top: int) -> list[TaskSize]:
    for turn in range(_TRIES):
        try:
            manifest = read_newest(store)
            names = [component] if component else sorted(tasks_in(manifest))
            return [
                size for name in names if name != ACKER for size in _of(store, manifest, name, top)
            ]
        except NotFound:  # a running topology has gone on, and deleted what we look for
            if turn == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _of(store: Store, manifest: Manifest, component: str, top: int) -> Iterator[TaskSize]:
    tasks: dict[int, TaskSize] = {}
    heaps: dict[int, list[tuple[int, int, str]]] = {}
    numbers = count()  # of equal sizes the first one found stays
    for task, key, value in entries_in(store, manifest, component, STATE):
        one = tasks.setdefault(task, TaskSize(component, task))
        size = sum(quick_size(part) or len(dumps(part, {})) for part in (key, value))
        one.keys += 1
        one.bytes += size
        heap = heaps.setdefault(task, [])
        if len(heap) < top:
            heappush(heap, (size, -next(numbers), shown_key(key)))
        elif heap and size > heap[0][0]:
            heappushpop(heap, (size, -next(numbers), shown_key(key)))
    for task, one in sorted(tasks.items()):
        largest = sorted(heaps[task], reverse=True)
        one.largest = [(key, size) for size, _, key in largest]
        yield one
