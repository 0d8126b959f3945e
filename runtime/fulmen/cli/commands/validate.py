"""`fulmen validate`: every mistake in a topology, before anything runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from fulmen.cli.bad_input import BAD_INPUT
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import TopologyFile, tell_warnings, topology_arguments
from fulmen.errors import CodeError, ValidationFailed
from fulmen.topology.problems import Problem
from fulmen.topology.resource.spec import Topology


@click.command(short_help="Find all mistakes in a topology.")
@topology_arguments
@click.option(
    "--checkpoint",
    metavar="CHECKPOINT",
    help="Tell of state in this checkpoint that no component of the topology has, and of values"
    " that its classes can't read. Default: that of spec.checkpoint.uri, if it is a folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def validate(ctx: click.Context, file: TopologyFile, checkpoint: str | None, as_json: bool) -> None:
    """Find all mistakes in the topology of FILE: in its fields, its streams, and its classes.

    This imports the classes, so the code of their modules runs. The exit code is 2 if there are
    mistakes.
    """
    if as_json:
        try:
            checked = file.checked()
            problems = checked.problems
            if all(problem.severity != "error" for problem in problems):
                problems = (*problems, *_of_state(file, checked.topology(), checkpoint))
        except ValidationFailed as error:
            problems = tuple(p for p in error.problems if isinstance(p, Problem))
        except CodeError as error:
            problems = (Problem("", error.message, error.cure),)
        valid = all(problem.severity != "error" for problem in problems)
        content = {"valid": valid, "problems": [asdict(problem) for problem in problems]}
        echo(json.dumps(content, indent=2, ensure_ascii=False))
        ctx.exit(0 if valid else BAD_INPUT)
    checked = file.checked()
    tell_warnings(checked)
    of_state = _of_state(file, checked.topology(), checkpoint)
    for problem in of_state:
        if problem.severity == "warning":
            tell(f"warning: {problem}")
    if errors := [problem for problem in of_state if problem.severity == "error"]:
        raise ValidationFailed(errors)
    echo(f"{file}: {summary(checked.topology())}")


def _of_state(file: TopologyFile, topology: Topology, checkpoint: str | None) -> Sequence[Problem]:
    """State that a checkpoint keeps, and that no component has, or that its code can't read."""
    uri = checkpoint or topology.spec.checkpoint.uri
    if uri is None or not (checkpoint or uri.startswith("file:")):
        return ()
    # Without a checkpoint, a topology is validated where nothing that runs one is installed.
    from fulmen.checkpoint import Store
    from fulmen.cli.local.run_checkpoint import as_uri, look_at_any
    from fulmen.engine.driver.edits.state_check import mistakes_in_state
    from fulmen.engine.totals.kept_state import CURE, kept_beside, kept_sentences

    uri = as_uri(uri) if checkpoint else uri
    kept = kept_sentences(kept_beside(look_at_any(uri, topology.name), topology))
    with file.code(topology.spec.code):
        mistakes = mistakes_in_state(Store.open(uri), topology)
    return [*(Problem("", sentence, CURE, "warning") for sentence in kept), *mistakes]


def summary(topology: Topology) -> str:
    """Summarize a topology in a line."""
    spec = topology.spec
    tasks = sum(component.tasks for component in spec.components) + spec.acker_tasks
    sources = {"spout": spec.spouts, "transactional spout": spec.transactional}
    counts = [
        *(_count(len(of), kind) for kind, of in sources.items() if of),
        _count(len(spec.bolts), "bolt"),
        _count(tasks, "task"),
        _count(spec.workers, "worker"),
    ]
    return f"topology {topology.name!r} is valid: {', '.join(counts)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
