"""Finds parts of ordinary topologies that a transactional topology can't have.

A bolt there belongs to one attempt of one transaction at a time. A bolt that waits for a time, or
for the end of a batch, has no transaction to emit for.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any

from fulmen import api
from fulmen.api.components import overrides
from fulmen.topology.code.class_state import changed_in
from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.spec import BoltSpec, TopologySpec

LATER: Mapping[str, str] = {
    "on_timer": "a timer comes when no transaction is there that it could emit for",
    "end_batch": "a batch may have tuples of several transactions, or of none",
    "drain": "there is no last turn, whose results would belong to no transaction",
}
"""Methods of bolts that are not called there, and why."""
APART = ("shuffle", "local-or-shuffle", "partial-key")
"""Groupings that send equal keys to several tasks."""
ALIKE = "Derive it from fulmen.BatchBolt, and emit in finish_batch."
OF_OURS: Mapping[str, str] = {
    "Aggregate": "Use fulmen.windows.TransactionAggregate.",
    "Deduplicate": "Use fulmen.windows.TransactionDeduplicate.",
    "LookupJoin": "Leave waitFor out.",
}
"""Replacements for classes of `fulmen.windows`."""
ORDINARY = "Use it in an ordinary topology, with spouts."


def in_transactions(
    part: ComponentPart, instance: Any, options: Any, spec: TopologySpec
) -> Iterator[Problem]:
    """Find parts of a bolt that do nothing in a transactional topology.

    Args:
        part: The bolt.
        instance: An instance of its class; the class, if none can be made.
        options: Its options, as far as they are known.
        spec: The topology's, as far as it can be read.
    """
    cls = instance if isinstance(instance, type) else type(instance)
    if not issubclass(cls, api.BasicBolt | api.BatchBolt):
        return
    path, name = f"{part.path}.class", f"{cls.__module__}.{cls.__qualname__}"
    is_ours = cls.__module__.startswith("fulmen.")
    if iscoroutinefunction(getattr(cls, "execute", None)):
        message = f"{part.label}: {name}.execute is async, which a transactional topology can't run"
        cure = "Write def execute without it; blocking: true on the bolt has its executors wait"
        yield Problem(path, message, f"{cure} beside each other.")
    if issubclass(cls, api.BasicBolt) and not isinstance(instance, type):
        for method, why in LATER.items():
            if overrides(instance, method) and _is_used(instance, method, options):
                who = f"fulmen.windows.{cls.__name__}" if is_ours else name
                message = f"{part.label}: {who} has {method}, which is not called: {why}"
                cure = OF_OURS.get(cls.__name__, ORDINARY) if is_ours else ALIKE
                yield Problem(path, message, cure)
                break
    if getattr(cls, "state_ttl", None) is not None:
        message = f"{part.label}: {name}.state_ttl does nothing in a transactional topology"
        cure = "Remove it, and delete keys of self.state by what transactions bring."
        yield Problem(path, message, cure)
    if (most := spec.max_spout_pending or 1) == 1:
        return
    keeps_state = getattr(instance, "keeps_state", None)
    if keeps_state is not None and keeps_state(options):
        yield Problem(path, f"{part.label}: it keeps {_beside(most)}", "Write maxSpoutPending: 1.")
    elif not is_ours:
        yield from _overlapping(part, cls, name, most)


def _beside(most: int) -> str:
    return (
        f"what later transactions see, but with maxSpoutPending: {most} several are active side by"
        " side, and what one has changed may still fail"
    )


def _is_used(instance: Any, method: str, options: Any) -> bool:
    """Whether a bolt with these options needs a method of its class."""
    waits = getattr(instance, "waits_for_time", None)
    return method != "on_timer" or waits is None or bool(waits(options))


def _overlapping(part: ComponentPart, cls: type, name: str, most: int) -> Iterator[Problem]:
    """State that a class keeps, although several transactions are active side by side."""
    changed = changed_in(cls)
    path = f"{part.path}.class"
    if "state" in changed:
        message = f"{part.label}: {name} changes self.state, {_beside(most)}"
        yield Problem(path, message, "Write maxSpoutPending: 1.")
    if not issubclass(cls, api.BasicBolt):
        return  # fields live as long as one attempt
    transient = getattr(cls, "transient", ())
    for field in sorted(changed - {"state", *transient}):
        message = f"{part.label}: {name} changes self.{field}, {_beside(most)}"
        cure = f"Write maxSpoutPending: 1, or name {field!r} in transient if no result needs it."
        yield Problem(path, message, cure, "warning")


def transactional_graph(
    parts: Sequence[ComponentPart],
    streams: Mapping[str, Mapping[str, api.Stream]],
    committers: Sequence[str],
    sinks: Collection[str],
    refused: Collection[str],
) -> Iterator[Problem]:
    """Mistakes in the connections between bolts of a transactional topology.

    Args:
        parts: All components.
        streams: The streams that they declare.
        committers: The bolts whose class is a committer.
        sinks: The bolts that are sinks, which are committers, too.
        refused: Bolts whose class can't be there; no more is told of them.
    """
    sources = [part.name or "" for part in parts if part.kind == "transactional spout"]
    if not sources:
        return
    declared = [stream for name in sources for stream in streams.get(name, {}).values()]
    attempt_fields = {stream.fields[0] for stream in declared if stream.fields}
    for part in parts:
        if part.kind == "bolt":
            yield from _behind_sinks(part, sinks)
            if part.name not in sinks:
                yield from _apart(part, committers)
            if part.name not in refused:
                yield from _attempt_first(part, streams, attempt_fields)


def _behind_sinks(part: ComponentPart, sinks: Collection[str]) -> Iterator[Problem]:
    """Bolts behind sinks: a sink's refused tuples belong to transactions that are over."""
    after = [item for item in part.inputs if item.source in sinks]
    if after and (part.name not in sinks or len(after) < len(part.inputs)):
        message = (
            f"{part.label}: what sink {after[0].source!r} refuses belongs to a transaction that is"
            " committed, and can only go to a sink that has no other inputs"
        )
        cure = "Give the stream a sink of its own, such as a SqliteSink or a FileSink."
        yield Problem(f"{part.path}.inputs", message, cure)


