"""What a system provides of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

Rows = Sequence[Sequence[Any]]


class TableError(Exception):
    """A table can't be read as it is. The text says why; it may be mended."""


class Seen(NamedTuple):
    """What a table was like when it was looked at.

    Attributes:
        place: What is there. If it has changed, another whole table has taken the place.
        version: If only this has changed, the table may be half written.
        is_young: Whether it may change without another version yet, as clocks are coarse.
    """

    place: Hashable
    version: Hashable = None
    is_young: bool = False


class LookupTable(ABC):
    """A table that may change at any moment. One thread uses it at a time.

    Attributes:
        name: What it is, for people: "file 'prices.csv'".
    """

    name: str

    @abstractmethod
    def look(self) -> Seen:
        """What it is like now.

        Raises:
            TableError, OSError: It is not there.
        """

    @abstractmethod
    def read(self) -> Iterator[Rows]:
        """All of its rows, with the columns of its options in their order.

        Raises:
            TableError, OSError: It can't be read as it is.
        """
