"""`fulmen plan`: where a topology's executors run, and in which stages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from fulmen.cli.display.output import open_console
from fulmen.cli.streams import echo
from fulmen.cli.topology_file import (
    TopologyFile,
    tell_warnings,
    topology_arguments,
    workers_option,
)
from fulmen.expressions.selection import ANY_FIELDS, selected, steps_of
from fulmen.plan import Executor, Plan, make_plan
from fulmen.plan.model import DRIVER
from fulmen.plan.savings import Saving, stage_costs
from fulmen.streams.bolts.ahead import StepsAhead
from fulmen.streams.bolts.async_step import AsyncStep
from fulmen.streams.bolts.fused import FusedSteps
from fulmen.streams.graph.registry import find_graph
from fulmen.topology.code.loading import create_input_function
from fulmen.topology.resource.spec import Input, Topology
from fulmen.topology.validation.check import Checked


@click.command(short_help="Show where everything runs.")
@topology_arguments
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "mermaid"]),
    default="table",
    show_default=True,
    help="The format; mermaid draws the topology.",
)
@workers_option
def plan(file: TopologyFile, output: str) -> None:
    """Show where the executors of the topology of FILE run, and the stages of a batch."""
    checked = file.checked()
    tell_warnings(checked)
    topology = checked.topology()
    made = make_plan(topology, pinned=checked.pinned)
    if output == "json":
        content = plan_json(topology, made) | {"inputs": list(steps_of_inputs(checked))}
        echo(json.dumps(content, indent=2))
    elif output == "mermaid":
        echo("\n".join(mermaid(topology, made)))
    else:
        _print_tables(topology, made, open_console(), list(steps_of_inputs(checked)))


def plan_json(topology: Topology, plan: Plan) -> dict[str, Any]:
    """The plan as plain values, with a row for each task."""
    tasks = [
        {
            "task": task,
            "component": executor.component,
            "executor": [executor.first, executor.last],
            "worker": worker,
        }
        for executor, worker in zip(plan.executors, plan.assignment, strict=True)
        for task in executor.tasks
    ]
    content = plan.to_json()
    return {
        "workers": content["workers"],
        "tasks": tasks,
        "executors": content["executors"],
        "stages": content["stages"],
        "stage_costs": [asdict(cost) for cost in stage_costs(topology, plan)],
    }


def steps_of_inputs(checked: Checked) -> Iterator[dict[str, Any]]:
    """The inputs with `where`, `select` or `through`, with the types of their fields."""
    topology = checked.topology()
    kept = 1 if topology.spec.transactional else 0
    for bolt in topology.spec.bolts:
        for item in bolt.inputs:
            stream = checked.streams.get(item.from_, {}).get(item.stream, ANY_FIELDS)
            steps = steps_of(stream, item.where, item.select, kept)
            if steps is None and item.through is None:
                continue
            types = selected(steps, stream).stream.types
            select = {
                name: {"type": types.get(name), "expression": text}
                for name, text in (item.select or {}).items()
            }
            of = {"bolt": bolt.name, "from": item.from_, "stream": item.stream}
            through = item.through and {
                name: {"type": item.through.types.get(name)} for name in item.through.fields
            }
            yield {**of, "where": item.where, "select": select or None, "through": through}


def fused_steps(topology: Topology) -> Iterator[str]:
    """The functions of `fulmen.streams`, what runs them, and where each was written."""
    for bolt in topology.spec.bolts:
        for item in bolt.inputs:
            if item.through is None:
                continue
            yield f"{item.from_} runs, ahead of {bolt.name}"
            function = create_input_function(item.through)
            for step in function.steps() if isinstance(function, StepsAhead) else ():
                yield f"  {step.words} ({step.place})"
        if bolt.class_ not in (
            f"{one.__module__}.{one.__name__}" for one in (FusedSteps, AsyncStep)
        ):
            continue
        yield f"{bolt.name} runs"
        graph = find_graph(bolt.config["pipeline"])
        for step in graph.steps(bolt.config["steps"], bolt.config["digest"]):
            yield f"  {step.words} ({step.place})"


def _print_steps(inputs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """The steps of inputs, with what is known of the types that they give."""
    for one in inputs:
        if not (one["where"] or one["select"]):
            continue  # `fused_steps` tells of its functions
        stream = "" if one["stream"] == "default" else f":{one['stream']}"
        where = f" where {one['where']}" if one["where"] else ""
        line = f"{one['bolt']} receives of {one['from']}{stream}{where}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
        for name, of in (one["select"] or {}).items():
            shown = f"  {name} ({of['type'] or 'any type'}): {of['expression']}"
            console.print(shown, highlight=False, markup=False, soft_wrap=True)


def _print_tables(
    topology: Topology, plan: Plan, console: Console, inputs: Sequence[Mapping[str, Any]]
) -> None:
    table = Table("worker", "component", "executor", "tasks", title=topology.name, box=None)
    table.title_justify = "left"
    for worker in _hosts(plan):
        for i, executor in enumerate(plan.executors_on(worker)):
            name = _host_name(worker) if i == 0 else ""
            count = str(len(executor.tasks))
            table.add_row(name, executor.component, _range(executor), count)
        table.add_section()
    console.print(table)
    console.print()
    for line in _stages(topology, plan):
        console.print(line, highlight=False, soft_wrap=True)
    _print_steps(inputs, console)
    for line in [*_in_one_task(topology), *fused_steps(topology)]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    counts = f"{plan.task_count} tasks in {len(plan.executors)} executors on {plan.workers} worker"
    console.print(f"{counts}{'' if plan.workers == 1 else 's'}", highlight=False)


def _stages(topology: Topology, plan: Plan) -> Iterator[str]:
    """The stages, what each of them costs, and what would save it."""
    for stage, cost in zip(plan.stages, stage_costs(topology, plan), strict=True):
        yield f"stage {cost.stage}, {cost.millis:.0f} ms: {', '.join(stage)}"
        if cost.savings:
            yield f"  saved by local-or-shuffle instead of shuffle {_places(cost.savings)}"
        elif cost.is_ackers:
            yield "  left out of small batches whose trees all end"
    yield "The times are what each stage adds to a batch of few tuples."


def _in_one_task(topology: Topology) -> Iterator[str]:
    """Bolts that get all tuples in one task, which more workers make no faster."""
    for bolt in topology.spec.bolts:
        if {item.grouping.type for item in bolt.inputs} == {"global"}:
            sources = " and ".join(dict.fromkeys(item.from_ for item in bolt.inputs))
            yield f"{bolt.name} has all tuples of {sources} in one task, by its global grouping"


def _places(savings: Sequence[Saving]) -> str:
    return ", and ".join(f"from {' and '.join(s.sources)} to {s.bolt}" for s in savings)


def mermaid(topology: Topology, plan: Plan) -> Iterator[str]:
    """The topology and where it runs, as a Mermaid flowchart, line by line."""
    ids = {component.name: f"c{i}" for i, component in enumerate(topology.spec.components)}
    yield "flowchart LR"
    yield f"  subgraph topology[{_quoted(topology.name)}]"
    for spout in topology.spec.sources:
        yield f"    {ids[spout.name]}([{_quoted(f'{spout.name} x{spout.executors}')}])"
    for bolt in topology.spec.bolts:
        yield f"    {ids[bolt.name]}[{_quoted(f'{bolt.name} x{bolt.executors}')}]"
    for bolt in topology.spec.bolts:
        for item in bolt.inputs:
            yield f"    {ids[item.from_]} -->|{_quoted(_edge(item))}| {ids[bolt.name]}"
    yield "  end"
    for worker in _hosts(plan):
        host = "driver" if worker == DRIVER else f"worker{worker}"
        yield f"  subgraph {host}[{_quoted(_host_name(worker))}]"
        for executor in plan.executors_on(worker):
            label = _quoted(f"{executor.component} {_range(executor)}")
            yield f"    e{executor.first}[{label}]"
        yield "  end"


def _edge(item: Input) -> str:
    grouping: str = item.grouping.type
    if item.grouping.fields:
        grouping += f" {', '.join(item.grouping.fields)}"
    return grouping if item.stream == "default" else f"{item.stream}: {grouping}"


def _quoted(text: str) -> str:
    return '"' + text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;") + '"'


def _hosts(plan: Plan) -> list[int]:
    first = [DRIVER] if plan.executors_on(DRIVER) else []
    return [*first, *range(plan.workers)]


def _host_name(worker: int) -> str:
    return "driver" if worker == DRIVER else f"worker {worker}"


def _range(executor: Executor) -> str:
    return (
        f"[{executor.first}-{executor.last}]"
        if executor.first < executor.last
        else f"[{executor.first}]"
    )
