"""`fulmen dead-letters`: messages that were given up are listed, shown, sent again or removed."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.letters.places import LetterPlace, PlaceOptions, of_place
from fulmen.cli.commands.state.kept import by_author, ends_driver_option
from fulmen.cli.display.dead_letters import (
    MOST_OF_A_KIND,
    LetterFilter,
    list_lines,
    moment,
    show_lines,
)
from fulmen.cli.display.formats import several
from fulmen.cli.streams import echo, tell
from fulmen.engine.driver.edits.changes import Author
from fulmen.errors import FulmenError
from fulmen.topology.problems import did_you_mean
from fulmen.visible import visible

Json = Mapping[str, Any]


def _moment(_context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else moment(value, time.time())
    except ValueError as error:
        names = "/".join(option.opts)
        raise BadInput(
            f"{names} {value}: neither a time, such as 2026-01-31T12:00, nor an age, such as 90m,"
            " 2h or 7d."
        ) from error


def _of_letters(command: Callable[..., None]) -> Callable[..., None]:
    """Where the letters are, and which are meant: the command gets `source` and `which`."""

    @of_place
    @click.option("--component", default="", help="Only those that began, or failed, there.")
    @click.option("--reason", default="", metavar="TEXT", help="Only with that in the reason.")
    @click.option(
        "--since", callback=_moment, metavar="TIME", help="Only newer ones: a time, or 2h for age."
    )
    @click.option("--until", callback=_moment, metavar="TIME", help="Only older ones.")
    @wraps(command)
    def with_letters(
        place: PlaceOptions,
        component: str,
        reason: str,
        since: float | None,
        until: float | None,
        ids: tuple[str, ...] = (),
        ends_driver: bool = False,
        **others: Any,
    ) -> None:
        which = LetterFilter(ids, component, reason, since or 0.0, until or float("inf"))
        with place.opened(ends_driver=ends_driver) as source:
            command(source=source, which=which, **others)

    return with_letters


_ids = click.argument("ids", nargs=-1, metavar="[ID]...")
_as_json = click.option("--json", "is_json", is_flag=True, help="Print JSON.")
_all = click.option("--all", "is_all", is_flag=True, help="All of them, if no other option says.")


@click.group("dead-letters", short_help="List, show, send again or remove dead letters.")
def dead_letters() -> None:
    """List, show, send again or remove messages that were given up, or that kill their workers.

    The newest ones of each component are in the checkpoint, see spec.deadLetters.
    """


@dead_letters.command("list", short_help="List them by reason.")
@click.option("--all", "is_all", is_flag=True, help=f"Not only {MOST_OF_A_KIND} of each reason.")
@_as_json
@_of_letters
def list_(source: LetterPlace, which: LetterFilter, is_all: bool, is_json: bool) -> None:
    """List the dead letters by reason, the newest first."""
    read = source.read()
    meant = _of(which, read["letters"])
    if is_json:
        echo(json.dumps({**read, "letters": meant}, indent=2, ensure_ascii=False))
        return
    for line in list_lines(meant, read["forgotten"], len(meant) if is_all else MOST_OF_A_KIND):
        echo(visible(line) if not line.startswith("  ") else f"  {visible(line[2:])}")


@dead_letters.command(short_help="Show all that is known of some.")
@_ids
@_as_json
@_of_letters
def show(source: LetterPlace, which: LetterFilter, is_json: bool) -> None:
    """Show values, reason and traceback of the dead letters ID, or of those that are meant."""
    meant = _of(which, source.read()["letters"])
    if is_json:
        echo(json.dumps(meant, indent=2, ensure_ascii=False))
        return
    for place, letter in enumerate(meant):
        for line in ["", *show_lines(letter)] if place else show_lines(letter):
            shown = line.lstrip(" ")
            echo(" " * (len(line) - len(shown)) + visible(shown))


@dead_letters.command(short_help="Send some again.")
@_ids
@_all
@by_author
@ends_driver_option
@_of_letters
def replay(source: LetterPlace, which: LetterFilter, is_all: bool, author: Author) -> None:
    """Send the dead letters ID, or those that are meant, again, each once.

    Each begins a tree of its own at the task where it began before. When its tree is acked, the
    letter is gone. If it fails, it is a dead letter again. Of a topology that is stopped they are
    sent when it starts next.
    """
    meant = _meant(source, which, is_all=is_all)
    sendable = [letter["id"] for letter in meant if letter["can_be_sent"]]
    for letter in meant:
        if letter["state"] == "kept" and not letter["can_be_sent"]:
            tell(visible(f"{letter['id']} can't be sent again: {letter['why_not']}."))
    taken, when = source.change("replay", sendable, author) if sendable else (0, "")
    echo(f"{several(taken, 'dead letter')} will be sent again{when}.")
    if len(sendable) < len(meant):
        raise FulmenError(f"{len(meant) - len(sendable)} of {len(meant)} are left as they are.")


@dead_letters.command(short_help="Remove some for good.")
@_ids
@_all
@by_author
@ends_driver_option
@_of_letters
def drop(source: LetterPlace, which: LetterFilter, is_all: bool, author: Author) -> None:
    """Remove the dead letters ID, or those that are meant, for good."""
    ids = [letter["id"] for letter in _meant(source, which, is_all=is_all)]
    taken, when = source.change("drop", ids, author) if ids else (0, "")
    echo(f"{several(taken, 'dead letter')} removed{when}.")


def _meant(source: LetterPlace, which: LetterFilter, *, is_all: bool) -> list[Json]:
    if is_all and which.ids:
        raise BadInput("give ids, or --all.")
    if which == LetterFilter() and not is_all:
        raise BadInput(
            "say which are meant: by ids, --component, --reason, --since, --until or --all."
        )
    return _of(which, source.read()["letters"])


def _of(which: LetterFilter, letters: Sequence[Json]) -> list[Json]:
    """Those that are meant. If there are none, it is said why."""
    meant = which.of(letters)
    if not letters:
        tell("there are no dead letters.")
    elif not meant:
        cure = did_you_mean(which.component, sorted({one["component"] for one in letters}))
        are = "There is 1" if len(letters) == 1 else f"There are {len(letters):,}"
        tell(f"no dead letter is meant. {are} without these options. {cure}".rstrip())
    return meant
