"""The statements of a sink, as what executes them sees them."""

from __future__ import annotations

from typing import Protocol

from psycopg.sql import Composed


class Statements(Protocol):
    """What is executed."""

    @property
    def insert(self) -> Composed:
        """Adds or replaces rows, given an array for each column."""
        ...

    @property
    def copy(self) -> Composed:
        """Adds rows."""
        ...

    @property
    def delete(self) -> Composed:
        """Deletes rows, given an array for each column of the key."""
        ...

    @property
    def delete_null(self) -> Composed:
        """The same for keys that have nulls."""
        ...

    @property
    def ranks(self) -> Composed | None:
        """Numbers keys, given the same arrays. None: it does not matter which rows are equal."""
        ...

    @property
    def present(self) -> Composed:
        """A row of the table, as text."""
        ...

    @property
    def behind(self) -> Composed:
        """Something, if the table has triggers that are called after rows were inserted."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether `insert` may change a row that is there instead."""
        ...
