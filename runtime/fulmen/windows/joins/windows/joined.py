"""The interface of a join's windows, each with the rows of both sides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from fulmen.windows.joins.side_rows import Key, Row
from fulmen.windows.spans import Span

OfKey = tuple[list[Row], list[Row]]
"""The rows of both sides."""


class Due(NamedTuple):
    """A key's rows in a window, at its end, or when nothing more can come.

    Attributes:
        key: The key.
        span: The window.
        rows: Those of both sides.
        has_ended: Whether this is the window's end.
        is_over: Whether the window takes no more rows.
    """

    key: Key
    span: Span
    rows: OfKey
    has_ended: bool
    is_over: bool


class JoinedWindows(ABC):
    """The windows of one task."""

    @property
    def count(self) -> int:
        """How many keys and rows wait for one timer at most. Default: each has its own."""
        return 0

    @abstractmethod
    def live(self, time: int) -> Sequence[Span]:
        """The windows of a tuple that nothing else belongs to, but for those that are over.

        Raises:
            NoEdgesError: One has an edge that no datetime can be.
        """

    @abstractmethod
    def first(self, time: int) -> Span:
        """The first window of such a tuple, whether it is over or not.

        Raises:
            NoEdgesError: It has an edge that no datetime can be.
        """

    @abstractmethod
    def add(
        self, side: int, key: Key, time: int, row: Row
    ) -> Sequence[tuple[Span, Sequence[Row]]] | None:
        """A tuple has come.

        Returns:
            Those of its windows that have ended, with the rows of the other side; None: it is late.

        Raises:
            NoEdgesError: A window has an edge that no datetime can be.
        """

    @abstractmethod
    def end_batch(self) -> None:
        """Write what the batch has brought."""

    @abstractmethod
    def due(self, timer: Any, at: int) -> Generator[Due]:
        """A timer is due. What is over is forgotten.

        If there are more keys than there is room for in the batch, the timer is set again.
        """
