"""`fulmen rebalance`: other numbers of workers, executors, tasks and ackers, on a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command_without_short, topology_name
from fulmen.cli.cluster.topology import progress
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError, ValidationFailed
from fulmen.topology.problems import Problem, did_you_mean, there_are


@dataclass(frozen=True)
class WantedNumbers:
    """The numbers that are asked for; None: as before. Executors and tasks are COMPONENT=N."""

    workers: int | None = None
    ackers: int | None = None
    executors: Sequence[str] = ()
    tasks: Sequence[str] = ()


@dataclass(frozen=True)
class Rebalance:
    """The effect of a rebalance on a topology: one JSON patch, and what there is to say of it."""

    patch: list[Json] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@click.command(short_help="Change workers and parallelism of a topology, on a cluster.")
@topology_name
@click.option("-n", "--workers", type=int, metavar="N", help="The number of workers.")
@click.option(
    "-e",
    "--executors",
    multiple=True,
    metavar="COMPONENT=N",
    help="The number of executors of a spout or bolt. May be repeated.",
)
@click.option(
    "-t",
    "--tasks",
    multiple=True,
    metavar="COMPONENT=N",
    help="The number of tasks of a spout or bolt. May be repeated.",
)
@click.option("-a", "--ackers", type=int, metavar="N", help="The number of ackers; 0: none.")
@cluster_command_without_short
def rebalance(
    kubectl: Kubectl,
    name: str,
    workers: int | None,
    executors: tuple[str, ...],
    tasks: tuple[str, ...],
    ackers: int | None,
) -> None:
    """Change the numbers of workers, executors, tasks and ackers of the topology NAME as it runs.

    Its spouts stop, its pending trees end, its executors are placed anew, and its spouts continue.
    With another number of tasks, keys of state move to the tasks that they belong to from then on.
    """
    wanted = WantedNumbers(workers, ackers, executors, tasks)
    if wanted == WantedNumbers():
        raise BadInput("nothing was asked for. Give -n, -e, -t or -a.")
    made = make_rebalance(kubectl.get(name), wanted)
    try:
        topology = kubectl.patch(name, made.patch)
    except FulmenError:
        again = make_rebalance(kubectl.get(name), wanted)
        if again.patch == made.patch:  # then it was not for a change in between
            raise
        made = again
        topology = kubectl.patch(name, made.patch)
    for warning in made.warnings:
        tell(f"warning: {warning}")
    echo(progress(kubectl, topology, ", ".join(made.changes)))


def make_rebalance(topology: Json, wanted: WantedNumbers) -> Rebalance:
    """Plan a rebalance to these numbers. ValidationFailed names all mistakes."""
    problems: list[Problem] = []
    made = Rebalance()
    spec = topology["spec"]
    if wanted.workers is not None:
        problems += _too_small("-n", "the number of workers", wanted.workers, 1)
        _set(made, "/spec/workers", "workers", spec.get("workers", 1), wanted.workers)
    parts = _components(spec)
    executors, mistakes = _numbers("-e", "executors", wanted.executors, list(parts))
    tasks, more = _numbers("-t", "tasks", wanted.tasks, list(parts))
    problems += [*mistakes, *more]
    for name, number in executors.items():
        path, component = _tested(made, name, parts)
        before = component.get("parallelism", 1)
        _set(made, f"{path}/parallelism", f"executors of {name!r}", before, number)
        there = tasks.get(name, _tasks_of(topology, component))
        made.warnings.extend(_capped(name, there, number))
    for name, number in tasks.items():
        path, component = _tested(made, name, parts)
        before = _tasks_of(topology, component) or "as many as executors"
        _set(made, f"{path}/numTasks", f"tasks of {name!r}", before, number)
    if wanted.ackers is not None:
        problems += _too_small("-a", "the number of ackers", wanted.ackers, 0)
        if spec.get("transactional") and wanted.ackers > 0:
            problems.append(Problem("-a", "a transactional topology has no ackers"))
        before = spec.get("ackers", "as many as workers")
        _set(made, "/spec/ackers", "ackers", before, wanted.ackers)
    if problems:
        raise ValidationFailed(problems)
    return made


def _tested(made: Rebalance, name: str, parts: Mapping[str, tuple[str, Json]]) -> tuple[str, Json]:
    """The path of a component, and it. The patch fails if another one has taken its place there."""
    path, component = parts[name]
    made.patch.append({"op": "test", "path": f"{path}/name", "value": name})
    return path, component


def _set(made: Rebalance, path: str, what: str, before: object, number: int) -> None:
    made.patch.append({"op": "add", "path": path, "value": number})
    was = "as before" if before == number else f"was {before}"
    made.changes.append(f"{what} {number} ({was})")


def _too_small(option: str, what: str, number: int, least: int) -> Iterator[Problem]:
    if number < least:
        yield Problem(option, f"{what} is {number}, but must be at least {least}")


def _components(spec: Json) -> dict[str, tuple[str, Json]]:
    """Every spout and bolt, and its path in a JSON patch."""
    listed = [
        (f"/spec/{kind}/{i}", component)
        for kind in ("spouts", "transactional", "bolts")
        for i, component in enumerate(spec.get(kind, ()))
    ]
    return {component["name"]: (path, component) for path, component in listed}


def _numbers(
    given_as: str, what: str, pairs: Sequence[str], names: Sequence[str]
) -> tuple[Mapping[str, int], list[Problem]]:
    """The number of each component that was named rightly, and all mistakes."""
    found: dict[str, int] = {}
    problems: list[Problem] = []
    for pair in pairs:
        name, _, text = pair.partition("=")
        option = f"{given_as} {pair}"
        try:
            number = int(text)
        except ValueError:
            problems.append(
                Problem(option, "not a component and a number", f"Such as {given_as} count=4.")
            )
            continue
        problems += _too_small(option, f"the number of {what}", number, 1)
        if name not in names:
            cure = did_you_mean(name, names) or there_are(names)
            problems.append(Problem(option, f"there is no component {name!r}", cure))
        elif name in found:
            problems.append(Problem(option, f"component {name!r} was given before"))
        else:
            found[name] = number
    return found, problems


def _tasks_of(topology: Json, component: Json) -> int | None:
    """The number of tasks, which the status knows if the spec doesn't say it."""
    known = {c["name"]: c["tasks"] for c in topology.get("status", {}).get("components", ())}
    tasks: int | None = known.get(component["name"], component.get("numTasks"))
    return tasks


def _capped(name: str, tasks: int | None, number: int) -> Iterator[str]:
    """A warning if there are fewer tasks."""
    if tasks is not None and number > tasks:
        yield (
            f"component {name!r} has {tasks} task{'' if tasks == 1 else 's'}: so there will be"
            f" {tasks} executors, not {number}. For more, give it more tasks as well: -t"
            f" {name}={number}"
        )
