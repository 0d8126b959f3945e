"""Components that need to know when trees end, in a topology without ackers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.validation.inputs import answer


def needed_acks(
    spec: TopologySpec,
    parts: Sequence[ComponentPart],
    checks: Mapping[str, tuple[Any, CheckedOptions]],
) -> Iterator[Problem]:
    """Spouts that do something wrong if each message counts as acked when it is emitted.

    Args:
        spec: The topology's.
        parts: All components.
        checks: Component -> an instance that can be asked, and its options as far as known.
    """
    for part in parts if spec.ackers == 0 else ():
        if part.kind != "spout" or (known := checks.get(part.name or "")) is None:
            continue
        instance, checked = known
        why, failure = answer(instance, "needs_acks", checked.options)
        if failure:
            yield Problem(part.path, f"{part.label}: {failure}")
        elif why is not None:
            yield Problem("spec.ackers", f"{part.label} needs ackers: {why}", "Remove ackers: 0.")
