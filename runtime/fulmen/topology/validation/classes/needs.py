"""What components can't do without: state in memory, and acks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.quantity import amount
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.validation.classes.inputs import answer

Checks = Mapping[str, tuple[Any, CheckedOptions]]
"""Component -> an instance that can be asked, and its options as far as known."""
_CURE = "Write keyedState: {backend: memory} for it."


def state_on_disk(
    spec: TopologySpec, parts: Sequence[ComponentPart], checks: Checks
) -> Iterator[Problem]:
    """Components that are to have their state on disk, and can't."""
    if (limit := amount(spec.keyed_state.disk_limit)) is None or limit <= 0:
        message = f"'{spec.keyed_state.disk_limit}' is no amount of disk"
        yield Problem("spec.keyedState.diskLimit", message, "Write one like 10Gi.")
    is_transactional = any(part.kind == "transactional spout" for part in parts)
    for part in parts:
        if part.model is None or not spec.keeps_on_disk(part.model):
            continue
        where = f"{part.path}.keyedState"
        if is_transactional:
            message = f"{part.label}: state of a transactional topology can't be on disk"
            yield Problem(where, message, _CURE)
            continue
        why, failure = _answer(part, checks, "needs_memory")
        if failure:
            yield Problem(where, f"{part.label}: {failure}")
        elif why is not None:
            yield Problem(where, f"{part.label}: its state can't be on disk: {why}", _CURE)


def needed_acks(
    spec: TopologySpec, parts: Sequence[ComponentPart], checks: Checks
) -> Iterator[Problem]:
    """Spouts that do something wrong if each message counts as acked when it is emitted."""
    for part in parts if spec.ackers == 0 else ():
        why, failure = _answer(part, checks, "needs_acks") if part.kind == "spout" else (None, "")
        if failure:
            yield Problem(part.path, f"{part.label}: {failure}")
        elif why is not None:
            yield Problem("spec.ackers", f"{part.label} needs ackers: {why}", "Remove ackers: 0.")


def _answer(part: ComponentPart, checks: Checks, method: str) -> tuple[Any, str]:
    """What a component says it needs; None: nothing, or it can't be asked."""
    if (known := checks.get(part.name or "")) is None:
        return None, ""
    instance, checked = known
    return answer(instance, method, checked.options)
