"""Fixed windows whose state is on disk: in memory is what a batch has to do with, and no more.

The keys of a window that ends come in the order of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typing_extensions import override

from fulmen.windows.aggregate.kinds.fixed import FixedWindows, written_form
from fulmen.windows.aggregate.kinds.panes import Kept, Key
from fulmen.windows.disk import on_disk
from fulmen.windows.pages import WindowPage
from fulmen.windows.spans import Span


class DiskWindows(FixedWindows):
    """Tumbling, sliding and calendar windows of one task, on disk."""

    _open: dict[Span, dict[Any, Kept]]

    @override
    def _begin(self) -> None:
        self._disk = on_disk(self._state)
        self._open = _OpenWindows(self)

    @override
    def _known(self, span: Span, keys: Iterable[Any]) -> Iterable[Kept | None]:
        keys = list(keys)
        self._disk.fetch((span[0], key) for key in keys)  # at once it takes a third of the time
        return super()._known(span, keys)

    def of_key(self, span: Span, plain: Any) -> Kept | None:
        """What the state has of a key in a window."""
        written = self._state.get((span[0], plain))
        return None if written is None else self._read(written)

    def has_keys(self, span: Span) -> bool:
        """Whether a window has keys: then it has a timer."""
        return self._timers.get(span) is not None

    @override
    def end_batch(self) -> None:
        self._add_up()
        for span, some in self._changed.items():
            keys = ((span[0], plain) for plain in some)
            self._state.update(zip(keys, written_form(list(some.values())), strict=True))
        self._changed = {}
        self._open.clear()
        self._forget_place()

    @override
    def _drop(self, span: Span) -> None:
        self._open.pop(span, None)
        self._disk.forget(self._given)

    @override
    def _go_on_later(self, span: Span, page: WindowPage, *, drops: bool) -> None:
        given = self._given[: page.taken]
        self._seen[span] = given[-1]
        if drops:
            self._disk.forget(given)

    @override
    def _of_span(self, span: Span, *, goes_on: bool) -> Iterator[tuple[Key, Any, Kept]]:
        after = self._seen.get(span) if goes_on else None
        self._given: list[Any] = []
        for key, written in self._disk.items_of(span[0], after=after):
            self._given.append(key)
            plain = key[1]
            yield (plain,) if self._has_plain_keys else plain, plain, self._read(written)


class _OpenWindows(dict[Span, dict[Any, Kept]]):
    """All windows there may be. Those that a batch has asked for are at hand."""

    def __init__(self, windows: DiskWindows) -> None:
        super().__init__()
        self._windows = windows

    def __missing__(self, span: Span) -> dict[Any, Kept]:
        found = self[span] = _KeysOfWindow(self._windows, span)
        return found

    @override
    def get(self, span: Span, default: Any = None) -> Any:
        return self[span]

    @override
    def setdefault(self, span: Span, default: Any = None) -> Any:
        return self[span]


class _KeysOfWindow(dict[Any, Any]):
    """What is kept of each key of a window; None: nothing. Those asked for are at hand."""

    def __init__(self, windows: DiskWindows, span: Span) -> None:
        super().__init__()
        self._windows, self._span = windows, span

    def __missing__(self, plain: Any) -> Kept | None:
        found = self[plain] = self._windows.of_key(self._span, plain)
        return found

    @override
    def get(self, plain: Any, default: Any = None) -> Any:
        return self[plain]

    @override
    def __contains__(self, plain: object) -> bool:
        return self[plain] is not None

    def __bool__(self) -> bool:
        return self._windows.has_keys(self._span)
