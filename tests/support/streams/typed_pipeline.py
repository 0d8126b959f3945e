"""A pipeline with types, which mypy reads: each wrong line is said to be wrong.

If mypy found such a line right, it would call the comment on it unused.
"""

from typing import NamedTuple

from fulmen.connectors.console import StdoutSink
from fulmen.connectors.files import FileSpout
from fulmen.streams import Streams


class Click(NamedTuple):
    """A row."""

    user: str
    price: int


def dearer(click: Click, by: int) -> Click:
    """A function with an argument."""
    return Click(click.user, click.price + by)


async def waited(click: Click) -> Click:
    """An async function."""
    return click


def both(click: Click) -> list[Click]:
    """Several rows of one."""
    return [click, click]


typed = Streams("typed")
clicks = typed.source("clicks", FileSpout, row=Click, path="x", format={"type": "json"})
plain = typed.source("plain", FileSpout, path="x", format={"type": "json"})

plain.map(lambda row: [row.a], fields="a").filter(lambda row, n: row.a == n, 1).for_each(print)
clicks.map(dearer, 1).map(waited).flat_map(both).filter(lambda click: click.price > 1)
clicks.map(lambda click: [click.user], fields="name").filter(lambda row: row.name)
parts = clicks.branch(dear=lambda click: click.price > 9)
parts.rest.key_by("user").reduce(lambda a, b: a if a.price > b.price else b)
parts.dear.key_by("user").update_state(lambda n, click: n + click.price, 0).sink("x", StdoutSink)

clicks.fliter(lambda click: click.price > 1)  # type: ignore[attr-defined]
clicks.filter(lambda click: click.prize)  # type: ignore[attr-defined]
clicks.map(dearer, 1).filter(lambda click: click.prize)  # type: ignore[attr-defined]
clicks.map(waited).filter(lambda click: click.prize)  # type: ignore[attr-defined]
clicks.flat_map(both).peek(lambda click: click.prize)  # type: ignore[attr-defined]
clicks.filter(lambda click, least: click.prize > least, 3)  # type: ignore[attr-defined]
clicks.filter(dearer, "1")  # type: ignore[arg-type]
