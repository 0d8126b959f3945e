"""`fulmen why`: what holds a topology up, what fails, and what to do about it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from pydantic import ValidationError

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import read_url
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command, optional_topology_name
from fulmen.cli.cluster.topology import state_of
from fulmen.cli.commands.cluster.top import STATES_WITHOUT_FIGURES, read_driver, read_view
from fulmen.cli.display.why.cluster import is_about
from fulmen.cli.display.why.findings import Known, why_lines
from fulmen.cli.display.why.findings import why as findings
from fulmen.cli.display.why.run import RunReport
from fulmen.cli.streams import echo
from fulmen.errors import FulmenError
from fulmen.visible import visible

T = TypeVar("T")


@click.command(short_help="Say what holds a topology up, and what to do.")
@optional_topology_name
@click.option(
    "--url",
    metavar="URL",
    help="Of a `fulmen run --metrics-port` at this URL, without a cluster.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Of a run that has ended: what `fulmen run --report` wrote.",
)
@cluster_command
def why(kubectl: Kubectl, name: str | None, url: str | None, report: Path | None) -> None:
    """Say of the topology NAME what it waits for, what fails, where the time goes, and the cures.

    This reads its status, the events of it and of its pods, and the figures of its driver, as far
    as you may.
    """
    if sum(source is not None for source in (name, url, report)) != 1:
        raise BadInput("give one of these: the NAME of a topology on a cluster, --url, --report.")
    if name is None and kubectl.flags:
        raise BadInput("--namespace and --context are for a topology on a cluster.")
    now = time.time()
    if url is not None:
        view = read_view(read_url(url), url)
        title, known = f"topology {view.name!r} is {view.state}", Known(now, view=view)
    elif report is not None:
        read = _read_report(report)
        title, known = f"topology {read.topology!r} has ended", Known(now, report=read)
    else:
        topology = kubectl.get(str(name))
        title, known = _headline(topology), known_of(kubectl.of(topology), topology, now)
    echo(f"{title}\n")
    for line in why_lines(findings(known)):
        echo(line)


def known_of(kubectl: Kubectl, topology: Json, now: float) -> Known:
    """Read all that can be read of a topology on a cluster."""
    unknown: list[str] = []
    name = topology["metadata"]["name"]

    def events() -> list[Json]:
        about = f"involvedObject.name={name}"
        own = kubectl.events("involvedObject.kind=Topology", about, "type=Warning")
        pods = [str(pod["metadata"]["name"]) for pod in kubectl.pods(topology)]
        others = kubectl.events("involvedObject.kind=Pod", "type=Warning")
        return [*own, *(event for event in others if is_about(event, name, pods))]

    found = _or_unknown(events, "its events", unknown)
    view = None
    if state_of(topology) not in STATES_WITHOUT_FIGURES and topology["status"].get("driverPod"):
        view = _or_unknown(
            lambda: read_driver(kubectl, topology), "the figures of its driver", unknown
        )
    return Known(now, topology, found or (), view, unknown=unknown)


def _or_unknown(read: Callable[[], T], what: str, unknown: list[str]) -> T | None:
    """Read; None, and a sentence in `unknown`, if it can't be read."""
    try:
        return read()
    except FulmenError as error:
        unknown.append(f"{what} could not be read: {error}")
        return None


def _headline(topology: Json) -> str:
    status, name = topology.get("status", {}), topology["metadata"]["name"]
    since = f" since {status['stateSince']}" if status.get("stateSince") else ""
    message = f": {visible(status['message'])}" if status.get("message") else ""
    return f"topology {name!r} is {state_of(topology)}{since}{message}"


def _read_report(file: Path) -> RunReport:
    try:
        return RunReport.model_validate_json(file.read_bytes())
    except OSError as error:
        raise BadInput(f"--report: '{file}' can't be read: {error.strerror}.") from error
    except ValidationError as error:
        raise BadInput(f"--report: '{file}' is not what `fulmen run --report` writes.") from error