def written_maps(
    parts: Sequence[ComponentPart],
    checks: Mapping[str, tuple[Any, Any]],
    *,
    is_opaque: bool,
) -> Iterator[Problem]:
    """Maps that two bolts write, or that have another rule than the source.

    Args:
        parts: All components.
        checks: Component -> an instance, and its options as far as known.
        is_opaque: Whether another attempt may have other tuples.
    """
    owners: dict[tuple[str, ...], str] = {}
    for part in parts:
        instance, _ = checks.get(part.name or "", (None, None))
        options = getattr(instance, "options_of_map", ())
        if not options or part.model is None:
            continue
        config = part.model.config  # variables are the same if their names are
        where = tuple(str(config.get(option)) for option in options)
        rule = config.get("rule", "transactional")
        owner = owners.setdefault(where, part.label)
        if owner != part.label:
            message = f"{part.label}: {owner} writes to map {where[-1]!r} as well"
            cure = "Give each bolt a map of its own: what one has written the other would refuse."
            yield Problem(f"{part.path}.config.map", message, cure)
        if is_opaque and rule == "transactional":
            message = (
                f"{part.label}: rule is {rule}, but a source is opaque: what it sends in another"
                " attempt would be counted beside what it has sent before"
            )
            yield Problem(f"{part.path}.config.rule", message, "Write rule: opaque.")


def _apart(part: ComponentPart, committers: Sequence[str]) -> Iterator[Problem]:
    """Committers whose equal keys come to several tasks: the store takes only one of two writes."""
    model = part.model
    if not isinstance(model, BoltSpec) or model.tasks == 1:
        return
    if not (model.committer or part.name in committers):
        return
    for item in part.inputs:
        kind = item.grouping.type if item.grouping is not None else None
        if kind in APART:
            message = (
                f"{item.label}: {kind} grouping in front of a committer with {model.tasks} tasks:"
                " if it writes by key, equal keys must come to one task"
            )
            cure = "Write grouping: {type: fields, fields: [...]}, with what keys are made of."
            yield Problem(f"{item.path}.grouping", message, cure, "warning")


def _attempt_first(
    part: ComponentPart,
    streams: Mapping[str, Mapping[str, api.Stream]],
    attempt_fields: set[str],
) -> Iterator[Problem]:
    """Streams without a first field for the attempt, with which each tuple must begin."""
    inputs = [streams.get(item.source or "", {}).get(item.stream or "") for item in part.inputs]
    others = {field for stream in inputs if stream is not None for field in stream.fields[1:]}
    for name, stream in streams.get(part.name or "", {}).items():
        first = stream.fields[0] if stream.fields else None
        if first is not None and (first in attempt_fields or first not in others):
            continue
        what = "has no fields" if first is None else f"begins with {first!r}"
        message = (
            f"{part.label}: stream {name!r} {what}, but the first value of each tuple must be the"
            " attempt of its transaction"
        )
        cure = f"Declare {['tx', *stream.fields]}, and emit the attempt first."
        yield Problem(f"{part.path}.class", message, cure)
