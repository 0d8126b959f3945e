"""The table of a sink: mistakes are found before anything is written.

Beside it is the table of marks, if there is to be one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from fulmen.api.components.sinks import Mark, Rows
from fulmen.connectors.formats import Malformed
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.errors import PASSED_ON, error_text
from fulmen.services.errors import StoreRefused
from fulmen.services.sql.names import listed, quoted

MARKS = "fulmen_sink_marks"
"""The table of marks, in the schema of the sink's own table."""
MARK_COLUMNS = {
    "sink": "text PRIMARY KEY",
    "number": "bigint NOT NULL",
    "tag": "text NOT NULL",
    "label": "text NOT NULL",
    "refused": "text NOT NULL",
}
COLUMNS_TOLD = 40


class KeptMark(NamedTuple):
    """A mark as the database has it. All is None if it has none."""

    number: int | None = None
    tag: str | None = None
    refused: str | None = None


class SqlTransaction(ABC):
    """One transaction of the database."""

    @abstractmethod
    def locked_mark(self, mark: Mark) -> KeptMark:
        """The mark of a sink's task, locked until the transaction ends."""

    @abstractmethod
    def keep(self, mark: Mark, refused: str) -> None:
        """Write the mark."""

    @abstractmethod
    def write(self, items: Sequence[Sequence[Any]]) -> Mapping[int, str]:
        """Write all rows but those that the database refuses. Returns why, by position."""

    @abstractmethod
    def delete(self, items: Sequence[Sequence[Any]]) -> Mapping[int, str]:
        """Delete what has the keys of these rows, but where the database refuses that."""


class FoundColumn(NamedTuple):
    """A column that a table has.

    Attributes:
        name: Its name.
        is_writable: Whether it is not generated.
        is_needed: Whether a row without it is refused: it is NOT NULL and has no default.
        about: What else the database says of it.
    """

    name: str
    is_writable: bool
    is_needed: bool
    about: Sequence[Any]


class SqlTable(ABC):
    """A table.

    Attributes:
        where: Which table, and where: the first words of messages.
        options: Of the sink.
        names: The columns that are written, in the order of an item's values.
        key: Which of these are the key of an upsert.
        may_delete: Whether its rows may be deleted: nobody must have that right if no field says
            that some are.
    """

    may_delete = True
    hint = ""
    """Another thing to look at if there is no such table."""

    def __init__(self, where: str, options: TableSinkOptions, names: Sequence[str]) -> None:
        self.where, self.options, self.names = where, options, names
        self.key = [names.index(column) for column in options.key]

    @abstractmethod
    def transaction(self) -> AbstractContextManager[SqlTransaction]:
        """A transaction, which takes back everything if it ends with an exception.

        Raises:
            ServiceUnavailable: The database is away, or does not take it for now.
        """

    @abstractmethod
    def found_columns(self, db: Any, table: str) -> list[FoundColumn]:
        """The columns of a table; [] if there is none."""

    @abstractmethod
    def create(self, db: Any, table: str, columns: str) -> None:
        """Make a table, unless somebody else was faster."""

    @abstractmethod
    def encode_column(
        self, number: int, values: Sequence[Any], refuse: Callable[[int, str], None]
    ) -> Sequence[Any]:
        """The values of a column as the database takes them.

        Args:
            number: Which of `names`.
            values: One for each row.
            refuse: Is told of a row whose value does not fit, and why.
        """

    def encode(self, columns: Sequence[Sequence[Any]], rows: Rows) -> Sequence[Sequence[Any]]:
        """Encode rows, given the values of each of `names`."""
        encoded = [self.encode_column(i, values, rows.fail) for i, values in enumerate(columns)]
        return list(zip(*encoded, strict=True))

    def look(self, db: Any) -> dict[str, FoundColumn]:
        """See that the table takes the columns. Makes it if it is not there and is to be made.

        Raises:
            StoreRefused: It does not.
        """
        options = self.options
        found = self.found_columns(db, options.table)
        if not found and options.create:
            columns = [f"{quoted(name)} {kind}" for name, kind in options.create.items()]
            if options.key:
                columns.append(f"PRIMARY KEY ({listed(options.key)})")
            self.create(db, options.table, ", ".join(columns))
            found = self.found_columns(db, options.table)
        if not found:
            cure = cure_of_absence("Make it first", options.create) + self.hint
            raise StoreRefused(self.where, "there is no such table", cure)
        writable = [column.name for column in found if column.is_writable]
        check_columns(self.where, self.names, writable, " that can be written")
        for column in found:
            if column.is_needed and column.name not in self.names:
                raise StoreRefused(
                    self.where,
                    f"column {column.name!r} is NOT NULL, has no default, and no field goes there",
                    "Emit such a field, or give the column a default.",
                )
        return {column.name: column for column in found}

    def make_marks(self, db: Any, table: str) -> None:
        """Make the table of marks if it is not there; else see that it is one.

        Raises:
            StoreRefused: It has other columns.
        """
        if not (found := self.found_columns(db, table)):
            columns = ", ".join(f"{name} {kind}" for name, kind in MARK_COLUMNS.items())
            self.create(db, table, columns)
            found = self.found_columns(db, table)
        names = [column.name for column in found]
        if sorted(names) != sorted(MARK_COLUMNS):
            raise StoreRefused(
                self.where,
                f"beside it is a table {MARKS!r} that Fulmen has not made: it has the columns"
                f" {', '.join(map(repr, names))}",
                "It was not touched. Rename that table: exactly-once keeps its marks under this"
                " name.",
            )


def cure_of_absence(first: str, create: Mapping[str, str] | None) -> str:
    """Say what to do about a table that is not there.

    Args:
        first: What else may be done.
        create: The option. Empty: the table was there before, so it is not made anew.
    """
    if create is None:
        return f"{first}, or let the sink make it: write create."
    return "It was there before. Restore it, or, to go on with an empty one, make the table."


def check_columns(
    where: str, wanted: Sequence[str], found: Sequence[str], purpose: str = ""
) -> None:
    """Refuse columns that a table does not have, and may be needed for a purpose.

    Raises:
        StoreRefused: One is missing.
    """
    missing = [column for column in wanted if column not in found]
    if not missing:
        return
    told = ", ".join(map(repr, found[:COLUMNS_TOLD])) + (", …" if found[COLUMNS_TOLD:] else "")
    raise StoreRefused(
        where,
        f"it has no column {missing[0]!r}{purpose}, only {told}",
        "Correct the name, or add the column.",
    )


def on_conflict(options: TableSinkOptions, names: Sequence[str]) -> str:
    """The end of an INSERT of these columns."""
    if options.mode != "upsert":
        return ""
    others = [quoted(name) for name in names if name not in options.key]
    sets = ", ".join(f"{name} = excluded.{name}" for name in others)
    action = f"UPDATE SET {sets}" if others else "NOTHING"
    return f" ON CONFLICT ({listed(options.key)}) DO {action}"


def each_value(
    column: str,
    values: Sequence[Any],
    made: Callable[[Any], Any],
    refuse: Callable[[int, str], None],
) -> list[Any]:
    """Make a column's values, one by one; None where a row is refused."""
    made_values: list[Any] = []
    for i, value in enumerate(values):
        try:
            made_values.append(made(value))
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (of an author's class)
            text = str(error) if isinstance(error, Malformed) else error_text(error)
            refuse(i, f"column {column!r}: {text}")
            made_values.append(None)
    return made_values
