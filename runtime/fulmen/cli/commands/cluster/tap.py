"""`fulmen tap`: tuples of a running topology, as they are emitted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.parse import urlencode

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import checked_url, opened, said
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command, optional_topology_name
from fulmen.cli.cluster.port_forward import Forward, driver_of
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError

_SILENT_SECONDS = 30.0
"""The server says something every second."""
_WITHOUT_DRIVER = "there are no tuples"


@click.command(short_help="Show tuples of a running topology.")
@optional_topology_name
@click.argument("component", required=False)
@click.option(
    "--where",
    metavar="FIELD=VALUE",
    multiple=True,
    help="Only tuples with that value, such as country=DE or user.age=7. May be given several"
    " times: then all have to hold.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N tuples.")
@click.option(
    "--tree",
    metavar="ID",
    default="",
    help="Follow one tree through all components: its id, or `next` for one that begins now.",
)
@click.option(
    "--url",
    metavar="URL",
    help="Of the topology of a `fulmen run --metrics-port` at this URL, without a cluster.",
)
@cluster_command
def tap(
    kubectl: Kubectl,
    name: str | None,
    component: str | None,
    where: tuple[str, ...],
    limit: int | None,
    tree: str,
    url: str | None,
) -> None:
    """Show tuples that COMPONENT of the topology NAME emits, until Ctrl-C.

    COMPONENT may be COMPONENT:STREAM. With --url, leave NAME out. Each tuple is a line of JSON.
    They are a sample if there are many, of batches that are committed. The topology has to allow it
    with `tap: {allowed: true}` in its spec.

    The tuples come from the driver through `kubectl port-forward`, so you need the right to create
    pods/portforward.
    """
    if url is not None:
        if component is not None or kubectl.flags:
            raise BadInput("--url is for a topology without a cluster: name the component alone.")
        name, component = None, name
    elif name is None:
        raise BadInput("name the topology and a component, or give --url.")
    if component is None and not tree:
        raise BadInput("name the component whose tuples are to be shown, or give --tree.")
    of, _, stream = (component or "").partition(":")
    wanted = {"component": of, "stream": stream, "where": where, "tree": tree, "limit": limit}
    given = {key: value for key, value in wanted.items() if value}
    path = f"api/tap?{urlencode(given, doseq=True)}"
    others = 0
    try:
        with _server(kubectl, name, url) as address:
            for line in _lines(address, path):
                others += _show(line)
    except KeyboardInterrupt:  # how it is meant to end
        return
    finally:
        if others:
            tell(f"{others:,} more tuples are not shown.")


@contextmanager
def _server(kubectl: Kubectl, name: str | None, url: str | None) -> Iterator[str]:
    """The address of what shows a topology."""
    if url is not None:
        yield checked_url(url)
        return
    assert name is not None
    topology = kubectl.get(name)
    with Forward(kubectl.of(topology), driver_of(topology, _WITHOUT_DRIVER)) as forward:
        yield forward.url


def _lines(server: str, path: str) -> Iterator[Json]:
    """Yield the server's lines, up to the one that says that it has come to its end."""
    try:
        with opened(server, path, _SILENT_SECONDS) as answer:
            while line := answer.readline():
                found: Json = json.loads(line) if line.strip() else {}
                if "ended" in found:
                    break
                yield found
            else:
                found = {"ended": "the driver, or the way to it, is gone. Start again"}
    except HTTPError as error:
        raise (BadInput if error.code < 500 else FulmenError)(said(error)) from error
    if found["ended"]:
        raise FulmenError(f"{found['ended']}.")


def _show(found: Json) -> int:
    """Print a tuple. Returns how many others there were, if it says that instead."""
    if found and "others" not in found:
        echo(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
    return int(found.get("others", 0))
