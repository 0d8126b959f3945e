"""The places of windows of many keys in the state: a window's changes are written at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from itertools import compress, islice, repeat
from typing import Any

from fulmen.windows.spans import Span

MANY = 8
"""If more than one in so many keys has changed, all keys of the window are gone through."""
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
        written: Callable[[Sequence[Any]], Iterable[Any]] = iter,
    ) -> None:
        """Write the changes of a window.

        Args:
            span: The window.
            window: What is kept of it, by key, in the order of arrival.
            changed: The keys that have changed.
            written: Makes the form that is written. Default: the same.
        """
        keys = self._keys.setdefault(span, [])
        keys += zip(repeat(span[0]), islice(window, len(keys), None), strict=False)
        if MANY * len(changed) > len(keys):
            has_changed = list(map(changed.__contains__, window))
            keys = list(compress(keys, has_changed))
            some = list(compress(window.values(), has_changed))
        else:
            keys = [(span[0], plain) for plain in changed]
            some = [window[plain] for plain in changed]
        self._state.update(zip(keys, written(some), strict=True))

    def delete(self, span: Span, most: int | None = None) -> None:
        """Delete the first rows of a window, which are written. None: all of them."""
        state, keys = self._state, self._keys.pop(span, [])
        if most is not None and most < len(keys):
            self._keys[span] = keys[most:]
            del keys[most:]
        for key in keys:
            del state[key]
