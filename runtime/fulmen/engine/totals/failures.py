"""Errors of components, and why tuples have failed so far; which of both are logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from fulmen.api.times.event_time import TOO_LATE
from fulmen.engine.protocol.figures.failure_reasons import MOST_REASONS, OTHER, FailureCount
from fulmen.engine.protocol.summary import ErrorReport, Resting
from fulmen.plan import Plan

_ERRORS_KEPT = 20
ERRORS_PER_INTERVAL = 5
ERROR_INTERVAL_SECONDS = 10.0
REPEAT_SECONDS = 60.0
"""What goes on, as an error with the same message, is logged again after that time."""
REASONS_SHOWN = 5
"""Reasons of each component."""


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
        """Copy it: the copy does not change with this."""
        return Failures({c: {k: copy(r) for k, r in kinds.items()} for c, kinds in self.items()})

    def last(self) -> Iterator[tuple[str, FailureReason]]:
        """Yield each component with the reason of the tuple that failed last."""
        for component, kinds in self.items():
            yield component, max(kinds.values(), key=lambda reason: reason.time)


def failure_sentence(component: str, number: int, example: str) -> str:
    """Say how many tuples of a component failed for one kind of reason."""
    return f"{component}: {number:,} failed, such as: {example}"


def is_error(component: str, reason: FailureReason, errors: Iterable[Mapping[str, Any]]) -> bool:
    """Whether it is one of the component's errors, too: what an exception has failed."""
    example = reason.example
    return example.startswith(f"bolt {component!r}: ") or any(
        error["message"] in example for error in errors
    )


def resting_by_component(resting: Mapping[int, Resting], plan: Plan) -> dict[str, Resting]:
    """Component -> its messages that have failed and come again after a pause."""
    by_component: dict[str, Resting] = {}
    for task, new in sorted(resting.items()):
        name = plan.component_of(task)
        old = by_component.get(name, Resting(0, new.due, 0, ""))
        reason = new.reason if new.failures >= old.failures else old.reason
        messages, failures = old.messages + new.messages, max(old.failures, new.failures)
        by_component[name] = Resting(messages, min(old.due, new.due), failures, reason)
    return by_component


class Errors(dict[str, deque[dict[str, Any]]]):
    """Component -> its newest errors, the one that came last at the end."""

    def add(self, error: ErrorReport, wall_clock: float) -> ErrorReport | None:
        """Keep an error. Returns it if it is to be logged, with a count if it has come before."""
        kept = self.setdefault(error.component, deque(maxlen=_ERRORS_KEPT))
        same = next((e for e in kept if e["message"] == error.message), None)
        if same is not None:
            kept.remove(same)
            kept.append(same)
            same |= {"task": error.task, "time": wall_clock, "count": same["count"] + 1}
            same["traceback"] = error.traceback or same["traceback"]
            if wall_clock - same["logged"] < REPEAT_SECONDS:
                return None
            same["logged"] = wall_clock
            return replace(error, message=f"{error.message} ({same['count']:,} times)")
        recent = [e for e in kept if wall_clock - e["logged"] < ERROR_INTERVAL_SECONDS]
        if len(recent) >= ERRORS_PER_INTERVAL:
            return None
        noted = {"task": error.task, "message": error.message, "traceback": error.traceback}
        times = {"first": wall_clock, "time": wall_clock, "logged": wall_clock}
        kept.append({**noted, **times, "count": 1})
        return error

    def copy(self) -> Errors:
        """Copy it: the copy does not change with this."""
        return Errors({name: deque(map(dict, kept), kept.maxlen) for name, kept in self.items()})


def unread_sentences(component: str, numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each stream of a component whose tuples nobody gets."""
    for stream, number in numbers.items():
        tuples = f"{number:,} tuples" if number > 1 else "1 tuple"
        lost = ", and in no result" if stream == TOO_LATE else ""
        yield f"{component}: {tuples} on stream {stream!r}, which no bolt reads{lost}"
