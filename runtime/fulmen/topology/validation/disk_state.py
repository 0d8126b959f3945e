"""Components whose keyed state can't be on disk."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.quantity import amount
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.validation.inputs import answer

_CURE = "Write keyedState: {backend: memory} for it."


def state_on_disk(
    spec: TopologySpec,
    parts: Sequence[ComponentPart],
    checks: Mapping[str, tuple[Any, CheckedOptions]],
) -> Iterator[Problem]:
    """Components that are to have their state on disk, and can't.

    Args:
        spec: The topology's.
        parts: All components.
        checks: Component -> an instance that can be asked, and its options as far as known.
    """
    if (limit := amount(spec.keyed_state.disk_limit)) is None or limit <= 0:
        message = f"'{spec.keyed_state.disk_limit}' is no amount of disk"
        yield Problem("spec.keyedState.diskLimit", message, "Write one like 10Gi.")
    for part in parts:
        if part.model is None or not spec.keeps_on_disk(part.model):
            continue
        where = f"{part.path}.keyedState"
        if any(other.kind == "transactional spout" for other in parts):
            message = f"{part.label}: state of a transactional topology can't be on disk"
            yield Problem(where, message, _CURE)
        elif (known := checks.get(part.name or "")) is not None:
            yield from _refused(part, where, *known)


def _refused(
    part: ComponentPart, where: str, instance: Any, checked: CheckedOptions
) -> Iterator[Problem]:
    why, failure = answer(instance, "needs_memory", checked.options)
    if failure:
        yield Problem(where, f"{part.label}: {failure}")
    elif why is not None:
        yield Problem(where, f"{part.label}: its state can't be on disk: {why}", _CURE)
