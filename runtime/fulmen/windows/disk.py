"""What windows and joins ask of a keyed state that is on disk, besides what a mapping has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from typing import Any, Protocol


class StateOnDisk(Protocol):
    """A keyed state on disk."""

    def fetch(self, keys: Iterable[Any]) -> None:
        """Have the values of these keys at hand."""
        ...

    def items_of(self, *parts: Any, after: Any = None) -> Iterator[tuple[Any, Any]]:
        """All entries whose keys are tuples that begin with these parts, in the order of keys.

        Args:
            parts: The parts.
            after: Begin with the keys that come after this one. None: with the first.
        """
        ...

    def keys_of(self, *parts: Any) -> Iterator[Any]:
        """Their keys as of the last commit."""
        ...

    def key_pages(self) -> Iterator[Collection[Any]]:
        """All keys, some at a time. Between two of these, entries may change."""
        ...

    def forget(self, keys: Iterable[Any]) -> None:
        """Delete keys."""
        ...


def is_on_disk(state: MutableMapping[Any, Any]) -> bool:
    """Whether a keyed state is on disk."""
    return hasattr(state, "items_of")


def on_disk(state: Any) -> StateOnDisk:
    """A keyed state that is on disk."""
    disk: StateOnDisk = state
    return disk
