"""Windows and timers out of a checkpoint, as text. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from fulmen.engine.state.committed_state import CommittedState
from fulmen.engine.totals.event_time import said
from fulmen.errors import FulmenError
from fulmen.windows.shown import ShownWindow, shown_windows

MANY = 10
"""A collection of more values is not shown whole where each window has a line."""

Timer = tuple[int | float, Any, int]
"""When it is due, its key, and its task."""


def of_time(
    state: CommittedState, component: str, key: str | None, *, is_timers: bool, as_json: bool
) -> Iterator[str]:
    """The lines for windows or timers of a component.

    Args:
        state: Its keyed state, or its timers.
        component: Its name.
        key: Only those of the key that is written like this.
        is_timers: They are timers.
        as_json: One line with all of them.

    Raises:
        FulmenError: There are none.
    """
    found = _timers(state, key) if is_timers else _windows(state, key)
    if not found and not as_json:
        of = "" if key is None else f" of the key {key!r}"
        what = "timers" if is_timers else "open windows of an Aggregate"
        raise FulmenError(f"component {component!r} has no {what}{of}.")
    if as_json:
        yield json.dumps([plain(content) for _, content in found], indent=2, ensure_ascii=False)
    else:
        yield from (line for line, _ in found)


def _windows(state: CommittedState, key: str | None) -> list[tuple[str, dict[str, Any]]]:
    windows = [
        (window, task)
        for task, items in state.tasks.items()
        for one, value in items.items()
        for window in shown_windows(one, value)
        if key in (None, _key_text(window.key))
    ]
    windows.sort(key=lambda one: (one[0].start, _key_text(one[0].key)))
    return [(_line(window), {**_as_dict(window), "task": task}) for window, task in windows]


def is_of_window(place: Any, value: Any, key: str) -> bool:
    """Whether an entry of a bolt's state belongs to windows of the key that is written like this.

    Those of an Aggregate, or of a WindowedBolt, which keeps each tuple.
    """
    if any(key == _key_text(window.key) for window in shown_windows(place, value)):
        return True
    if not isinstance(place, tuple) or len(place) != 2 or not isinstance(place[0], tuple):
        return False
    of, number = place
    return (number is None or isinstance(number, int)) and key == _key_text(of)


def _as_dict(window: ShownWindow) -> dict[str, Any]:
    return {
        "key": list(window.key),
        "window_start": window.start,
        "window_end": window.end,
        "value": window.kept,
    }


def _line(window: ShownWindow) -> str:
    until = "" if window.end is None else f" to {said(window.end)}"
    return f"{said(window.start)}{until}  {_key_text(window.key)}  {brief(window.kept)}"


def _key_text(key: tuple[Any, ...]) -> str:
    return ", ".join(map(shown, key))


def _timers(state: CommittedState, key: str | None) -> list[tuple[str, dict[str, Any]]]:
    timers: list[Timer] = [
        (at, one, task)
        for task, items in state.tasks.items()
        for one, at in items.items()
        if key in (None, shown(one))
    ]
    timers.sort(key=lambda timer: (isinstance(timer[0], float), timer[0], shown(timer[1])))
    return [
        (f"{_due(at)}  {shown(one)}", {"key": one, "at": at, "task": task})
        for at, one, task in timers
    ]


def _due(at: float) -> str:
    return f"at {at:,.1f} s of the batch clock" if isinstance(at, float) else said(at)


def plain(value: Any) -> Any:
    """What JSON can hold; other objects, and keys that are no text, as their `repr()`."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {k if isinstance(k, str) else repr(k): plain(v) for k, v in value.items()}
    return repr(value)


def brief(value: Any) -> str:
    """A value as text for a line: of a large collection how many it has."""
    if isinstance(value, tuple) and len(value) <= MANY:
        return f"({', '.join(map(brief, value))})"
    if isinstance(value, list | tuple | set | frozenset | dict) and len(value) > MANY:
        return f"<{len(value):,} values>"
    return repr(value)


def shown(value: Any) -> str:
    """A key or a value as text."""
    return value if isinstance(value, str) else repr(value)
