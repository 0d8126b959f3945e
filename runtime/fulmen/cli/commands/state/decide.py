"""`fulmen state accept-store`, `read-again`, `forget`: what people decide where Fulmen may not."""

import time

import click

from fulmen.api.marks import Point
from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.kept import (
    KeptState,
    by_author,
    ends_driver_option,
    on_component,
    refuse_running,
)
from fulmen.cli.streams import tell
from fulmen.engine.driver.edits import decisions
from fulmen.engine.driver.edits import read_again as reading
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.driver.edits.read_again import SetBack


@click.command(short_help="Go on with what a sink's store has.")
@on_component
@click.option(
    "--above",
    type=click.IntRange(1),
    metavar="TXID",
    help="The last transaction that a store has, if it has more than the checkpoint.",
)
@by_author
def accept_store(kept: KeptState, above: int | None, author: Author) -> None:
    """Go on with what the store of the sink COMPONENT has although it does not fit the checkpoint.

    COMPONENT is a sink, or a transactional spout, whose committers' stores are meant. The store was
    set back, or is ahead, and the topology has stopped because of that.
    """
    with kept.opened() as store:
        done = decisions.accept_store(store, kept.component, above or 0, author)
    tell(f"{store.uri}: {done}.")


def _point(_context: click.Context, _option: click.Parameter, value: str) -> Point | None:
    number, _, branch = value.partition(":")
    if value == "none":
        return None
    if not (number.isascii() and number.isdecimal() and branch):
        raise BadInput(
            f"--store-has {value}: neither `none` nor a number with its tag, such as 31:5f2c. The"
            " message of the topology has the whole command."
        )
    return Point(int(number), branch)


@click.command("read-again", short_help="Have sources read again what a store lacks.")
@on_component
@click.option(
    "--store-has",
    required=True,
    callback=_point,
    metavar="NUMBER:TAG",
    help="The mark that the store has, as the message says, or `none`.",
)
@click.option(
    "--task", type=click.IntRange(0), default=0, help="The task of the sink that has noticed it."
)
@click.option(
    "--also",
    multiple=True,
    metavar="COMPONENT",
    help="Another one whose store was set back to the same moment.",
)
@click.option(
    "--replaces",
    is_flag=True,
    help="The sink's rows take the place of older ones, so that some may be written again: an older"
    " savepoint will do.",
)
@by_author
@ends_driver_option
def read_again(
    kept: KeptState,
    store_has: Point | None,
    task: int,
    also: tuple[str, ...],
    replaces: bool,
    author: Author,
    ends_driver: bool,
) -> None:
    """Go back to the savepoint that the store of COMPONENT fits, as the store is older.

    All that came since is read again. It is refused if no savepoint fits exactly, or if another
    store has more by now than the savepoint expects.
    """
    with kept.opened() as store:
        if not ends_driver:
            refuse_running(store)
        back = SetBack(kept.component, task, store_has, also, replaces)
        done = reading.read_again(store, back, author, time.time())
    tell(f"{store.uri}: {done}.")


@click.command(short_help="Remove all that a component keeps.")
@on_component
@by_author
def forget(kept: KeptState, author: Author) -> None:
    """Remove all state of COMPONENT for good. If it is in the topology, it begins anew."""
    with kept.opened() as store:
        count = decisions.forget(store, kept.component, author)
    tell(f"{store.uri}: the state of {count} tasks of {kept.component!r} is gone.")
