"""What a table has to be like: mistakes that are found before anything is written or read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fulmen.services.errors import StoreRefused

MARKS = "fulmen_sink_marks"
"""The table of marks, in the schema of the sink's own table."""
MARK_COLUMNS = ("sink", "number", "tag", "label", "refused")
WRITTEN = " that can be written"
COLUMNS_TOLD = 40


def cure_of_absence(first: str, create: Mapping[str, str] | None) -> str:
    """What to do about a table that is not there.

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
    """Refuse columns that a table does not have.

    Args:
        where: Which table, where.
        wanted: The columns that are needed.
        found: Those that there are.
        purpose: What they are needed for.

    Raises:
        StoreRefused: One is missing.
    """
    missing = [column for column in wanted if column not in found]
    if not missing:
        return
    listed = ", ".join(map(repr, found[:COLUMNS_TOLD])) + (", …" if found[COLUMNS_TOLD:] else "")
    raise StoreRefused(
        where,
        f"it has no column {missing[0]!r}{purpose}, only {listed}",
        "Correct the name, or add the column.",
    )


def check_unwritten(where: str, needed: Sequence[str], written: Sequence[str]) -> None:
    """Refuse a table that has a column that must have a value and would get none.

    Args:
        where: Which table, where.
        needed: Columns that are NOT NULL and have no default.
        written: The columns that are to be written.

    Raises:
        StoreRefused: There is one: every row would be refused.
    """
    missing = [column for column in needed if column not in written]
    if missing:
        raise StoreRefused(
            where,
            f"column {missing[0]!r} is NOT NULL, has no default, and no field goes there",
            "Emit such a field, or give the column a default.",
        )


def check_marks(where: str, found: Sequence[str]) -> None:
    """Refuse a table that is named like the table of marks, and is another one.

    Raises:
        StoreRefused: It has other columns.
    """
    if sorted(found) != sorted(MARK_COLUMNS):
        raise StoreRefused(
            where,
            f"beside it is a table {MARKS!r} that Fulmen has not made: it has the columns"
            f" {', '.join(map(repr, found))}",
            "It was not touched. Rename that table: exactly-once keeps its marks under this name.",
        )
