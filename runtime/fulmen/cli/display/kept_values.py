"""State of a component in a checkpoint, as text: values, windows, timers. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fulmen.engine.state.committed_state import CommittedState
from fulmen.engine.state.values.key_text import shown_key
from fulmen.engine.totals.event_time import said
from fulmen.windows.shown import ShownWindow, shown_windows
from fulmen.windows.windowed.task_windows import TUPLES

MANY = 10
"""A collection of more values is not shown whole where each window has a line."""


@dataclass(frozen=True)
class ShownRow:
    """A window or a timer, for people and for programs."""

    line: str
    content: dict[str, Any]


@dataclass(frozen=True)
class StateEntry:
    """One key of the state of one task, or one of its fields."""

    key: Any
    value: Any
    task: int


def state_lines(entries: Sequence[StateEntry]) -> Iterator[str]:
    """A line for each entry: its key, and the value where all of them begin."""
    keys = [shown_key(entry.key) for entry in entries]
    width = min(40, max(map(len, keys), default=0))
    for key, entry in zip(keys, entries, strict=True):
        yield f"{key:{width}}  {shown(entry.value)}"


def field_lines(entries: Sequence[StateEntry]) -> Iterator[str]:
    """A line for each field of each task."""
    width = max((len(str(entry.key)) for entry in entries), default=0)
    for entry in entries:
        yield f"task {entry.task}  {entry.key!s:{width}}  {shown(entry.value)}"


def windows_of(state: CommittedState, key: str | None) -> Sequence[ShownRow]:
    """The windows that are open; only those of the key that is written like this, if given."""
    windows = [
        (window, task)
        for task, items in state.tasks.items()
        for one, value in items.items()
        for window in shown_windows(one, value)
        if key in (None, _key_text(window.key))
    ]
    windows.sort(key=lambda one: (one[0].start, _key_text(one[0].key)))
    return [_window_row(window, task) for window, task in windows]


def is_of_window(place: Any, value: Any, key: str) -> bool:
    """Whether an entry of a bolt's state belongs to windows of the key that is written like this.

    Those of an Aggregate, or of a WindowedBolt, which keeps each tuple.
    """
    if any(key == _key_text(window.key) for window in shown_windows(place, value)):
        return True
    if not (isinstance(place, tuple) and len(place) == 3 and isinstance(place[1], tuple)):
        return False
    return bool(place[0] == TUPLES) and key == _key_text(place[1])


def _window_row(window: ShownWindow, task: int) -> ShownRow:
    until = "" if window.end is None else f" to {said(window.end)}"
    line = f"{said(window.start)}{until}  {_key_text(window.key)}  {brief(window.kept)}"
    content = {
        "key": list(window.key),
        "window_start": window.start,
        "window_end": window.end,
        "value": window.kept,
        "task": task,
    }
    return ShownRow(line, content)


def _key_text(key: tuple[Any, ...]) -> str:
    return ", ".join(map(shown, key))


def timers_of(state: CommittedState, key: str | None) -> Sequence[ShownRow]:
    """The timers, the next one first; only that of the key that is written like this, if given."""
    timers: list[tuple[int | float, Any, int]] = [
        (at, one, task)
        for task, items in state.tasks.items()
        for one, at in items.items()
        if key in (None, shown(one))
    ]
    timers.sort(key=lambda timer: (isinstance(timer[0], float), timer[0], shown(timer[1])))
    return [
        ShownRow(f"{_due(at)}  {shown(one)}", {"key": one, "at": at, "task": task})
        for at, one, task in timers
    ]


def _due(at: float) -> str:
    return f"at {at:,.1f} s of the batch clock" if isinstance(at, float) else said(at)


def plain(value: Any) -> Any:
    """Turn a value into JSON's types; other objects, and keys that are no text, become `repr()`."""
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
