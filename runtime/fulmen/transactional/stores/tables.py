"""The tables of a map, the same in every SQL database.

    fulmen_maps   one row for each map: whose it is
    fulmen_marks  one row for each task of its bolt: the last attempt that was written
    <the map>     key, value, txid, task, attempt, and with the opaque rule previous

They are made together, and a table that stands there without its row in fulmen_maps is somebody
else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fulmen.transactional.errors import StoreUnavailable
from fulmen.transactional.maps import NAME, StoredMap
from fulmen.transactional.owners import Owner
from fulmen.transactional.rules import ABSENT, Row

MAPS, MARKS = "fulmen_maps", "fulmen_marks"
POSTGRES_TYPES = {
    "text": "text",
    "integer": "bigint",
    "float": "double precision",
    "bytes": "bytea",
    "json": "jsonb",
}
OWNER_COLUMNS = ("topology", "component", "rule", "key", "value", "layout")


def check_name(a_map: StoredMap, table: str) -> None:
    """Refuse a name that a table can't have, or that others would have to quote."""
    if not NAME.fullmatch(table) or table.startswith(("fulmen_", "sqlite_", "pg_")):
        a_map.refuse(
            f"a table can't be named {table!r}",
            "Write up to 50 of a-z, 0-9 and _, beginning with a letter; names that begin with"
            " fulmen_, sqlite_ or pg_ are taken.",
        )


def columns_of(owner: Owner) -> tuple[str, ...]:
    """The columns of a map, in their order."""
    columns = ("key", "value", "txid", "task", "attempt")
    return (*columns, "previous") if owner.rule == "opaque" else columns


def row_of(columns: Sequence[Any]) -> Row:
    """A row of what its columns behind the key have."""
    value, txid, task, attempt, *previous = columns
    kept = previous[0] if previous and previous[0] is not None else ABSENT
    return Row(value, txid, task, attempt, kept)


def must_be_made(a_map: StoredMap, table: str, found: Owner | None, exists: bool) -> bool:
    """Whether a map is new: neither its table nor its row in fulmen_maps is there.

    Args:
        a_map: The map.
        table: Its table.
        found: What fulmen_maps has.
        exists: Whether there is a table of that name.

    Raises:
        StoreRefused: The table is somebody else's.
        StoreUnavailable: It is gone.
    """
    if found is None and exists:
        a_map.refuse(
            f"there is a table {table!r} that Fulmen has not made",
            "It was not touched. Use another name for this bolt's map.",
        )
    if found is None:
        return True
    a_map.owner.refuse_other(a_map.where, found)
    if not exists:
        refuse_lost(a_map, table)
    return False


def refuse_lost(a_map: StoredMap, table: str) -> NoReturn:
    """Refuse a map whose table was there."""
    raise StoreUnavailable(
        a_map.where,
        f"its table {table!r} is gone",
        "Restore it. To begin with an empty one instead, delete the map's rows in"
        f" {MARKS} and {MAPS}: the next message says what else to do.",
    )
