"""Names as statements of SQL have them."""

from collections.abc import Iterable


def quoted(name: str) -> str:
    """Quote a name."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Several names."""
    return ", ".join(map(quoted, names))


def qualified(table: str) -> str:
    """The name of a table, which may have the one of its schema before it: `schema.table`."""
    schema, _, name = table.rpartition(".")
    return f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)
