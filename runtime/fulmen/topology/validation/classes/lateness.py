"""Bolts that would take what is late, behind others that leave it out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fulmen.api.times.event_time import DURATION, TOO_LATE, milliseconds
from fulmen.topology.configuration.options import CheckedOptions
from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.validation.classes.inputs import answer


def stricter_in_front(
    parts: Sequence[ComponentPart], checks: Mapping[str, tuple[Any, CheckedOptions]]
) -> Iterator[Problem]:
    """Warn of components in front of a bolt that take fewer late tuples than it allows.

    Args:
        parts: All components.
        checks: Component -> an instance that can be asked, and its options as far as known.
    """
    by_name = {part.name: part for part in parts if part.name}
    allowing = {part.name or "": _allowed(part) for part in parts}
    taken = {
        name: late
        for name, (instance, checked) in checks.items()
        if allowing.get(name) is not None
        and (late := answer(instance, "lateness", checked.options)[0]) is not None
    }
    for part in parts:
        allowed = allowing[part.name or ""]
        if not allowed or part.name not in taken:
            continue
        for name in _stricter(part, allowed, by_name, taken):
            message = (
                f"{part.label}: allowedLateness is {_seconds(allowed)}, but {name!r} in front of it"
                f" leaves out what is more than {_seconds(taken[name])} late"
            )
            cure = (
                f"Allow {name!r} as much, or have this bolt receive its streams of what is late,"
                " too."
            )
            yield Problem(f"{part.path}.config.allowedLateness", message, cure, "warning")


def _stricter(
    part: ComponentPart,
    allowed: int,
    by_name: Mapping[str, ComponentPart],
    taken: Mapping[str, int],
) -> Iterator[str]:
    """Components from which nothing so late comes, not even by their streams `late`."""
    found: dict[str, None] = {}
    led: set[str] = set()
    seen, todo = {part.name}, [part]
    while todo:
        for item in todo.pop().inputs:
            name = item.source or ""
            if taken.get(name, allowed) < allowed:
                (led.add if (item.stream or "").startswith(TOO_LATE) else found.setdefault)(name)
                continue
            source = by_name.get(name)
            if source is None or source.model is None or name in seen:
                continue
            seen.add(name)
            if source.model.event_time is None:  # else what is late is so by its own times
                todo.append(source)
    yield from (name for name in found if name not in led)


def _allowed(part: ComponentPart) -> int | None:
    """A component's own allowed lateness in milliseconds; None: not known, such as a variable."""
    duration = part.model.config.get("allowedLateness", "0") if part.model is not None else None
    is_one = isinstance(duration, str) and re.match(DURATION, duration)
    return milliseconds(str(duration)) if is_one else None


def _seconds(duration: int) -> str:
    return f"{duration / 1000:g} s"
