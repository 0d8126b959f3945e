"""What a system provides of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

Rows = Sequence[Sequence[Any]]
Matches = Literal["all", "first", "last"]
"""Which rows of a key count, in the table's order."""


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


class UnreadRow(NamedTuple):
    """A row that is there, and can't be read.

    Attributes:
        key: Its key.
        reason: Why.
    """

    key: Sequence[Any]
    reason: str


class AskedTable(ABC):
    """A table that is asked for the rows of keys. One thread uses it at a time.

    All methods raise ServiceUnavailable if it can't be asked; then they are called again.

    Attributes:
        tells_changes: Whether `version` is another one after each change.
    """

    tells_changes: bool

    @abstractmethod
    def check(self) -> None:
        """See that the table is there, and can be asked by its key."""

    @abstractmethod
    def version(self) -> Hashable:
        """What it is like now. Called at the beginning of each batch."""

    @abstractmethod
    def rows_of(self, keys: Sequence[Sequence[Any]]) -> Iterable[Sequence[Any] | UnreadRow]:
        """All rows of these keys, with the columns of the options in their order.

        Rows of other keys may be among them. A key is never equal to a row's that Python takes for
        another one, such as the text "7" and the number 7.
        """
