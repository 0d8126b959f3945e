"""`fulmen state log` and `undo`: what people have changed in a checkpoint."""

import json
from typing import Any

import click

from fulmen.checkpoint import read_newest
from fulmen.cli.commands.state.kept import (
    KeptState,
    by_author,
    ends_driver_option,
    output_option,
    refuse_running,
)
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import code_folder_type
from fulmen.engine.driver.edits import undo as undoing
from fulmen.engine.driver.edits.changes import Author, StateChange, changes_in
from fulmen.visible import visible


@click.command(short_help="List what people have changed in a checkpoint.")
@click.argument("checkpoint")
@output_option()
def log(checkpoint: str, output: str) -> None:
    """List the last changes that people have made in CHECKPOINT, the newest first.

    Each has the number of its commit, when it was made, by whom, what was changed, and why.
    """
    with KeptState(checkpoint, "", None).opened() as store:
        changes = changes_in(read_newest(store))[::-1]
    if output == "json":
        echo(json.dumps([one.to_json() for one in changes], indent=2, ensure_ascii=False))
        return
    for one in changes:
        echo(visible(f"{one.number}  {one.at}  {one.author}  {_what(one)}: {one.because}"))
    if not changes:
        tell(f"nobody has changed anything in {store.uri}.")


def _what(change: StateChange) -> str:
    keys = ", ".join(change.keys) + (", …" if change.count > len(change.keys) else "")
    named = f" {keys} ({change.count})" if change.keys else ""
    kind = f", {change.kind}" if change.kind else ""
    return f"{change.action} {change.component}{kind}{named}"


@click.command(short_help="Take a change back.")
@click.argument("checkpoint")
@click.argument("commit", type=click.IntRange(1))
@click.option(
    "--anyway", is_flag=True, help="Also if its keys have changed again since, which is lost then."
)
@ends_driver_option
@click.option(
    "--code-folder",
    type=code_folder_type,
    help="The folder with the Python files, if keys or values are objects of their classes.",
)
@by_author
def undo(
    checkpoint: str, commit: int, anyway: bool, ends_driver: bool, code_folder: Any, author: Author
) -> None:
    """Give the keys that the change of COMMIT has set or removed what they had before it.

    `fulmen state log` lists the changes. An undo is a change as well, and can be undone.
    """
    with KeptState(checkpoint, "", code_folder).opened() as store:
        if not ends_driver:
            refuse_running(store)
        change = undoing.undo(store, commit, author, anyway=anyway)
    tell(f"commit {commit} is undone: {_what(change)}.")
