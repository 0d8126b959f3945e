"""`fulmen diff`: what would change on a cluster, and what that does."""

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fulmen.cli.bad_input import BAD_INPUT, BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command
from fulmen.cli.cluster.topology import condition, is_paused, state_of
from fulmen.cli.commands.manifest import manifest
from fulmen.cli.streams import echo
from fulmen.errors import ValidationFailed
from fulmen.kube.contract import GROUP, PAUSED_ANNOTATION
from fulmen.topology.problems import Problem
from fulmen.topology.reading.documents import to_document
from fulmen.topology.reading.field_problems import parse, repair
from fulmen.topology.resource.changes import MEANINGS, Change, Effect, spec_changes, strongest
from fulmen.topology.resource.status import TopologyStatus
from fulmen.topology.validation.check import check
from fulmen.visible import visible

_SHOWN = 60
"""Characters of a value, at most."""
_STDIN = Path("-")


@dataclass(frozen=True)
class Difference:
    """The effect of a change on a topology on a cluster.

    Attributes:
        does: An effect; `Create` if there is no such topology, `Refused` if the operator would not
            take the change, `Nothing` if there is none.
        changes: What changes in the spec.
        problems: Why it would be refused.
        notes: What else to know.
    """

    does: str
    changes: Sequence[Change] = ()
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def difference(before: Json | None, after: Json) -> Difference:
    """The effect of a change, by the table by which the operator decides. Pure."""
    status, _ = repair(TopologyStatus, _known((before or {}).get("status") or {}))
    errors = check(
        _document(after),
        checkpoint_tasks=status.kept_tasks if status else {},
        import_classes=False,
        for_kubernetes=True,
    ).errors
    old, new = _given(before) if before else {}, _given(after)
    changes = spec_changes(old, new) if before else []
    if errors:
        return Difference("Refused", changes, errors)
    if before is None:
        return Difference("Create")
    does = strongest(changes) or (Effect.LIVE if changes else None)
    notes = tuple(_notes(before, changes))
    return Difference(does.value if does else "Nothing", changes, (), notes)


def _known(status: Json) -> Json:
    known = {field.alias for field in TopologyStatus.model_fields.values()}
    return {key: value for key, value in status.items() if key in known}


def _document(topology: Json) -> Json:
    name = {"name": topology["metadata"]["name"]}
    kept: Json = {key: topology[key] for key in ("apiVersion", "kind", "spec") if key in topology}
    return {**kept, "metadata": name}


def _given(topology: Json) -> Json:
    """The spec without defaults; as it is if this version can't read it."""
    try:
        spec: Json = to_document(parse(_document(topology)))["spec"]
    except ValidationFailed:
        spec = topology["spec"]
    return spec


def _notes(before: Json, changes: Sequence[Change]) -> Iterator[str]:
    if is_paused(before):
        yield f"Nothing happens as long as the topology has the annotation {PAUSED_ANNOTATION}."
    accepted = condition(before, "SpecAccepted")
    if accepted.get("status") == "False":
        yield (
            f"The newest spec on the cluster was not accepted ({accepted.get('reason')}): an older"
            " one is running, so more may change than is listed."
        )
    if state_of(before) == "Suspended" and changes:
        yield "The topology is suspended: the change takes effect when it is activated."
    for change in changes:
        entry = change.path.count(".") == 1 and change.path.endswith("]")
        if entry and change.after is None and change.path.startswith(("spec.spouts", "spec.bolts")):
            yield (
                f"{change.path} is removed: it loses its state with the first batch of the new"
                " driver. One that is renamed is another one."
            )
        if change.path in ("spec.checkpoint.uri", "spec.checkpoint.persistentVolumeClaim"):
            yield "The new driver continues from what is in the new checkpoint: nothing is moved."


@click.command(short_help="Show what a change would do to a topology, on a cluster.")
@click.option("--server-side", is_flag=True, help="As `kubectl apply --server-side` would do it.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@cluster_command
def diff(kubectl: Kubectl, server_side: bool, as_json: bool, **given: Any) -> None:
    """Show what would change on the cluster if FILE was applied, and what that does.

    That is: nothing, live, a rebalance, a new driver, or that it is refused. Takes the options of
    `fulmen manifest`. FILE - reads what that printed from standard input. Nothing is changed; the
    API server is asked by a dry run, for which you need the right to change the topology. The exit
    code is 2 if the change would be refused.
    """
    context = click.get_current_context()
    if given["archive"] is not None and given["uri"] is None:
        raise BadInput("--archive alone prints no topology: add --uri URI.")
    text = sys.stdin.read() if given["file"] == _STDIN else _printed(context, given)
    after = _topology_in(kubectl.dry_run(text, *(["--server-side"] if server_side else [])))
    found = difference(kubectl.of(after).find(after["metadata"]["name"]), after)
    show = _show_json if as_json else _show
    show(after, found)
    context.exit(BAD_INPUT if found.does == "Refused" else 0)


diff.params = [*manifest.params, *diff.params]


def _printed(context: click.Context, given: dict[str, Any]) -> str:
    """The output of `fulmen manifest` for these options."""
    with redirect_stdout(io.StringIO()) as printed:
        context.invoke(manifest, **given)
    return printed.getvalue()


def _topology_in(objects: Sequence[Json]) -> Json:
    found = [
        thing
        for thing in objects
        if thing["kind"] == "Topology" and thing["apiVersion"].startswith(f"{GROUP}/")
    ]
    if len(found) != 1:
        raise BadInput(f"there are {len(found)} topologies in it, but there must be one.")
    return found[0]


def _show(after: Json, found: Difference) -> None:
    metadata = after["metadata"]
    who = f"topology {metadata['name']!r} in namespace {metadata['namespace']!r}"
    for c in found.changes:
        echo(f"{c.effect:9}  {c.path}: {_value(c.before)} -> {_value(c.after)}")
    sentences: dict[str, Callable[[], str]] = {
        "Create": lambda: f"{who} would be made: there is none yet.",
        "Nothing": lambda: f"{who} would not change.",
        "Refused": lambda: f"{who} would not change: the operator refuses the change.",
    }
    if make := sentences.get(found.does):
        echo(make())
    else:
        echo(f"{who}: {found.does}. {MEANINGS[Effect(found.does)]}")
    for problem in found.problems:
        echo(f"  {problem}")
    for note in found.notes:
        echo(note)


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _show_json(after: Json, found: Difference) -> None:
    metadata = after["metadata"]
    content = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "does": found.does,
        "changes": [vars(change) for change in found.changes],
        "problems": [vars(problem) for problem in found.problems],
        "notes": list(found.notes),
    }
    echo(json.dumps(content, indent=2, ensure_ascii=False))
