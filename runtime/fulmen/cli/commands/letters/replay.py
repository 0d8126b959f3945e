"""`fulmen replay`: messages that a sink of dead letters wrote to files are sent again."""

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from fulmen.cli.commands.letters.places import PlaceOptions, of_place
from fulmen.cli.commands.state.kept import by_author, ends_driver_option
from fulmen.cli.display.formats import several
from fulmen.cli.local.letter_file import lines_of, read_messages
from fulmen.cli.streams import echo, tell
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.state.letters.message_lines import MessageLineReader, MessagePart, SentFrom
from fulmen.errors import FulmenError


@click.command(short_help="Send messages of files again, such as dead letters.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
)
@of_place
@click.option(
    "--to",
    default="",
    metavar="COMPONENT[:STREAM]",
    help="The spout, or the bolt with results, on whose stream they are sent. Default: what their"
    " lines say.",
)
@click.option("--again", is_flag=True, help="Also what was sent before.")
@by_author
@ends_driver_option
def replay(
    files: tuple[Path, ...],
    place: PlaceOptions,
    to: str,
    again: bool,
    author: Author,
    ends_driver: bool,
) -> None:
    """Send the messages in FILES, each once; `-` is standard input.

    A line is a message as a FileSink or a KafkaSink writes it, in JSON: `values`, or `row`; and
    `stream`, `msg_id`, `failures` and `reason`, if it has them. Each becomes a dead letter that is
    to be sent again: see `fulmen dead-letters`. A running topology sends them with its next batch,
    one that is stopped when it starts next. What was sent before is left out.
    """
    component, _, stream = to.partition(":")
    with place.opened(ends_driver=ends_driver) as where:
        known = where.read()
        salt = secrets.token_hex(8) if again else ""
        reader = MessageLineReader(SentFrom(component, stream, known["senders"]), time.time(), salt)
        for file in files:
            read_messages(reader, str(file), lines_of(file))
        if not reader.count:
            raise FulmenError("there is no message in these files. Nothing was changed.")
        new = _new_ones(reader.parts, known["sent"])
        taken, when = where.send(new, author) if new else (0, "")
    echo(f"{several(taken, 'message')} will be sent{when}.")


def _new_ones(parts: Sequence[MessagePart], sent: Mapping[str, int]) -> list[MessagePart]:
    """The parts that were not sent yet. Tells of the others."""
    before = [part for part in parts if part.id in sent]
    if before:
        count = sum(len(part.messages) for part in before)
        commits = ", ".join(map(str, sorted({sent[part.id] for part in before})))
        tell(
            f"{several(count, 'message')} were sent before, with commit {commits}, and are left"
            " out. --again sends them once more."
        )
    return [part for part in parts if part.id not in sent]
