"""Mistakes that take several fields to see, without the author's classes.

Each check is a generator of problems over parts; `validation` runs them all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fulmen.topology.problems import Problem, Severity, did_you_mean, meant, there_are
from fulmen.topology.reading.partial_document import ComponentPart, InputPart
from fulmen.topology.resource.component_order import find_cycles
from fulmen.topology.resource.quantity import mebibytes
from fulmen.topology.resource.spec import BoltSpec, TopologySpec
from fulmen.topology.resource.spec.pod_template import mistakes
from fulmen.topology.resource.spec.pods import LEAST_MEBIBYTES, Code, EnvVar, Pod
from fulmen.topology.resource.uris import BadUri, read_uri
from fulmen.topology.validation.reserved_settings import (
    OF_USERS,
    contradictions,
    is_reserved,
    of_pods,
)

OBJECT_NAME = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*")
LEAST_SINGLE_MEBIBYTES = 640
"""The least MiB of a pod that driver and workers share, which lowers Spark's limit for the heap."""


def names(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Names that are reserved, or taken: spouts and bolts share one namespace."""
    first: dict[str, ComponentPart] = {}
    for part in parts:
        if part.name is None:
            continue
        if part.name.startswith("__"):
            message = f"{part.label}: names that begin with '__' are reserved"
            yield Problem(f"{part.path}.name", message, "Choose another name.")
        if part.name in first:
            other = first[part.name]
            message = f"{part.label}: the name is taken by {other.path}, a {other.kind}"
            cure = "Choose another: spouts and bolts share one namespace."
            yield Problem(f"{part.path}.name", message, cure)
        first.setdefault(part.name, part)


def renames(spec: TopologySpec, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Renames of which nothing can come: to a component that is not there, or of two to one."""
    there = dict.fromkeys(part.name for part in parts if part.name is not None)
    from_: dict[str, str] = {}
    for old, new in spec.renames.items():
        path = f"spec.renames.{old}"
        if old == new:
            yield Problem(path, "the old name is the new one", "Remove the entry.")
        elif new not in there:
            message = f"there is no component {new!r}, which is to have been {old!r}"
            yield Problem(path, message, did_you_mean(new, there) or there_are(there))
        elif new in from_:
            message = f"{from_[new]!r} was renamed to {new!r} as well: their state can't be merged"
            yield Problem(path, message, "Remove one of the two.")
        from_.setdefault(new, old)


def state_classes(spec: TopologySpec) -> Iterator[Problem]:
    """New names of classes that are old ones, too: values would be renamed again and again."""
    for old, new in spec.state_classes.items():
        path = f"spec.stateClasses.{old}"
        if old == new:
            yield Problem(path, "the old name is the new one", "Remove the entry.")
            continue
        outer = new
        while outer and outer not in spec.state_classes:
            outer = outer.rpartition(".")[0]
        if outer:
            message = f"its new name {new!r} is an old one, too: spec.stateClasses.{outer}"
            last = f"{spec.state_classes[outer]}{new.removeprefix(outer)}"
            cure = f"Write the name that the class has now, such as {last!r}."
            yield Problem(path, message, cure)


def sources(document: Any, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """A topology without a source, or with sources of both kinds."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return
    is_transactional = any(part.kind == "transactional spout" for part in parts)
    spouts = spec.get("spouts")
    if is_transactional and spouts:
        message = "a transactional topology has transactional sources alone, and spouts are others"
        cure = "Remove spouts, or transactional: those of the two kinds can't be mixed."
        yield Problem("spec.spouts", message, cure)
    if not spec.get("transactional") and (spouts is None or spouts in ([], ())):
        message = "'spouts' is missing" if spouts is None else "spouts is empty"
        cure = "Add at least one spout: without a source nothing happens."
        yield Problem("spec.spouts", message, cure)


def transactions(spec: TopologySpec, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Parts that only transactional topologies may have, or only others."""
    is_transactional = any(part.kind == "transactional spout" for part in parts)
    if is_transactional and spec.ackers:
        message = "a transactional topology has no ackers: what counts is the transaction"
        yield Problem("spec.ackers", message, "Remove it.")
    for part in parts:
        model = part.model
        if is_transactional and model is not None and model.tick_seconds:
            message = f"{part.label}: there are no ticks in a transactional topology"
            yield Problem(f"{part.path}.tickSeconds", message, "Remove it.")
        if not is_transactional and isinstance(model, BoltSpec) and model.committer:
            message = f"{part.label}: a committer commits transactions, and there are none here"
            cure = "Remove it, or give the source as transactional instead of under spouts."
            yield Problem(f"{part.path}.committer", message, cure)


def code_sources(code: Code | None) -> list[str]:
    """The fields that say where the classes come from. One too many is a mistake."""
    if code is None:
        return []
    given = [
        ("files", code.files),
        ("folder", code.folder),
        ("configMap", code.config_map),
        ("configMaps", code.config_maps),
        ("uri", code.uri),
    ]
    return [name for name, value in given if value]


def either_or(spec: TopologySpec) -> Iterator[Problem]:
    """Fields that exclude each other."""
    yield from _only_one("spec.code", code_sources(spec.code))
    checkpoint = spec.checkpoint
    given = [("uri", checkpoint.uri), ("persistentVolumeClaim", checkpoint.persistent_volume_claim)]
    yield from _only_one("spec.checkpoint", [name for name, value in given if value])


def _only_one(path: str, given: list[str]) -> Iterator[Problem]:
    if len(given) > 1:
        message = f"{' and '.join(given)} are given, but only one of them is allowed"
        yield Problem(path, message, "Remove all but one.")


def pods(spec: TopologySpec) -> Iterator[Problem]:
    """Mistakes in the pods of driver and workers."""
    if spec.slots > spec.workers and not spec.is_single_pod:
        message = (
            f"a pod has the CPU and memory of {spec.slots} workers, but there are {spec.workers}"
        )
        cure = f"Write slots: {spec.workers}, unless more workers are to come."
        yield Problem("spec.slots", message, cure, "warning")
    if spec.is_single_pod:
        yield from _single_pod(spec)
    yield from _variables("spec", spec.env)
    least = LEAST_SINGLE_MEBIBYTES if spec.is_single_pod else LEAST_MEBIBYTES
    for path, pod, slots in (
        ("spec.driver", spec.driver, 1),
        ("spec.worker", spec.worker, spec.slots),
    ):
        yield from _resources(path, pod, slots, least)
        yield from _template(f"{path}.podTemplate", pod, path.rpartition(".")[2])
        yield from _variables(path, pod.env)


def _single_pod(spec: TopologySpec) -> Iterator[Problem]:
    """Settings that a pod that driver and workers share can't have."""
    if spec.workers > spec.slots:
        message = f"deployment: single-pod has room for slots: {spec.slots} workers"
        yield Problem("spec.workers", message, f"Write slots: {spec.workers}.")
    if spec.worker != Pod():
        message = "deployment: single-pod has no pods for workers: they are in the driver's"
        yield Problem("spec.worker", message, "Write it under spec.driver.")


def _variables(path: str, env: Sequence[EnvVar]) -> Iterator[Problem]:
    for number, variable in enumerate(env):
        if variable.value is not None and variable.value_from is not None:
            message = f"variable {variable.name!r} has both value and valueFrom"
            yield Problem(f"{path}.env[{number}]", message, "Remove one of them.")
        if is_reserved(variable.name):
            yield _reserved(f"{path}.env[{number}]", variable.name)


def _reserved(path: str, variable: str) -> Problem:
    """A variable that would turn the container into something else."""
    free = ", ".join(OF_USERS)
    message = f"variable {variable!r} is Fulmen's own, as all FULMEN_ variables but {free}"
    return Problem(path, message, "Take a name that does not begin with FULMEN_.")


def _template(path: str, pod: Pod, own: str) -> Iterator[Problem]:
    """Mistakes in a template. `own`: the name of Fulmen's container in it."""
    for mistake in mistakes(pod.pod_template):
        yield replace(mistake, path=f"{path}{mistake.path}")
    if (pod.pod_template.get("spec") or {}).get("hostNetwork"):
        message = "hostNetwork is not possible, since each pod needs an address of its own"
        yield Problem(f"{path}.spec.hostNetwork", message, "Remove it.")
    containers = (pod.pod_template.get("spec") or {}).get("containers") or []
    for number, container in enumerate(containers):
        said = container if container.get("name") == own else {}
        for field in [field for field in ("command", "args") if field in said]:
            message = f"container {own!r} is Fulmen's own, which runs nothing but Fulmen"
            cure = "Remove it. Run a program of your own in a container of another name."
            yield Problem(f"{path}.spec.containers[{number}].{field}", message, cure)
        for which, variable in enumerate(said.get("env") or ()):
            if is_reserved(str(variable.get("name", ""))):
                place = f"{path}.spec.containers[{number}].env[{which}]"
                yield _reserved(place, variable["name"])


def spark(spec: TopologySpec, of_pods_is: Severity) -> Iterator[Problem]:
    """Settings of Spark that say otherwise than Fulmen's batches or pods need."""
    for name, message in contradictions(spec.spark.conf):
        yield Problem(f"spec.spark.conf[{name}]", message, "Leave it out.")
    for name, cure in of_pods(spec.spark.conf):
        message = f"on Kubernetes {name!r} is decided by Fulmen, or by a field of the resource"
        yield Problem(f"spec.spark.conf[{name}]", message, cure, of_pods_is)


def in_pods(spec: TopologySpec) -> Iterator[Problem]:
    """Places that may be others in each pod."""
    cures = (
        ("checkpoint", "folder", spec.checkpoint.uri, CHECKPOINT_CURE),
        ("code", "file", spec.code.uri if spec.code else None, CODE_CURE),
    )
    for field, what, uri, cure in cures:
        if uri is not None and uri.startswith("file:"):
            message = f"a {what} is the same for all pods only if they mount a volume there"
            yield Problem(f"spec.{field}.uri", message, cure, "warning")


CHECKPOINT_CURE = (
    "If they don't, name a store such as s3://bucket/path, or a persistentVolumeClaim."
)
CODE_CURE = "If not, write s3://bucket/name, say."


def checkpoint(spec: TopologySpec) -> Iterator[Problem]:
    """A URI that is none, or shows a secret."""
    uri = spec.checkpoint.uri
    if uri is None:
        return
    try:
        read_uri(uri)
    except BadUri as error:
        yield Problem("spec.checkpoint.uri", error.message, error.cure)


def code(spec: TopologySpec) -> Iterator[Problem]:
    """Archives that can't be found, or can't be checked, by their description."""
    found = spec.code
    if found is None:
        return
    if found.sha256 is not None and found.uri is None and not found.config_maps:
        message = "sha256 is given, but no uri: it is the digest of what is there"
        yield Problem("spec.code.sha256", message, "Add uri, or remove it.")
    if found.config_maps and found.sha256 is None:
        message = "configMaps are given without sha256, by which their archive is checked"
        yield Problem("spec.code", message, "Apply what `fulmen manifest FILE` prints.")
    if found.uri is None:
        return
    if found.sha256 is None:
        message = "uri is given without sha256, by which its archive is checked"
        cure = "Add what `sha256sum FILE` or `fulmen manifest --archive FILE` prints."
        yield Problem("spec.code", message, cure)
    yield from place_of(found)


def place_of(code: Code) -> Iterator[Problem]:
    """A URI at which no archive can be, or that shows a secret."""
    uri = code.uri or ""
    try:
        read_uri(uri)
    except BadUri as error:
        yield Problem("spec.code.uri", error.message, error.cure)
        return
    if not OBJECT_NAME.fullmatch(uri.rpartition("/")[2]) or uri.count("/") < 3:
        message = "the URI must end in the name of a file: letters, digits and any of . _ = + -"
        yield Problem("spec.code.uri", message, "Write s3://bucket/code-1.tar.gz, say.")


def _resources(path: str, pod: Pod, slots: int, least: int) -> Iterator[Problem]:
    limit, request = pod.resources.limits.get("memory"), pod.resources.requests.get("memory")
    if limit is None:
        if request is not None:
            message = "memory is requested, but not limited"
            cure = f"Add limits: {{memory: {request}}}: heap and Python are sized by the limit."
            yield Problem(f"{path}.resources.limits", message, cure)
        return
    if mebibytes(limit) * slots < least:
        message = f"{limit} of memory are too little for Spark, whose JVM gets 40 % of them as heap"
        cure = f"Write memory: {-(-least // slots)}Mi or more."
        yield Problem(f"{path}.resources.limits", message, cure)
    if request is not None and mebibytes(request) != mebibytes(limit):
        message = f"{request} of memory are requested, but the limit is {limit}"
        cure = f"Leave the request out, or write memory: {limit}: all of the limit is used."
        yield Problem(f"{path}.resources.requests", message, cure)


def ticks(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Ticks for spouts, which have no `execute` to receive them."""
    for part in parts:
        if part.kind == "spout" and part.model is not None and part.model.tick_seconds:
            message = f"{part.label}: a spout gets no ticks"
            cure = "Remove it: next_tuple is called often enough to look at a clock."
            yield Problem(f"{part.path}.tickSeconds", message, cure, "warning")


def tasks(parts: Sequence[ComponentPart], checkpoint_tasks: Mapping[str, int]) -> Iterator[Problem]:
    """Executors beyond the tasks."""
    for part in parts:
        if part.model is None or part.wrong & {"parallelism", "numTasks"}:
            continue
        kept = checkpoint_tasks.get(part.name or "")
        count = part.model.num_tasks or kept or part.model.tasks
        if part.model.parallelism > count:
            message = (
                f"{part.label}: parallelism is {part.model.parallelism}, but there "
                f"{'is' if count == 1 else 'are'} only {_tasks(count)}: "
                f"it runs with {count} executor{'s' if count > 1 else ''}"
            )
            cure = ""
            if part.model.num_tasks is None:
                message += ". The tasks are those of its checkpoint"
                cure = f"For more of them write numTasks: {part.model.parallelism}."
            yield Problem(f"{part.path}.parallelism", message, cure, "warning")


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count > 1 else ''}"


def inputs(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Bolts without inputs, inputs from components that don't exist, inputs that come twice."""
    known = dict.fromkeys(part.name for part in parts if part.name is not None)
    for part in parts:
        if part.kind == "bolt" and not part.inputs and "inputs" not in part.wrong:
            message = f"{part.label}: it has no inputs, so it would never receive a tuple"
            cure = "Add one, such as inputs: [{from: sentences, grouping: {type: shuffle}}]."
            yield Problem(f"{part.path}.inputs", message, cure)
        seen: set[tuple[str | None, str | None]] = set()
        for item in part.inputs:
            if item.source is not None and item.source not in known:
                others = _others(part, known)
                cure = did_you_mean(item.source, others) or there_are(others)
                message = f"{item.label}: there is no component {item.source!r}"
                yield Problem(f"{item.path}.from", message, cure)
            if None not in (item.source, item.stream) and (item.source, item.stream) in seen:
                message = f"{item.label}: stream {item.stream!r} is subscribed to twice"
                yield Problem(item.path, message, "Remove one of the two inputs.")
            seen.add((item.source, item.stream))


def with_meant_sources(parts: Sequence[ComponentPart]) -> list[ComponentPart]:
    """The components, their inputs from those that are meant where a name is misspelt.

    So a misspelt name hides no mistake in the fields that are received.
    """
    known = dict.fromkeys(part.name for part in parts if part.name is not None)

    def corrected(part: ComponentPart, item: InputPart) -> InputPart:
        if item.source is None or item.source in known:
            return item
        return replace(item, source=meant(item.source, _others(part, known)) or item.source)

    return [
        replace(part, inputs=tuple(corrected(part, item) for item in part.inputs)) for part in parts
    ]


def _others(part: ComponentPart, names: Iterable[str]) -> list[str]:
    return [name for name in names if name != part.name]


def cycles(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Tuples that could come back to where they were: their tree would never end."""
    known = {part.name for part in parts}
    sources = {
        part.name: [i.source for i in part.inputs if i.source is not None and i.source in known]
        for part in parts
        if part.name is not None
    }
    for cycle in find_cycles(sources):
        message = f"the inputs form a cycle: {' -> '.join(cycle)}"
        yield Problem("spec.bolts", message, "Remove one of these inputs.")


def groupings(parts: Sequence[ComponentPart]) -> Iterator[Problem]:
    """Fields of a grouping that don't belong to its type."""
    for part in parts:
        for item in part.inputs:
            yield from _grouping(item)


def _grouping(item: InputPart) -> Iterator[Problem]:
    grouping, path = item.grouping, f"{item.path}.grouping"
    if grouping is None:
        return
    who = f"{item.label}: {grouping.type} grouping"
    if grouping.type == "custom":
        if grouping.class_ is None and "class" not in item.wrong:
            cure = "Add class: module.Class, derived from fulmen.CustomStreamGrouping."
            yield Problem(f"{path}.class", f"{who} needs a class", cure)
    else:
        remove = "Remove it, or use type: custom."
        if grouping.class_ is not None:
            yield Problem(f"{path}.class", f"{who} takes no class", remove)
        if grouping.config:
            yield Problem(f"{path}.config", f"{who} takes no config", remove)
    if grouping.type not in ("fields", "partial-key") and grouping.fields:
        cure = "Remove them, or use type: fields."
        yield Problem(f"{path}.fields", f"{who} takes no fields", cure)
