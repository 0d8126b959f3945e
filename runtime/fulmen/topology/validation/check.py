"""Every mistake in a topology, all at once: what the command line and the operator call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fulmen import api
from fulmen.errors import CodeError, ValidationFailed
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.configuration.options import mistaken_in_topology
from fulmen.topology.problems import MORE, Problem, Severity, bounded
from fulmen.topology.reading.documents import to_document
from fulmen.topology.reading.field_problems import is_topology, read_fields
from fulmen.topology.reading.partial_document import ComponentPart, components_of, rest_of
from fulmen.topology.reading.yaml_limits import beyond_limits
from fulmen.topology.resource.spec import ComponentSpec, Topology, TopologySpec
from fulmen.topology.resource.spec.pods import Code
from fulmen.topology.validation import across_fields
from fulmen.topology.validation.autoscaling import autoscaling
from fulmen.topology.validation.classes.classes import Classes
from fulmen.topology.validation.classes.event_times import event_times
from fulmen.topology.validation.classes.needs import needed_acks, state_on_disk
from fulmen.topology.validation.classes.subscriptions import without_classes
from fulmen.topology.validation.service import service


@dataclass(frozen=True)
class Checked:
    """The result of validation.

    Attributes:
        problems: Errors and warnings, in the document's order.
        parsed: The topology, unless one of its fields is wrong.
        streams: The output streams of each component, by name, as far as classes could be loaded.
        pinned: Names of the spouts that the driver hosts.
        printing: Names of the bolts that write rows to standard output.
        committers: Names of the bolts whose class is a committer.
        in_any_order: Names of the bolts that take their streams in any order.
        by_clock: Names of the bolts whose watermark is the time of day.
    """

    problems: tuple[Problem, ...]
    parsed: Topology | None
    streams: Mapping[str, Mapping[str, api.Stream]]
    pinned: tuple[str, ...]
    printing: tuple[str, ...] = ()
    committers: frozenset[str] = frozenset()
    in_any_order: frozenset[str] = frozenset()
    by_clock: frozenset[str] = frozenset()

    @property
    def errors(self) -> list[Problem]:
        """The problems that refuse the topology."""
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """The problems with which the topology runs."""
        return [problem for problem in self.problems if problem.severity == "warning"]

    def topology(self) -> Topology:
        """The topology.

        Raises:
            ValidationFailed: There are errors; it names all of them.
        """
        if self.parsed is None or self.errors:
            raise ValidationFailed(self.errors)
        return self.parsed

    def runnable(
        self, code_folder: Path | None = None, checkpoint_tasks: Mapping[str, int] | None = None
    ) -> Runnable:
        """The topology as a driver runs it.

        Args:
            code_folder: The folder of the author's modules; None: installed packages.
            checkpoint_tasks: The number of tasks of each component that has a checkpoint.

        Raises:
            ValidationFailed: There are errors; it names all of them.
        """
        topology = with_checkpoint_tasks(self.topology(), checkpoint_tasks or {})
        topology = with_committers(topology, self.committers)
        return Runnable(
            topology,
            self.streams,
            self.pinned,
            code_folder,
            self.printing,
            self.in_any_order,
            self.by_clock,
        )


@dataclass(frozen=True)
class Runnable:
    """A checked topology, with everything that a driver needs to know.

    Attributes:
        topology: Valid, with every number of tasks.
        streams: The output streams of each component, by name.
        pinned: Names of the spouts that the driver hosts.
        code_folder: The folder of the author's modules; None: installed packages.
        printing: Names of the bolts that write rows to standard output.
        in_any_order: Names of the bolts that take their streams in any order.
        by_clock: Names of the bolts whose watermark is the time of day.
    """

    topology: Topology
    streams: Mapping[str, Mapping[str, api.Stream]]
    pinned: Sequence[str]
    code_folder: Path | None
    printing: Sequence[str] = ()
    in_any_order: frozenset[str] = frozenset()
    by_clock: frozenset[str] = frozenset()


def check(
    source: Any,
    code_folder: Path | None = None,
    checkpoint_tasks: Mapping[str, int] | None = None,
    *,
    base: Path | None = None,
    import_classes: bool = True,
    for_kubernetes: bool = False,
) -> Checked:
    """Find all mistakes in a topology. Imports its classes, and makes an instance of each.

    Args:
        source: A document as read from YAML, or a Topology.
        code_folder: The folder of the author's modules, such as a mounted ConfigMap. Default: that
            of `spec.code`.
        checkpoint_tasks: The number of tasks of each component that has a checkpoint.
        base: The folder to which `spec.code.folder` is relative. Default: the current folder.
        import_classes: False in a process that must not run the author's code, such as the
            operator: streams and classes are not checked then.
        for_kubernetes: Whether mistakes in pods are errors.
    """
    document = to_document(source) if isinstance(source, Topology) else source
    if (beyond := beyond_limits(document)) is not None:
        problem = Problem(_large_place(document), f"the document is too large: {beyond}")
        return Checked((problem,), None, {}, ())
    parsed, shape = read_fields(document)
    if not is_topology(document):
        return Checked(tuple(bounded(shape)), parsed, {}, ())
    parts = components_of(document)
    spec, wrong = rest_of(document)
    checkpoint_tasks = _with_renamed(checkpoint_tasks or {}, spec)
    severity: Severity = "error" if for_kubernetes else "warning"
    classes = Classes(None, spec, severity)
    unclear = "code" in wrong or len(across_fields.code_sources(spec.code)) > 1
    found = chain(
        shape,
        across_fields.names(parts),
        across_fields.sources(document, parts),
        across_fields.transactions(spec, parts),
        across_fields.either_or(spec),
        across_fields.pods(spec),
        autoscaling(spec, wrong, parts, checkpoint_tasks),
        across_fields.spark(spec, severity),
        across_fields.checkpoint(spec),
        across_fields.renames(spec, parts),
        across_fields.state_classes(spec),
        across_fields.code(spec),
        across_fields.in_pods(spec) if for_kubernetes else (),
        mistaken_in_topology(spec),
        across_fields.ticks(parts),
        across_fields.tasks(parts, checkpoint_tasks),
        event_times(parts),
        across_fields.inputs(parts),
        across_fields.groupings(parts),
        without_classes(parts)
        if not import_classes or (unclear and code_folder is None)
        else _check_classes(classes, parts, spec, code_folder, base or Path()),
        across_fields.cycles(parts),
        state_on_disk(spec, parts, classes.checks),
        needed_acks(spec, parts, classes.checks),
        service(spec, parts),
    )
    return Checked(
        tuple(sorted(bounded(found), key=_place)),
        parsed,
        classes.streams,
        tuple(classes.pinned),
        tuple(classes.printing),
        frozenset(classes.committers),
        frozenset(classes.in_any_order),
        frozenset(classes.by_clock),
    )


def _large_place(document: Any) -> str:
    """The field of the spec that alone is beyond the limits; empty: there is none."""
    spec = document.get("spec") if isinstance(document, Mapping) else None
    fields = spec.items() if isinstance(spec, Mapping) else ()
    return next((f"spec.{name}" for name, value in fields if beyond_limits(value)), "")


def _check_classes(
    classes: Classes,
    parts: list[ComponentPart],
    spec: TopologySpec,
    code_folder: Path | None,
    base: Path,
) -> Iterator[Problem]:
    if code_folder is None and (elsewhere := code_elsewhere(spec.code)):
        yield from without_classes(parts)
        field, place = elsewhere
        message = f"the classes are in {place}, which was not read, so they were not checked"
        cure = "Name a folder with a copy of its files: --code-folder."
        yield Problem(f"spec.code.{field}", message, cure, "warning")
        return
    try:
        folder = CodeFolder(code_folder) if code_folder else CodeFolder.of(spec.code, base)
    except CodeError as error:
        yield from without_classes(parts)
        yield Problem("spec.code.folder", error.message, error.cure)
        return
    with folder:
        classes.folder, classes.base = folder.path, base
        yield from classes.load(parts)
        yield from classes.of_state(spec)
        yield from classes.subscriptions(across_fields.with_meant_sources(parts))


def code_elsewhere(code: Code | None) -> tuple[str, str] | None:
    """The field that places the code on another machine, and the place; None: it is here."""
    if code is not None and code.config_map is not None:
        return "configMap", f"ConfigMap {code.config_map!r} of a cluster"
    if code is not None and code.config_maps:
        return "configMaps", "ConfigMaps of a cluster"
    if code is not None and code.uri is not None:
        return "uri", "an archive in a store"  # whose URI may have a password in it
    return None


def with_checkpoint_tasks(topology: Topology, checkpoint_tasks: Mapping[str, int]) -> Topology:
    """The topology with every number of tasks written down: its own, else the checkpoint's.

    So another parallelism is no other number of tasks.
    """
    known = _with_renamed(checkpoint_tasks, topology.spec)

    def numbered(component: ComponentSpec) -> dict[str, Any]:
        return {"num_tasks": component.num_tasks or known.get(component.name, component.tasks)}

    return topology.with_each(numbered)


def _with_renamed(tasks: Mapping[str, int], spec: TopologySpec) -> Mapping[str, int]:
    """The numbers of tasks, also of components that the checkpoint has under their old names."""
    moved = {new: tasks[old] for old, new in spec.renames.items() if old in tasks}
    return {**moved, **tasks}


def with_committers(topology: Topology, committers: Collection[str]) -> Topology:
    """The topology with `committer` set for these bolts, too."""
    if not committers:
        return topology
    bolts = tuple(
        bolt.model_copy(update={"committer": bolt.committer or bolt.name in committers})
        for bolt in topology.spec.bolts
    )
    spec = topology.spec.model_copy(update={"bolts": bolts})
    return topology.model_copy(update={"spec": spec})


def _place(problem: Problem) -> tuple[int, int]:
    """The order of a problem: the topology's, spouts', bolts', then the graph's."""
    if problem is MORE:
        return 4, 0
    if problem.path == "spec.bolts":
        return 3, 0
    match = re.match(r"spec\.(spouts|transactional|bolts)\[(\d+)\]", problem.path)
    return (2 if match[1] == "bolts" else 1, int(match[2])) if match else (0, 0)
