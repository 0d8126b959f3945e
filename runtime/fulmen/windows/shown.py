"""Shows the windows in a bolt's state, for people who look into a checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class ShownWindow(NamedTuple):
    """A window of a key.

    Attributes:
        key: The values of the key.
        start: The start, in milliseconds since 1970.
        end: The end; None: the size tells it.
        kept: What is kept of it.
    """

    key: tuple[Any, ...]
    start: int
    end: int | None
    kept: Any


def shown_windows(key: Any, value: Any) -> Iterator[ShownWindow]:
    """The windows that an entry of the keyed state of an `Aggregate` holds.

    Nothing, if it is of another bolt, or of windows by count, which have no times of their own.
    """
    if not isinstance(key, tuple) or len(key) != 2:
        return
    place, of = key
    of = of if isinstance(of, tuple) else (of,)
    if place == "session" and isinstance(value, Mapping):
        for (start, end), kept in sorted(value.items(), key=lambda one: one[0]):
            yield ShownWindow(of, start, end, kept[:-1])
    elif isinstance(place, int):
        yield ShownWindow(of, place, None, value)
