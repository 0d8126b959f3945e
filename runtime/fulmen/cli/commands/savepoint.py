"""`fulmen savepoint`: states of a topology that stay, and that it can go back to."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import click

from fulmen.checkpoint import CommitLog, Manifest, Store, new_tag, read_newest
from fulmen.checkpoint.savepoints.exports import export as exported
from fulmen.checkpoint.savepoints.exports import opened
from fulmen.checkpoint.savepoints.history import branches_of
from fulmen.checkpoint.savepoints.pins import (
    PINS,
    Pin,
    check_name,
    pin_named,
    pins_in,
    pins_section,
    read_pinned,
)
from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.kept import (
    ends_driver_option,
    output_option,
    refuse_running,
    running_here,
)
from fulmen.cli.local.run_checkpoint import as_uri, wanted_uri
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import TopologyFile
from fulmen.engine.driver.checkpoints.savepoints import Wish, granted
from fulmen.engine.driver.edits.restoring import copied, go_back
from fulmen.errors import FulmenError
from fulmen.visible import visible

_POLL_SECONDS = 0.2
_TOLD_SECONDS = 10  # a driver looks every five
_checkpoint = click.argument("checkpoint")
_name = click.argument("name")
_stopped = click.option(
    "--stopped",
    "is_stopped",
    is_flag=True,
    help="The topology does not run: the command makes the commit itself. A driver that runs"
    " elsewhere all the same ends.",
)
_wait = click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for the driver that runs.",
)


@click.group(short_help="Keep states of a topology, copy them, and go back to them.")
def savepoint() -> None:
    """Keep states of a topology, copy them elsewhere, and go back to them.

    A savepoint is the state that a commit left. It has a name, and stays until it is deleted. It
    takes no copy: it costs the room of what has changed since.

    CHECKPOINT is a folder, a URI (file://, s3://, gs://, az://), or a topology's file that names
    its checkpoint. The running driver makes and deletes savepoints, between two batches. For a
    topology that does not run, give --stopped.
    """


@savepoint.command(short_help="Give the present state a name; it stays.")
@_checkpoint
@_name
@click.option("--why", default="", metavar="TEXT", help="What it is for.")
@_stopped
@_wait
def create(checkpoint: str, name: str, why: str, is_stopped: bool, seconds: float) -> None:
    """Have the state of the topology of CHECKPOINT stay, as NAME."""
    check_name(name)
    store, manifest = _opened(checkpoint)
    if name in _pins(manifest):
        raise BadInput(f"checkpoint {store.uri}: there is a savepoint {name!r} already.")
    _do(store, Wish(name, why=why, by=_who()), is_stopped, seconds)
    pin = pin_named(store, read_newest(store), name)
    tell(f"savepoint {name!r} of {store.uri}: the state of commit {pin.number}.")


@savepoint.command(short_help="Let go of savepoints.")
@_checkpoint
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_stopped
@_wait
def delete(checkpoint: str, names: tuple[str, ...], is_stopped: bool, seconds: float) -> None:
    """Let go of savepoints. What only they need is deleted some commits later."""
    store, manifest = _opened(checkpoint)
    for name in names:
        pin_named(store, manifest, name)
    for name in names:
        _do(store, Wish(name, deletes=True, by=_who()), is_stopped, seconds)
        tell(f"savepoint {name!r} of {store.uri} is deleted.")


@savepoint.command("list", short_help="List the savepoints.")
@_checkpoint
@output_option()
def list_(checkpoint: str, output: str) -> None:
    """List the savepoints of CHECKPOINT, from old to new."""
    store, manifest = _opened(checkpoint)
    pins = sorted(_pins(manifest).items(), key=lambda item: item[1].commit)
    if output == "json":
        echo(json.dumps([_about(name, pin) for name, pin in pins], indent=2))
        return
    width = max((len(name) for name, _ in pins), default=0)
    for name, pin in pins:
        line = f"{name:<{width}}  commit {pin.number:<8}  {_moment(pin.time)}  {pin.why}"
        echo(visible(line.rstrip()))
    for branch in branches_of(manifest):
        tell(f"commit {branch.at} went back to the state of commit {branch.origin}.")
    if not pins:
        tell(f"checkpoint {store.uri} has no savepoints.")


@savepoint.command(short_help="Show one savepoint: when, why, by whom, and what it holds.")
@_checkpoint
@_name
def show(checkpoint: str, name: str) -> None:
    """Show the savepoint NAME of CHECKPOINT."""
    store, manifest = _opened(checkpoint)
    pin = pin_named(store, manifest, name)
    kept = read_pinned(store, name, pin)
    missing = kept.objects.difference(store.list("commits/"), store.list("state/"))
    only = kept.objects - manifest.objects
    content = _about(name, pin) | {
        "topology": kept.topology,
        "tasks": len(kept.tasks),
        "objects": len(kept.objects),
        "objects of its own": len(only),
        "missing objects": sorted(missing),
    }
    echo(json.dumps(content, indent=2))
    if missing:
        raise FulmenError(f"savepoint {name!r} of {store.uri} is damaged: it lacks {min(missing)}.")


@savepoint.command("export", short_help="Copy a savepoint to a folder, a bucket, or one file.")
@_checkpoint
@_name
@click.argument("target")
def export_(checkpoint: str, name: str, target: str) -> None:
    """Copy the savepoint NAME to TARGET: a file whose name ends in .tar, a folder, or a URI.

    All that the state needs is in it, with checksums. `fulmen savepoint import`, or
    spec.restoreFrom, makes a checkpoint of it.
    """
    store, _ = _opened(checkpoint)
    size = exported(store, name, target)
    tell(f"savepoint {name!r} of {store.uri} is in {target}: {size:,} bytes.")


@savepoint.command("import", short_help="Fill an empty checkpoint from a savepoint.")
@click.argument("source")
@click.argument("checkpoint")
@click.option(
    "--topology",
    metavar="[NAMESPACE/]NAME",
    required=True,
    help="The topology that the checkpoint is for.",
)
def import_(source: str, checkpoint: str, topology: str) -> None:
    """Fill the empty CHECKPOINT from SOURCE: an export, or CHECKPOINT#NAME.

    The topology is a copy: its sinks have ids of their own, and rows that the original had still to
    write are left out.
    """
    store = Store.open(as_uri(checkpoint))
    with opened(source) as found:
        for text in copied(found, store, topology, _who()):
            tell(f"{text}.")


@savepoint.command(short_help="Go back to a savepoint. The topology must not run.")
@_checkpoint
@_name
@ends_driver_option
def restore(checkpoint: str, name: str, ends_driver: bool) -> None:
    """Go back to the savepoint NAME, with one commit. The state before gets a savepoint as well.

    It is refused while a driver runs on this machine; one elsewhere ends. Numbers of commits go on:
    what outer stores have of the commits since is noticed when the topology runs again.
    """
    store, manifest = _opened(checkpoint)
    pin_named(store, manifest, name)
    if not ends_driver:
        refuse_running(store)
    tell(f"{store.uri}: {go_back(_claimed(store, manifest), store, name, time.time())}.")


def _opened(checkpoint: str) -> tuple[Store, Manifest]:
    """The checkpoint, in which something was committed."""
    file = Path(checkpoint)
    uri = None if file.is_file() else as_uri(checkpoint)
    if uri is None and (uri := wanted_uri(None, TopologyFile(file).document())) is None:
        raise BadInput(f"'{file}' names no checkpoint in spec.checkpoint.uri.")
    store = Store.open(uri)
    manifest = read_newest(store)
    if not manifest.number:
        raise BadInput(f"checkpoint {store.uri}: nothing was ever committed there.")
    return store, manifest


def _do(store: Store, wish: Wish, is_stopped: bool, seconds: float) -> None:
    """Have the driver do it; or do it here."""
    if is_stopped:
        manifest = read_newest(store)
        if (process := running_here(manifest)) is not None:
            raise BadInput(
                f"checkpoint {store.uri}: topology {manifest.topology!r} runs on this machine"
                f" (process {process}). Leave out --stopped: its driver does it."
            )
        log = _claimed(store, manifest)
        manifest = log.manifest
        pins = granted(_pins(manifest), [wish], manifest.number + 1, time.time())
        draft = log.draft(
            tag=new_tag(),
            clock=manifest.clock,
            sections={PINS: pins_section(pins)},
            transient=dict(manifest.transient),
            full=True,
        )
        log.commit(draft)
        return
    if not wish.ask(store):
        raise BadInput(
            f"checkpoint {store.uri}: savepoint {wish.name!r} is asked for already, and the driver"
            f" has not answered yet. To withdraw that, delete the object {wish.key!r}."
        )
    try:
        _wait_for_driver(store, wish, seconds)
    except BaseException:  # nobody waits for it any more
        store.delete([wish.key])
        raise


def _wait_for_driver(store: Store, wish: Wish, seconds: float) -> None:
    began, is_told = time.monotonic(), False
    while store.list(f"{wish.key.rpartition('/')[0]}/").count(wish.key):
        waited = time.monotonic() - began
        if waited > seconds:
            raise FulmenError(
                f"no driver has answered within {seconds:g} s. If the topology does not run, give"
                " --stopped; if it is slow, a larger --wait."
            )
        if waited > _TOLD_SECONDS and not is_told:
            tell(
                f"no driver has answered yet: waiting for {seconds:g} s. If the topology does not"
                " run, press Ctrl-C and give --stopped."
            )
            is_told = True
        time.sleep(_POLL_SECONDS)


def _claimed(store: Store, manifest: Manifest) -> CommitLog:
    log = CommitLog(store, manifest.topology, _who())
    log.claim()
    return log


def _pins(manifest: Manifest) -> dict[str, Pin]:
    return pins_in(manifest.sections.get(PINS))


def _about(name: str, pin: Pin) -> dict[str, Any]:
    moment = _moment(pin.time)
    return {"name": name, "commit": pin.number, "time": moment, "why": pin.why, "by": pin.by}


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _who() -> str:
    return f"fulmen savepoint, {socket.gethostname()}, process {os.getpid()}"
