"""Why tuples have failed so far, and which messages come again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from fulmen.engine.protocol.figures.failure_reasons import MOST_REASONS, OTHER, FailureCount
from fulmen.engine.protocol.summary import Resting
from fulmen.plan import Plan

REASONS_SHOWN = 5
"""Of each component."""


@dataclass
class FailureReason:
    """One kind of reason of one component.

    Attributes:
        count: How many tuples failed for it.
        example: The last one's reason.
        task: Where that was.
        first: When the first one failed, in seconds of time.time().
        time: When the last one did.
        logged: When it was logged last.
    """

    count: int
    example: str
    task: int
    first: float
    time: float
    logged: float = 0.0


class Failures(dict[str, dict[str, FailureReason]]):
    """Component -> kind of reason -> what is known of it."""

    def add(self, found: FailureCount, wall_clock: float) -> FailureReason:
        """Count some more."""
        kinds = self.setdefault(found.component, {})
        kind = found.kind if found.kind in kinds or len(kinds) < MOST_REASONS else OTHER
        reason = kinds.get(kind)
        if reason is None:
            reason = kinds[kind] = FailureReason(0, "", found.task, wall_clock, wall_clock)
        reason.count += found.number
        reason.example, reason.task, reason.time = found.example, found.task, wall_clock
        return reason

    def copy(self) -> Failures:
        """One that does not change with this."""
        return Failures({c: {k: copy(r) for k, r in kinds.items()} for c, kinds in self.items()})

    def last(self) -> Iterator[tuple[str, FailureReason]]:
        """Of each component, the reason of the tuple that failed last."""
        for component, kinds in self.items():
            yield component, max(kinds.values(), key=lambda reason: reason.time)


def failure_sentence(component: str, number: int, example: str) -> str:
    """How many tuples of a component failed for one kind of reason, for people."""
    return f"{component}: {number:,} failed, such as: {example}"


def is_error(component: str, reason: FailureReason, errors: Iterable[Mapping[str, Any]]) -> bool:
    """Whether it is one of the component's errors, too: what an exception has failed."""
    example = reason.example
    return example.startswith(f"bolt {component!r}: ") or any(
        error["message"] in example for error in errors
    )


def resting_by_component(resting: Mapping[int, Resting], plan: Plan) -> dict[str, Resting]:
    """Component -> its messages that have failed and come again after a pause.

    Args:
        resting: By task.
        plan: Where tasks are.
    """
    found: dict[str, Resting] = {}
    for task, new in sorted(resting.items()):
        name = plan.component_of(task)
        old = found.get(name, Resting(0, new.due, 0, ""))
        reason = new.reason if new.failures >= old.failures else old.reason
        messages, failures = old.messages + new.messages, max(old.failures, new.failures)
        found[name] = Resting(messages, min(old.due, new.due), failures, reason)
    return found
