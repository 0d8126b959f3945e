"""Where in the state windows of many keys are: what has changed of them is written in one go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping
from itertools import islice, repeat
from typing import Any

from fulmen.windows.spans import Span

MANY = 8
"""If more than one of so many keys has changed, all keys of the window are gone through."""
StateKey = tuple[int, Any]


class StateRows:
    """The rows of the state that windows have: start of a window and key -> what is kept.

    The very keys that the state has are known, in the order in which they came to their window.
    Another tuple of the same two would have to be made, and compared with the state's, for each
    row; and to read memory in the order in which it was taken is several times as fast.
    """

    def __init__(self, state: MutableMapping[Any, Any]) -> None:
        self._state = state
        self._keys: dict[Span, list[StateKey]] = {}

    def add(self, span: Span, key: StateKey) -> None:
        """Know a row that is in the state: the next one of its window."""
        self._keys.setdefault(span, []).append(key)

    def write(
        self,
        span: Span,
        window: Mapping[Any, Any],
        changed: Collection[Any],
        written: Callable[[Any], Any] | None = None,
    ) -> None:
        """Write what has changed of a window.

        Args:
            span: When it is.
            window: All that is kept of it, by key: what came first is first.
            changed: The keys that have changed.
            written: Makes of what is kept what is written; None: that is the same.
        """
        keys = self._keys.setdefault(span, [])
        keys += zip(repeat(span[0]), islice(window, len(keys), None), strict=False)
        if MANY * len(changed) > len(keys):
            rows = zip(keys, window.items(), strict=True)
            found = [(key, kept) for key, (plain, kept) in rows if plain in changed]
        else:
            found = [((span[0], plain), window[plain]) for plain in changed]
        if written is not None:
            found = [(key, written(kept)) for key, kept in found]
        self._state.update(found)

    def delete(self, span: Span) -> None:
        """Delete all rows of a window, which are written."""
        state = self._state
        for key in self._keys.pop(span, ()):
            del state[key]
